// Services of several nodes, in one process: each has its own local storage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <map>
#include <thread>

#include "base/io/file.h"
#include "base/io/temporary_directory.h"
#include "store/pack/packer.h"
#include "store/service/service.h"
#include "store/testing/store_case.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

using testing::Contains;
using testing::HasSubstr;

class PeerServices : public StoreCase {
 protected:
  void SetUp() override {
    StoreCase::SetUp();
    for (uint32_t i = 0; i < 40; ++i) add(fmt::format("d{}/noise{}", i % 3, i), noise(i, 900 * i));
    for (uint32_t i = 0; i < 10; ++i) {
      add(fmt::format("text{}", i), std::string(30'000 * i, static_cast<char>('a' + i)));
    }
    add("long", noise(99, (5 << 20) + 7));
    std::string words;
    while (words.size() < (12u << 20)) words += noise(words.size(), 24) + "and so on and on";
    add("compressed", words);
    add("val/one", "for every node");
  }

  void add(const std::string& name, const std::string& bytes) {
    put_file(top_ / "source" / name, bytes);
    files_[name] = bytes;
  }

  void pack(uint32_t partitions) {
    PackOptions options{
        .source = top_ / "source", .directory = top_ / "packs", .broadcast = {"val/**"}};
    options.partition_count = partitions;
    pack_files(options);
  }

  // Each node has only its own partitions, and there is no origin, unless `sees_all`.
  void start(uint32_t count, uint32_t replicas, bool sees_all = false) {
    if (!sees_all) fs::remove_all(top_ / "source");
    JobPlaces places;
    places.make(count);
    for (uint32_t i = 0; i < count; ++i) {
      ServiceOptions options;
      options.packs = sees_all ? top_ / "packs" : own_packs(i, count, replicas);
      options.root = "/data";
      options.local = top_ / fmt::format("n{}", i);
      fs::create_directories(options.local);
      options.capacity_bytes = 1 << 30;
      options.job = places.table.job;
      options.replica_count = replicas;
      options.thread_count = 4;
      options.log = logger();
      auto service = Service::start(std::move(options), places.options(i));
      ASSERT_TRUE(service.ok()) << service.error().message();
      services_.push_back(*std::move(service));
    }
  }

  // A pack with the partitions of one node.
  fs::path own_packs(uint32_t rank, uint32_t count, uint32_t replicas) {
    const fs::path own = top_ / fmt::format("packs{}", rank);
    const auto catalogue = Catalogue::open(top_ / "packs" / kCatalogueName);
    EXPECT_TRUE(catalogue.ok());
    fs::create_directories(own);
    fs::copy_file(top_ / "packs" / kCatalogueName, own / kCatalogueName);
    const Placement placement(*catalogue, count, replicas);
    for (uint32_t i = 0; i < catalogue->partition_count(); ++i) {
      if (!placement.holds(static_cast<Rank>(rank), i)) continue;
      const std::string name(catalogue->partition_name(i));
      fs::create_hard_link(top_ / "packs" / name, own / name);
    }
    return own;
  }

  int ask_for(Service& service, const std::string& name) {
    const auto entry = service.catalogue().find(name);
    return entry ? ask_node(service.node(), *entry) : -1;
  }

  void expect_all_files_on(Service& service) {
    for (const auto& [name, bytes] : files_) {
      ASSERT_EQ(ask_for(service, name), 0) << name;
      const auto found = read_file((service.node() / "tree" / name).string());
      ASSERT_TRUE(found.ok()) << name;
      ASSERT_TRUE(*found == bytes) << name;
    }
  }

  std::map<std::string, std::string> files_;
  std::vector<std::unique_ptr<Service>> services_;
};

TEST_F(PeerServices, EveryNodeHasAllFilesOfFourPartitionsOnThreeNodes) {
  pack(4);
  start(3, 1);
  for (const auto& service : services_) {
    expect_all_files_on(*service);
    EXPECT_GT(service->counters().peer_files, 0u);
    EXPECT_LT(service->counters().peer_files, files_.size());
    EXPECT_EQ(service->counters().materialised, files_.size());
  }
  EXPECT_TRUE(lines_.empty()) << lines_[0];
}

TEST_F(PeerServices, OnePartitionServesAllNodes) {
  pack(1);
  start(3, 1);
  for (const auto& service : services_) expect_all_files_on(*service);
  EXPECT_EQ(services_[0]->counters().peer_files, 0u);
}

TEST_F(PeerServices, AReplicaReplacesALostNode) {
  pack(5);
  start(3, 2);
  services_[1].reset();
  expect_all_files_on(*services_[0]);
  expect_all_files_on(*services_[2]);
  EXPECT_THAT(lines_, Contains(HasSubstr("node2 (rank 1) is lost")));
  EXPECT_LE(lines_.size(), 2u);  // one for each service
}

TEST_F(PeerServices, WithoutAReplicaThePackAndTheOriginReplaceIt) {
  pack(3);
  start(3, 1, /*sees_all=*/true);
  services_[1].reset();
  expect_all_files_on(*services_[0]);
  EXPECT_EQ(services_[0]->counters().origin_files, 0u);
}

TEST_F(PeerServices, WithoutAnythingElseTheErrorNamesFileAndNode) {
  pack(3);
  start(3, 1);
  services_[1].reset();
  std::string lost;
  const Catalogue& catalogue = services_[0]->catalogue();
  for (const auto& [name, bytes] : files_) {
    if (catalogue.entry(*catalogue.find(name)).partition == 1) lost = name;
  }
  ASSERT_FALSE(lost.empty());
  EXPECT_EQ(ask_for(*services_[0], lost), EIO);
  EXPECT_THAT(lines_, Contains(testing::AllOf(HasSubstr(lost), HasSubstr("node2 (rank 1)"))));
}

TEST_F(PeerServices, KilledInTheMiddleOfReadsNothingIsWrong) {
  pack(6);
  start(3, 2);
  std::thread ends([&] { services_[2].reset(); });
  expect_all_files_on(*services_[0]);
  expect_all_files_on(*services_[1]);
  ends.join();
}

TEST_F(PeerServices, CopiesOwnPartitionsToTheNodesStorage) {
  auto memory = TemporaryDirectory::create("/dev/shm", "mr-");
  ASSERT_TRUE(memory.ok());
  pack(2);
  const auto reader = PackReader::open(top_ / "packs");
  ASSERT_TRUE(reader.ok());
  HeldPartitions held(*reader, {.directory = memory->path() / "packs",
                                .numbers = {0, 1},
                                .budget_bytes = reader->catalogue().partition(0).file_bytes,
                                .log = {}});
  if (held.reserved_bytes() == 0) GTEST_SKIP() << "/tmp and /dev/shm are one file system";
  EXPECT_EQ(held.reserved_bytes(), reader->catalogue().partition(0).file_bytes);
  ASSERT_TRUE(held.start().ok());
  while (!fs::exists(memory->path() / "packs" / reader->catalogue().partition_name(0))) {
    std::this_thread::yield();
  }
  BlockCodec codec;
  for (const auto& [name, bytes] : files_) {
    const uint32_t index = *reader->catalogue().find(name);
    const auto packed = held.packed(index);
    if (reader->catalogue().entry(index).partition > 1) continue;
    ASSERT_TRUE(packed.ok());
    std::string found;
    ASSERT_TRUE(reader
                    ->decode_blocks(index, *packed, codec,
                                    [&](ByteView block) -> Status {
                                      found += text_of(block);
                                      return {};
                                    })
                    .ok());
    EXPECT_TRUE(found == bytes) << name;
  }
}

}  // namespace
}  // namespace millrace::store
