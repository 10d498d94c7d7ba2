#include "store/service/service.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "base/system/memory.h"
#include "store/order/warm.h"
#include "store/testing/service_case.h"
#include "wire/store_message.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST_F(StoreService, HasAllDirectoriesAndLinksFromTheStartButNoFiles) {
  pack();
  const auto service = started(options());
  ASSERT_TRUE(service);
  const fs::path tree = service->node() / "tree";
  EXPECT_TRUE(fs::is_directory(tree / "a/b"));
  EXPECT_EQ(fs::read_symlink(tree / "a/link"), "../text");
  EXPECT_EQ(mtime_of(tree / "a"), mtime_of(source_ / "a"));
  EXPECT_EQ(mtime_of(tree / "a/link"), mtime_of(source_ / "a/link"));
  EXPECT_FALSE(fs::exists(tree / "text"));
  EXPECT_EQ(mode_of(service->node()), 0700u);
  EXPECT_EQ(mode_of(service->node() / "socket"), 0600u);
  EXPECT_EQ(content_of(service->node() / "catalogue"), content_of(top_ / "packs/catalogue"));
}

TEST_F(StoreService, SaysWhoItIsAndWhatItServes) {
  pack();
  const auto service = started(options());
  ASSERT_TRUE(service);
  const auto node = read_node(service->node());
  ASSERT_TRUE(node.ok()) << node.error().message();
  EXPECT_TRUE(node->is_running);
  EXPECT_EQ(node->state.service_pid, static_cast<uint32_t>(getpid()));
  EXPECT_EQ(node->state.service_start_time, process_start_time(getpid()));
  EXPECT_NE(node->state.service_start_time, 0u);
  EXPECT_STREQ(node->state.root, "/data/set");
  EXPECT_EQ(node->state.origin, fs::absolute(source_).string());
  const auto settings = read_service_settings(service->node());
  ASSERT_TRUE(settings.ok()) << settings.error().message();
  EXPECT_EQ(settings->packs, (top_ / "packs").string());
  EXPECT_EQ(settings->capacity_bytes, uint64_t{1} << 30);
}

TEST_F(StoreService, RefusesADamagedState) {
  const fs::path node = local_ / "node";
  fs::create_directories(node);
  EXPECT_FALSE(read_node(node).ok());
  wire::StoreState state{};
  const auto is_accepted = [&](size_t size = sizeof(wire::StoreState)) {
    put_file(node / "state", std::string_view(reinterpret_cast<char*>(&state), size));
    return read_node(node).ok();
  };
  EXPECT_FALSE(is_accepted());
  state.magic = wire::kStoreStateMagic;
  state.version = wire::kStoreStateVersion;
  EXPECT_FALSE(is_accepted());  // it has no root
  std::strcpy(state.root, "/data/set");
  EXPECT_TRUE(is_accepted());
  EXPECT_FALSE(is_accepted(sizeof(state) - 1));
  EXPECT_FALSE(is_accepted(0));
  state.version = 99;
  EXPECT_FALSE(is_accepted());
  state.version = wire::kStoreStateVersion;
  std::memset(state.origin, 'x', sizeof(state.origin));
  EXPECT_FALSE(is_accepted());
}

