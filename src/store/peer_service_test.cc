// Services of several nodes, in one process: each has its own local storage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <map>
#include <thread>

#include "base/file.h"
#include "base/temporary_directory.h"
#include "store/packer.h"
#include "store/service.h"
#include "store/testing/store_case.h"
#include "wire/store_name.h"

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

  // As a program of this node does it.
  void create(Service& service, const std::string& name, const std::string& bytes) {
    ASSERT_EQ(ask(service, wire::kRootEntry, wire::StoreRequestKind::kWatch), 0);
    const fs::path temporary = service.node() / "tree" / "being-written";
    std::ofstream(temporary, std::ios::binary) << bytes;
    fs::rename(temporary, service.node() / "tree" / name);
  }

  int ask(Service& service, uint64_t entry, wire::StoreRequestKind kind) {
    return ask_node(service.node(), entry, kind);
  }

  // All nodes know afterwards what programs of this one did.
  void share(Service& service) { ASSERT_EQ(ask(service, 0, wire::StoreRequestKind::kShare), 0); }

  static std::vector<std::string> names_in(const fs::path& directory) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  static bool is_name(const Service& service, const std::string& name) {
    return fs::exists(fs::symlink_status(service.node() / "tree" / name));
  }

  // What a name without bytes says; it is waited for.
  wire::RemoteName remote(const Service& service, const std::string& name) {
    wire::RemoteName found;
    std::error_code error;
    for (const fs::path link = service.node() / "tree" / name;
         !wire::parse_remote_target(fs::read_symlink(link, error).native(), found);) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return found;
  }

  // Makes a file of another node one of this node. `kind` is kTake or kReplace.
  int take(Service& service, const std::string& name, wire::StoreRequestKind kind) {
    const fs::path path = service.node() / "tree" / name;
    for (;;) {
      struct stat status{};
      if (::lstat(path.c_str(), &status) != 0) return errno;
      if (!S_ISLNK(status.st_mode)) return 0;
      const int os_error = ask(service, status.st_ino, kind);
      if (os_error != ESTALE) return os_error;
    }
  }

  // Appends to a file as a program of this node does it.
  void append(Service& service, const std::string& name, const std::string& bytes) {
    ASSERT_EQ(ask(service, wire::kRootEntry, wire::StoreRequestKind::kWatch), 0);
    ASSERT_EQ(take(service, name, wire::StoreRequestKind::kTake), 0);
    std::ofstream(service.node() / "tree" / name, std::ios::binary | std::ios::app) << bytes;
    share(service);
  }

  std::string fetched_on(Service& service, const std::string& name) {
    const wire::RemoteName found = remote(service, name);
    EXPECT_EQ(ask(service, found.id, wire::StoreRequestKind::kFetch), 0);
    return text_on(service, name);
  }

  std::string text_on(const Service& service, const std::string& name) {
    return content_of(service.node() / "tree" / name);
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

TEST_F(PeerServices, ANewFileIsSeenOnAllNodesAndItsBytesComeWhenTheyAreAskedFor) {
  pack(2);
  start(3, 1);
  const std::string bytes = noise(1, (3 << 20) + 5);
  create(*services_[0], "new", bytes);
  for (uint32_t i = 1; i < 3; ++i) {
    const wire::RemoteName name = remote(*services_[i], "new");
    EXPECT_EQ(name.rank, 0u);
    EXPECT_EQ(name.size_bytes, bytes.size());
    EXPECT_NE(text_on(*services_[i], "new"), bytes);  // for the kernel, there is nothing
    ASSERT_EQ(ask(*services_[i], name.id, wire::StoreRequestKind::kFetch), 0);
    EXPECT_TRUE(text_on(*services_[i], "new") == bytes);
    EXPECT_EQ(ask(*services_[i], name.id, wire::StoreRequestKind::kFetch), 0);
  }
  create(*services_[0], "new", "");
  const wire::RemoteName empty = remote(*services_[1], "new");
  EXPECT_EQ(ask(*services_[1], empty.id - 1, wire::StoreRequestKind::kFetch), ESTALE);
  ASSERT_EQ(ask(*services_[1], empty.id, wire::StoreRequestKind::kFetch), 0);
  EXPECT_EQ(text_on(*services_[1], "new"), "");
  EXPECT_TRUE(lines_.empty()) << lines_[0];
}

TEST_F(PeerServices, RenamingAndRemovingANewFileReachesAllNodes) {
  pack(2);
  start(2, 1);
  create(*services_[0], "new", "text");
  share(*services_[0]);
  const wire::RemoteName name = remote(*services_[1], "new");
  ASSERT_EQ(ask(*services_[1], name.id, wire::StoreRequestKind::kFetch), 0);
  fs::create_directory(services_[0]->node() / "tree/d");
  share(*services_[0]);
  EXPECT_TRUE(fs::is_directory(services_[1]->node() / "tree/d"));
  fs::rename(services_[0]->node() / "tree/new", services_[0]->node() / "tree/d/moved");
  share(*services_[0]);
  EXPECT_FALSE(is_name(*services_[1], "new"));
  EXPECT_EQ(text_on(*services_[1], "d/moved"), "text");
  fs::remove(services_[0]->node() / "tree/d/moved");
  share(*services_[0]);
  EXPECT_FALSE(is_name(*services_[1], "d/moved"));
  EXPECT_TRUE(is_name(*services_[1], "d"));
  EXPECT_EQ(ask(*services_[1], name.id, wire::StoreRequestKind::kFetch), ESTALE);
  fs::remove(services_[0]->node() / "tree/d");
  share(*services_[0]);
  EXPECT_FALSE(is_name(*services_[1], "d"));
  EXPECT_TRUE(lines_.empty()) << lines_[0];
}

TEST_F(PeerServices, AnyNodeRenamesAndRemovesWhatAnotherOneCreated) {
  pack(2);
  start(3, 1);
  const auto tree = [&](uint32_t i) { return services_[i]->node() / "tree"; };
  create(*services_[0], "a", "of node1");
  create(*services_[0], "b", "too");
  fs::create_directory(tree(0) / "d");
  share(*services_[0]);
  fs::rename(tree(1) / "a", tree(1) / "d/c");
  fs::remove(tree(1) / "b");
  share(*services_[1]);
  EXPECT_EQ(text_on(*services_[0], "d/c"), "of node1");
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_FALSE(is_name(*services_[i], "a")) << i;
    EXPECT_FALSE(is_name(*services_[i], "b")) << i;
  }
  const wire::RemoteName name = remote(*services_[2], "d/c");
  EXPECT_EQ(name.rank, 0u);
  ASSERT_EQ(ask(*services_[2], name.id, wire::StoreRequestKind::kFetch), 0);
  EXPECT_EQ(text_on(*services_[2], "d/c"), "of node1");
  // A directory with files of several nodes.
  std::ofstream(tree(2) / "d/own") << "of node3";
  share(*services_[2]);
  fs::rename(tree(1) / "d", tree(1) / "e");
  share(*services_[1]);
  EXPECT_EQ(text_on(*services_[0], "e/c"), "of node1");
  EXPECT_EQ(text_on(*services_[2], "e/own"), "of node3");
  const wire::RemoteName own = remote(*services_[0], "e/own");
  EXPECT_EQ(own.rank, 2u);
  ASSERT_EQ(ask(*services_[0], own.id, wire::StoreRequestKind::kFetch), 0);
  EXPECT_EQ(text_on(*services_[0], "e/own"), "of node3");
  fs::remove_all(tree(1) / "e");
  share(*services_[1]);
  fs::create_directory(tree(1) / "e");  // no node removes it late
  share(*services_[1]);
  for (uint32_t i = 0; i < 3; ++i) share(*services_[i]);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_FALSE(is_name(*services_[i], "d")) << i;
    EXPECT_THAT(names_in(tree(i) / "e"), testing::IsEmpty()) << i;
  }
  EXPECT_TRUE(lines_.empty()) << lines_[0];
}

