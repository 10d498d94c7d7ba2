#include "store/client/store_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "store/pack/packer.h"
#include "store/service/service.h"
#include "store/testing/store_case.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

using testing::ElementsAre;
using testing::HasSubstr;

// A service with raw and compressed members, in two partitions.
class StoreEngineTest : public StoreCase {
 protected:
  void SetUp() override {
    StoreCase::SetUp();
    put_file(source() / "train/noise", noise(23, 10'000));
    put_file(source() / "train/text", std::string(50'000, 'x'));
    put_file(source() / "val/empty", "");
    put_file(source() / "val/long", std::string((3 << 20) + 5, 'y'));
    fs::create_symlink("../train/noise", source() / "val/link");
    fs::create_symlink("train", source() / "same");
    fs::create_symlink("/nowhere", source() / "val/away");
    PackOptions options{.source = source(), .directory = packs()};
    options.partition_count = 2;
    pack_files(options);
    fs::create_directories(top_ / "local");
  }

  fs::path source() const { return top_ / "source"; }
  fs::path packs() const { return top_ / "packs"; }

  void start(uint64_t capacity_bytes = 1 << 30) {
    ServiceOptions options;
    options.packs = packs();
    options.root = "/data/set";
    options.local = top_ / "local";
    options.capacity_bytes = capacity_bytes;
    auto service = Service::start(std::move(options));
    ASSERT_TRUE(service.ok()) << service.error().message();
    service_ = *std::move(service);
    auto files = NodeFiles::open({.node = service_->node(),
                                  .deadline = std::chrono::seconds(60),
                                  .on_fallback = [this](const std::string& why) { why_ = why; }});
    ASSERT_TRUE(files.ok()) << files.error().message();
    files_ = *std::move(files);
    auto inner = io::open_engine("posix");
    ASSERT_TRUE(inner.ok());
    engine_ = make_store_engine(files_, *std::move(inner));
  }

  std::string read(const std::string& path) {
    std::vector<std::byte> room(4 << 20);
    const auto size = engine_->read_whole(path, room);
    if (!size.ok()) return size.error().message();
    return {reinterpret_cast<const char*>(room.data()), *size};
  }
  std::string plain(const std::string& path) { return *read_file(source() / path); }

  std::unique_ptr<Service> service_;
  std::shared_ptr<NodeFiles> files_;
  std::shared_ptr<io::Engine> engine_;
  std::string why_;
};

TEST_F(StoreEngineTest, LocalMembersAreReadWithoutAFile) {
  start();
  for (const char* path : {"train/noise", "train/text", "val/empty", "val/long", "val/link"}) {
    EXPECT_EQ(read(std::string("/data/set/") + path), plain(path)) << path;
  }
  EXPECT_EQ(read("/data/set/same/../same/text"), plain("train/text"));
  EXPECT_EQ(service_->counters().materialised, 0u);
  EXPECT_EQ(service_->counters().opens, 0u);
}

TEST_F(StoreEngineTest, RawMembersAreViewsOfTheMapping) {
  start();
  const auto first = engine_->view_whole("/data/set/train/noise");
  const auto second = engine_->view_whole("/data/set/val/link");
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->data(), second->data());
  EXPECT_FALSE(engine_->view_whole("/data/set/train/text"));  // compressed
  EXPECT_FALSE(engine_->view_whole("/data/set/train"));
  EXPECT_FALSE(engine_->view_whole("/elsewhere"));
}

TEST_F(StoreEngineTest, ListsTheCatalogue) {
  start();
  std::vector<std::string> names;
  const auto listed = engine_->listing().visit(
      "/data/set/val", [&](std::string_view name, const Result<io::ListedKind>& kind) {
        const bool is_file = kind.ok() && *kind == io::ListedKind::kFile;
        names.push_back(fmt::format("{} {}", name, is_file ? "file" : "other"));
        return Status();
      });
  EXPECT_TRUE(listed.ok());
  EXPECT_THAT(names, ElementsAre("away other", "empty file", "link file", "long file"));
  EXPECT_EQ(*engine_->listing().identity("/data/set/same"),
            *engine_->listing().identity("/data/set/train"));
  EXPECT_FALSE(engine_->listing().identity("/data/set/train/text").ok());
  EXPECT_FALSE(engine_->listing().identity("/data/set/gone").ok());
}

TEST_F(StoreEngineTest, AFileOfManySamplesIsTheRealOneInTheTree) {
  start();
  const auto reader = engine_->open("/data/set/val/long");
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(*(*reader)->size_bytes(), (3u << 20) + 5);
  EXPECT_EQ(service_->counters().materialised, 0u);  // nothing was read yet
  std::vector<std::byte> room(10);
  EXPECT_EQ(*(*reader)->read_at((3 << 20), room), 5u);
  EXPECT_EQ(room[4], std::byte{'y'});
  EXPECT_EQ(service_->counters().materialised, 1u);
  const auto raw = engine_->open("/data/set/train/noise");
  ASSERT_TRUE(raw.ok());
  EXPECT_TRUE((*raw)->view(100, 200));
  EXPECT_EQ(service_->counters().materialised, 1u);
}

TEST_F(StoreEngineTest, FilesOfOtherPartitionsComeFromTheService) {
  for (const auto& file : fs::directory_iterator(packs())) {
    if (file.path().extension() == ".pack") fs::remove(file.path());
  }
  start();
  for (const char* path : {"train/noise", "train/text", "val/empty", "val/long"}) {
    EXPECT_EQ(read(std::string("/data/set/") + path), plain(path)) << path;
  }
  EXPECT_EQ(service_->counters().materialised, 3u);  // not the empty one
  EXPECT_EQ(service_->counters().fallbacks, 0u);
}

TEST_F(StoreEngineTest, ADeadServiceLeavesTheOrigin) {
  for (const auto& file : fs::directory_iterator(packs())) {
    if (file.path().extension() == ".pack") fs::remove(file.path());
  }
  start();
  EXPECT_EQ(read("/data/set/train/text"), plain("train/text"));
  service_.reset();
  EXPECT_EQ(read("/data/set/train/noise"), plain("train/noise"));
  EXPECT_THAT(why_, HasSubstr("service"));
  put_file(source() / "val/long", std::string((3 << 20) + 5, 'z'));
  EXPECT_THAT(read("/data/set/val/long"), HasSubstr("checksum"));
}

TEST_F(StoreEngineTest, ADamagedMemberIsReadElsewhere) {
  for (const auto& file : fs::directory_iterator(packs())) {
    if (file.path().extension() != ".pack") continue;
    std::fstream bytes(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    for (int at = 64; at < 12'000; at += 64) {
      bytes.seekp(at);
      bytes.put('\x55');
    }
    break;
  }
  start();
  for (const char* path : {"train/noise", "train/text", "val/long"}) {
    EXPECT_EQ(read(std::string("/data/set/") + path), plain(path)) << path;
  }
}

TEST_F(StoreEngineTest, OtherPathsAreLeftToTheOtherEngine) {
  start();
  put_file(top_ / "outside", "outside");
  EXPECT_EQ(read((top_ / "outside").string()), "outside");
  EXPECT_THAT(read("/data/set/none"), HasSubstr("/data/set/none: cannot open"));
  EXPECT_THAT(read("/data/set/train"), HasSubstr("it is a directory"));
  EXPECT_THAT(read("/data/settled"), HasSubstr("no such file"));
}

TEST_F(StoreEngineTest, ManyThreadsRead) {
  start();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int repeat = 0; repeat < 20; ++repeat) {
        EXPECT_EQ(read("/data/set/train/text"), plain("train/text"));
        EXPECT_EQ(read("/data/set/train/noise"), plain("train/noise"));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace millrace::store