TEST_F(StoreService, MakesFilesWithTheirBytesModesAndTimes) {
  pack();
  const auto service = started(options());
  ASSERT_TRUE(service);
  uint64_t bytes = 0;
  for (const char* path : {"empty", "text", "a/b/noise", "long", "shut/inside"}) {
    EXPECT_EQ(asked(*service, path), 0) << path;
    const fs::path made = service->node() / "tree" / path;
    EXPECT_EQ(content_of(made), content_of(source_ / path)) << path;
    EXPECT_EQ(mode_of(made), mode_of(source_ / path)) << path;
    EXPECT_EQ(mtime_of(made), mtime_of(source_ / path)) << path;
    bytes += fs::file_size(made);
  }
  EXPECT_EQ(mtime_of(service->node() / "tree/a/b"), mtime_of(source_ / "a/b"));
  EXPECT_TRUE(fs::is_empty(service->node() / "making"));
  EXPECT_EQ(service->counters().materialised, 5u);
  EXPECT_EQ(service->counters().bytes, bytes);
  EXPECT_EQ(service->counters().errors, 0u);
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(StoreService, MakesASparseFileSparse) {
  constexpr uint64_t kBytes = uint64_t{64} << 20;
  put_file(source_ / "sparse", "begin");
  fs::resize_file(source_ / "sparse", kBytes);
  pack();
  const auto service = started(options());
  ASSERT_TRUE(service);
  ASSERT_EQ(asked(*service, "sparse"), 0);
  struct stat status{};
  ASSERT_EQ(::stat((service->node() / "tree/sparse").c_str(), &status), 0);
  EXPECT_EQ(static_cast<uint64_t>(status.st_size), kBytes);
  EXPECT_LT(static_cast<uint64_t>(status.st_blocks) * 512, kBytes / 100);
}

TEST_F(StoreService, MakesAFileOnceHoweverManyAskAtOnce) {
  pack();
  const auto service = started(options());
  ASSERT_TRUE(service);
  const uint64_t index = service->catalogue().find("long").value_or(0);
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      auto client = ServiceClient::connect(service->node());
      if (!client.ok()) return;
      for (uint64_t id = 0; id < 10; ++id) {
        if (!client->ask(id, index).ok()) return;
      }
      std::set<uint64_t> ids;
      for (int reply = 0; reply < 10; ++reply) {
        const auto next = client->next(kTestPatience);
        if (next.ok() && next->os_error == 0) ids.insert(next->id);
      }
      if (ids.size() == 10) ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 8);
  EXPECT_EQ(service->counters().materialised, 1u);
}