TEST_F(PeerServices, AFileThatWasReplacedMeanwhileIsNotRemoved) {
  pack(2);
  start(2, 1);
  create(*services_[0], "same", "first");
  share(*services_[0]);
  // The second file is not known there yet, because its writer has not closed it.
  std::ofstream writer(services_[0]->node() / "tree/same");
  writer << "the second one" << std::flush;
  fs::remove(services_[1]->node() / "tree/same");
  share(*services_[1]);
  writer.close();
  share(*services_[0]);
  EXPECT_EQ(text_on(*services_[0], "same"), "the second one");
  EXPECT_EQ(remote(*services_[1], "same").size_bytes, 14u);
}

TEST_F(PeerServices, OfTwoFilesWithOneNameTheLaterOneCountsEverywhere) {
  pack(2);
  start(2, 1);
  // Written at the same time: neither node knows of the other file when its writer begins.
  ASSERT_EQ(ask(*services_[0], wire::kRootEntry, wire::StoreRequestKind::kWatch), 0);
  const fs::path path = services_[0]->node() / "tree/same";
  std::ofstream writer(path);
  writer << "earlier" << std::flush;
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
  create(*services_[1], "same", "later");
  share(*services_[1]);
  writer.close();
  share(*services_[0]);
  EXPECT_EQ(remote(*services_[0], "same").rank, 1u);
  EXPECT_EQ(text_on(*services_[1], "same"), "later");
}