TEST_F(StoreService, MakesAFileAgainThatSomeoneRemoved) {
  pack();
  const auto service = started(options());
  ASSERT_TRUE(service);
  EXPECT_EQ(asked(*service, "text"), 0);
  const uint64_t used = service->used_bytes();
  fs::remove(service->node() / "tree/text");
  EXPECT_EQ(asked(*service, "text"), 0);
  EXPECT_EQ(content_of(service->node() / "tree/text"), std::string(50'000, 'x'));
  EXPECT_EQ(service->used_bytes(), used);
}

TEST_F(StoreService, RefusesWhatIsNotAFile) {
  pack();
  const auto service = started(options());
  ASSERT_TRUE(service);
  EXPECT_EQ(asked(*service, "a"), EINVAL);
  EXPECT_EQ(asked(*service, "a/link"), EINVAL);
  EXPECT_EQ(ask_node(service->node(), service->catalogue().entry_count()), EINVAL);
  EXPECT_EQ(ask_node(service->node(), UINT64_MAX), EINVAL);
}

TEST_F(StoreService, DropsClientsThatSpeakAnotherLanguage) {
  pack();
  const auto service = started(options());
  ASSERT_TRUE(service);
  wire::StoreRequest request{wire::kStoreMessageMagic, wire::kStoreMessageVersion,
                             wire::StoreRequestKind::kMaterialise, 1, 1};
  std::vector<std::string> wrong;
  const auto add = [&] { wrong.emplace_back(reinterpret_cast<char*>(&request), sizeof(request)); };
  request.magic ^= 1, add(), request.magic ^= 1;
  request.version = 99, add(), request.version = wire::kStoreMessageVersion;
  request.kind = wire::StoreRequestKind{77}, add();
  wrong.push_back("short");
  wrong.push_back(std::string(1000, 'l'));
  for (const std::string& bytes : wrong) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = (service->node() / "socket").string();
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    const File socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(socket.fd(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(send(socket.fd(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    char reply[64];
    EXPECT_LE(recv(socket.fd(), reply, sizeof(reply), 0), 0);
  }
  EXPECT_EQ(asked(*service, "text"), 0);  // and others are served on
}

TEST_F(StoreService, NamesADamagedMemberAndServesTheOthers) {
  pack();
  damage("a/b/noise");
  remove_source();
  const auto service = started(options());
  ASSERT_TRUE(service);
  EXPECT_EQ(asked(*service, "a/b/noise"), EIO);
  EXPECT_FALSE(fs::exists(service->node() / "tree/a/b/noise"));
  EXPECT_TRUE(fs::is_empty(service->node() / "making"));
  EXPECT_EQ(service->used_bytes(), 0u);
  EXPECT_EQ(service->counters().errors, 1u);
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_THAT(lines_[0], HasSubstr("'a/b/noise' in part-0000"));
  EXPECT_THAT(lines_[0], HasSubstr("at byte "));
  EXPECT_EQ(asked(*service, "text"), 0);
}

TEST_F(StoreService, TakesADamagedMemberFromTheOriginIfItHasNotChanged) {
  pack();
  damage("a/b/noise");
  const auto service = started(options());
  ASSERT_TRUE(service);
  EXPECT_EQ(asked(*service, "a/b/noise"), 0);
  EXPECT_EQ(content_of(service->node() / "tree/a/b/noise"), noise(11, 10'000));
  EXPECT_EQ(lines_.size(), 1u);  // but the damage is named

  damage("text");
  put_file(source_ / "text", std::string(50'000, 'z'));
  EXPECT_EQ(asked(*service, "text"), EIO);
  EXPECT_THAT(lines_.back(), HasSubstr("has changed since it was packed"));
}

TEST_F(StoreService, NeedsMissingPartitionsOnlyWithoutAnOrigin) {
  pack();
  fs::remove(top_ / "packs/part-00001.pack");
  {
    const auto service = started(options());
    ASSERT_TRUE(service);
    for (const char* path : {"empty", "text", "a/b/noise", "long", "shut/inside"}) {
      EXPECT_EQ(asked(*service, path), 0) << path;
    }
  }
  remove_source();
  const auto service = Service::start(options());
  ASSERT_FALSE(service.ok());
  EXPECT_THAT(service.error().message(), HasSubstr("part-00001.pack"));
  EXPECT_TRUE(fs::is_empty(nodes_directory(local_)));
}

TEST_F(StoreService, KeepsWhatCameFirstAndRefusesTheRest) {
  pack();
  ServiceOptions small = options();
  small.capacity_bytes = 14 * page_bytes();  // 50,000 bytes are 13 pages of 4 KiB
  if (page_bytes() != 4096) GTEST_SKIP() << "made for pages of 4 KiB";
  const auto service = started(small);
  ASSERT_TRUE(service);
  EXPECT_EQ(asked(*service, "text"), 0);
  EXPECT_EQ(asked(*service, "a/b/noise"), ENOSPC);  // 3 pages
  EXPECT_EQ(asked(*service, "long"), ENOSPC);
  EXPECT_EQ(asked(*service, "shut/inside"), 0);  // 1 page
  EXPECT_EQ(asked(*service, "empty"), 0);
  EXPECT_EQ(asked(*service, "text"), 0);
  EXPECT_EQ(service->used_bytes(), 14 * page_bytes());
  EXPECT_EQ(service->counters().errors, 0u);
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_THAT(lines_[0], HasSubstr("no room for more files"));
}

TEST_F(StoreService, WarmsWhatTheGlobsMatchUntilTheCapacityIsUsedUp) {
  pack();
  const auto service = started(options());
  ASSERT_TRUE(service);
  const auto client = ServiceClient::connect(service->node());
  ASSERT_TRUE(client.ok());
  auto report = warm_node(service->catalogue(), *client, {.globs = {"a/*"}, .on_warmed = {}});
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(report->file_count, 1u);
  EXPECT_TRUE(fs::exists(service->node() / "tree/a/b/noise"));
  report = warm_node(service->catalogue(), *client, {});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->file_count, 5u);
  EXPECT_EQ(report->size_bytes, service->catalogue().content_bytes());
  EXPECT_FALSE(report->is_full);

  ServiceOptions small = options();
  small.capacity_bytes = 1 << 20;
  const auto other = started(small);
  ASSERT_TRUE(other);
  const auto other_client = ServiceClient::connect(other->node());
  ASSERT_TRUE(other_client.ok());
  report = warm_node(other->catalogue(), *other_client, {});
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->is_full);
}

// What the arena of a fast service has for a file; nothing if it is not there.
std::optional<std::string> placed(const Service& service, const std::string& path) {
  const uint32_t index = service.catalogue().find(path).value_or(0);
  const auto file = File::open(service.node() / "places", O_RDONLY);
  uint64_t place = 0;
  if (!file.ok() ||
      !file->read_exactly_at(index * 8, std::as_writable_bytes(std::span(&place, 1))).ok() ||
      place < wire::kPlaceAlignment) {
    return std::nullopt;
  }
  EXPECT_EQ(place % wire::kPlaceAlignment, 0u);
  std::string bytes(service.catalogue().entry(index).size_bytes, '\0');
  const auto arena = File::open(service.node() / "arena", O_RDONLY);
  EXPECT_TRUE(arena.ok() &&
              arena->read_exactly_at(place, std::as_writable_bytes(std::span(bytes))).ok());
  return bytes;
}

TEST_F(StoreService, PlacesRawAndCompressedFilesInTheArenaOnce) {
  pack();
  ServiceOptions fast = options();
  fast.is_fast = true;
  const auto service = started(std::move(fast));
  ASSERT_TRUE(service);
  EXPECT_EQ(read_node(service->node())->state.flags, wire::kStoreFast);
  struct stat places = {};
  EXPECT_EQ(::stat((service->node() / "places").c_str(), &places), 0);
  EXPECT_GT(places.st_blocks, 0) << "on a full tmpfs, who reads a mapped hole gets SIGBUS";
  EXPECT_FALSE(placed(*service, "a/b/noise"));
  for (int i = 0; i < 2; ++i) {
    for (const std::string path : {"a/b/noise", "text", "long"}) {
      EXPECT_EQ(asked(*service, path, wire::StoreRequestKind::kPlace), 0);
      EXPECT_TRUE(placed(*service, path) == content_of(source_ / path)) << path;
      EXPECT_FALSE(fs::exists(service->node() / "tree" / path));
    }
  }
  EXPECT_EQ(service->counters().materialised, 3u);
  EXPECT_EQ(asked(*service, "a", wire::StoreRequestKind::kPlace), EINVAL);
}

TEST_F(StoreService, PlacesNoDamagedFileAndNoneBeyondTheCapacity) {
  pack();
  remove_source();
  damage("a/b/noise");
  ServiceOptions fast = options();
  fast.is_fast = true;
  fast.capacity_bytes = 100'000;
  const auto service = started(std::move(fast));
  ASSERT_TRUE(service);
  EXPECT_EQ(asked(*service, "a/b/noise", wire::StoreRequestKind::kPlace), EIO);
  EXPECT_EQ(asked(*service, "long", wire::StoreRequestKind::kPlace), ENOSPC);
  EXPECT_EQ(asked(*service, "text", wire::StoreRequestKind::kPlace), 0);
  EXPECT_FALSE(placed(*service, "a/b/noise"));
  EXPECT_FALSE(placed(*service, "long"));
  EXPECT_EQ(placed(*service, "text"), std::string(50'000, 'x'));
}

TEST_F(StoreService, HasNoArenaUnlessItIsFast) {
  pack();
  const auto service = started(options());
  ASSERT_TRUE(service);
  EXPECT_FALSE(fs::exists(service->node() / "arena"));
  EXPECT_EQ(asked(*service, "text", wire::StoreRequestKind::kPlace), EINVAL);
}

TEST_F(StoreService, ServesFromASinglePartitionToo) {
  pack();
  ServiceOptions one = options();
  one.packs = top_ / "packs/part-00000.pack";
  const auto service = started(one);
  ASSERT_TRUE(service);
  const auto client = ServiceClient::connect(service->node());
  ASSERT_TRUE(client.ok());
  const auto report = warm_node(service->catalogue(), *client, {});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->file_count, service->catalogue().file_count());
}

TEST_F(StoreService, RemovesItsFolderAtTheEnd) {
  pack();
  fs::path node;
  {
    const auto service = started(options());
    ASSERT_TRUE(service);
    node = service->node();
    EXPECT_EQ(asked(*service, "text"), 0);
    const auto other = started(options());  // two jobs do not meet
    ASSERT_TRUE(other);
    EXPECT_NE(other->node(), node);
    EXPECT_TRUE(fs::exists(node / "tree/text"));
  }
  EXPECT_FALSE(fs::exists(node));
}

TEST_F(StoreService, RefusesPathsThatCannotWork) {
  pack();
  ServiceOptions wrong = options();
  wrong.root = "/";
  EXPECT_FALSE(Service::start(wrong).ok());
  wrong = options();
  wrong.local = local_ / std::string(90, 'l');
  const auto service = Service::start(wrong);
  ASSERT_FALSE(service.ok());
  EXPECT_THAT(service.error().message(), HasSubstr("choose a shorter --local"));
  wrong = options();
  wrong.packs = top_ / "nothing";
  EXPECT_FALSE(Service::start(wrong).ok());
}

TEST_F(StoreService, KeepsFilesThatTheCatalogueLacksAtTheEnd) {
  pack();
  auto service = started(options());
  const fs::path node = service->node();
  EXPECT_EQ(asked(*service, "text"), 0);
  EXPECT_EQ(asked(*service, "a/b/noise"), 0);
  put_file(node / "tree/a/core", "of a program");
  fs::create_symlink("core", node / "tree/a/b/latest");
  fs::create_directories(node / "tree/new/empty");
  service.reset();
  EXPECT_FALSE(fs::exists(node));
  const fs::path kept = kept_of(node);
  EXPECT_THAT(lines_, Contains(HasSubstr("2 files were created below /data/set in a way that")));
  EXPECT_THAT(lines_, Contains(HasSubstr(kept.string())));
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(kept)) {
    names.push_back(fs::relative(entry.path(), kept).string());
  }
  EXPECT_THAT(names,
              UnorderedElementsAre("tree", "tree/a", "tree/a/core", "tree/a/b", "tree/a/b/latest"));
  EXPECT_EQ(content_of(kept / "tree/a/core"), "of a program");
  auto next = started(options());
  EXPECT_THAT(lines_, Contains(HasSubstr("has files of an earlier job")));
  next.reset();
  EXPECT_TRUE(fs::exists(kept / "tree/a/core"));
}

TEST_F(StoreService, ARemovalThatWasInterruptedLeavesNoForeignFiles) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  pack();
  fs::create_directories(local_);
  // A tmpfs lists the newest name first, and so the catalogue before the tree.
  ASSERT_EQ(::mount("none", local_.c_str(), "tmpfs", 0, "size=9m"), 0);
  auto service = started(options());
  const fs::path node = service->node();
  EXPECT_EQ(asked(*service, "text"), 0);
  EXPECT_EQ(asked(*service, "a/b/noise"), 0);
  const fs::path busy = node / "tree/a/c";
  fs::create_directory(busy);
  ASSERT_EQ(::mount("none", busy.c_str(), "tmpfs", 0, "size=1m"), 0);
  service.reset();
  EXPECT_TRUE(fs::exists(node / "catalogue"));
  ASSERT_EQ(::umount(busy.c_str()), 0);
  EXPECT_EQ(remove_stale_nodes(local_), 1u);
  EXPECT_FALSE(fs::exists(node));
  EXPECT_FALSE(fs::exists(kept_of(node)));
  EXPECT_EQ(::umount(local_.c_str()), 0);
}

}  // namespace
}  // namespace millrace::store