TEST_F(PeerServices, ASymbolicLinkIsSeenOnAllNodesAsItIs) {
  pack(2);
  start(3, 1);
  const auto tree = [&](uint32_t i) { return services_[i]->node() / "tree"; };
  create(*services_[0], "model", "text");
  fs::create_symlink("model", tree(0) / "latest");
  share(*services_[0]);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(read_link(tree(i) / "latest"), "model") << i;
    share(*services_[i]);  // the others tell nothing about it
  }
  EXPECT_EQ(list_written(services_[0]->node())->size(), 2u);
  EXPECT_TRUE(list_written(services_[1]->node())->empty());
  // Any node replaces, renames and removes it.
  fs::create_symlink("other", tree(1) / "latest.new");
  fs::rename(tree(1) / "latest.new", tree(1) / "latest");
  share(*services_[1]);
  fs::rename(tree(2) / "latest", tree(2) / "newest");
  share(*services_[2]);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(read_link(tree(i) / "newest"), "other") << i;
    EXPECT_FALSE(is_name(*services_[i], "latest")) << i;
  }
  EXPECT_EQ(list_written(services_[1]->node())->size(), 1u);
  fs::remove(tree(0) / "newest");
  share(*services_[0]);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_FALSE(is_name(*services_[i], "newest")) << i;
  EXPECT_TRUE(lines_.empty()) << lines_[0];
}

TEST_F(PeerServices, AProgramAppendsToAFileOfAnotherNode) {
  pack(2);
  start(3, 1);
  create(*services_[2], "log", "one ");
  share(*services_[2]);
  append(*services_[0], "log", "two ");
  EXPECT_EQ(fetched_on(*services_[2], "log"), "one two ");
  append(*services_[1], "log", "three ");
  append(*services_[2], "log", "four");
  EXPECT_EQ(text_on(*services_[2], "log"), "one two three four");
  for (uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(remote(*services_[i], "log").rank, 2u);
    EXPECT_EQ(fetched_on(*services_[i], "log"), "one two three four");
    EXPECT_TRUE(list_written(services_[i]->node())->empty());
  }
  EXPECT_TRUE(lines_.empty()) << lines_[0];
}

TEST_F(PeerServices, WhatReplacesAFileCountsEvenIfItsTimeIsEarlier) {
  pack(2);
  start(2, 1);
  create(*services_[1], "same", "the first");
  share(*services_[1]);
  ASSERT_EQ(ask(*services_[0], wire::kRootEntry, wire::StoreRequestKind::kWatch), 0);
  ASSERT_EQ(take(*services_[0], "same", wire::StoreRequestKind::kReplace), 0);
  const fs::path path = services_[0]->node() / "tree/same";
  EXPECT_EQ(text_on(*services_[0], "same"), "");
  share(*services_[0]);  // not changed yet
  EXPECT_EQ(text_on(*services_[1], "same"), "the first");
  {
    std::ofstream writer(path);
    writer << "the second" << std::flush;
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
  }
  share(*services_[0]);
  EXPECT_EQ(fetched_on(*services_[1], "same"), "the second");
  EXPECT_TRUE(lines_.empty()) << lines_[0];
}

TEST_F(PeerServices, AFileThatWasTakenAndNotChangedIsStillRenamedAndRemovedEverywhere) {
  pack(2);
  start(2, 1);
  create(*services_[1], "a", "text");
  share(*services_[1]);
  append(*services_[0], "a", "");
  fs::rename(services_[0]->node() / "tree/a", services_[0]->node() / "tree/b");
  share(*services_[0]);
  EXPECT_EQ(text_on(*services_[1], "b"), "text");
  EXPECT_FALSE(is_name(*services_[1], "a"));
  fs::remove(services_[0]->node() / "tree/b");
  share(*services_[0]);
  EXPECT_FALSE(is_name(*services_[1], "b"));
}

TEST_F(PeerServices, TwoNodesThatAppendAtTheSameTimeAreReportedAndOneFileRemains) {
  pack(2);
  start(2, 1);
  create(*services_[0], "log", "begin ");
  share(*services_[0]);
  ASSERT_EQ(ask(*services_[1], wire::kRootEntry, wire::StoreRequestKind::kWatch), 0);
  ASSERT_EQ(take(*services_[1], "log", wire::StoreRequestKind::kTake), 0);
  std::ofstream first(services_[0]->node() / "tree/log", std::ios::app);
  first << "of node1" << std::flush;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // their times differ
  std::ofstream(services_[1]->node() / "tree/log", std::ios::app) << "of node2";
  share(*services_[1]);
  first.close();
  share(*services_[0]);
  share(*services_[1]);
  EXPECT_EQ(text_on(*services_[1], "log"), "begin of node2");
  EXPECT_EQ(fetched_on(*services_[0], "log"), "begin of node2");
  EXPECT_THAT(lines_, Contains(HasSubstr("log was written on node2 (rank 1) and on this node")));
}

TEST_F(PeerServices, ANewFileThatIsLostWithItsNodeIsAnErrorThatNamesBoth) {
  pack(2);
  start(2, 1);
  create(*services_[1], "new", "text");
  const wire::RemoteName name = remote(*services_[0], "new");
  services_[1].reset();
  EXPECT_EQ(ask(*services_[0], name.id, wire::StoreRequestKind::kFetch), EIO);
  EXPECT_THAT(lines_, Contains(HasSubstr("new: its 4 B are only on node2 (rank 1) and cannot be")));
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
