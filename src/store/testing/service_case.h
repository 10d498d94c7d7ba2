// StoreService: a service of one node, with a pack of a few files.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <utility>

#include "store/pack/pack.h"
#include "store/service/service.h"
#include "store/testing/store_case.h"

namespace millrace::store {

inline int64_t mtime_of(const std::filesystem::path& path) {
  struct stat status{};
  EXPECT_EQ(lstat(path.c_str(), &status), 0) << path;
  return int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

inline unsigned mode_of(const std::filesystem::path& path) {
  struct stat status{};
  EXPECT_EQ(lstat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

// A pack of some files, and a place for nodes. The source is removed, unless a test needs it.
class StoreService : public StoreCase {
 protected:
  void SetUp() override {
    StoreCase::SetUp();
    source_ = top_ / "source";
    local_ = top_ / "local";
    std::filesystem::create_directories(local_);
    put_file(source_ / "empty", "");
    put_file(source_ / "text", std::string(50'000, 'x'));
    put_file(source_ / "a/b/noise", noise(11, 10'000));
    put_file(source_ / "long", std::string((3 << 20) + 5, 'y'));
    std::filesystem::create_directories(source_ / "shut");
    put_file(source_ / "shut/inside", "inside");
    std::filesystem::create_symlink("../text", source_ / "a/link");
    std::filesystem::permissions(source_ / "text", std::filesystem::perms(0640));
    std::filesystem::permissions(source_ / "shut", std::filesystem::perms(0555));
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::permissions(source_ / "shut", std::filesystem::perms(0755), ignored);
  }

  void pack() {
    PackOptions options{.source = source_, .directory = top_ / "packs"};
    options.partition_count = 2;
    pack_files(options);
  }
  void remove_source() {
    std::filesystem::permissions(source_ / "shut", std::filesystem::perms(0755));
    std::filesystem::remove_all(source_);
  }

  ServiceOptions options() {
    ServiceOptions options;
    options.packs = top_ / "packs";
    options.root = "/data/set/";
    options.local = local_;
    options.capacity_bytes = 1 << 30;
    options.thread_count = 4;
    options.log = logger();
    return options;
  }

  std::unique_ptr<Service> started(ServiceOptions options) {
    auto service = Service::start(std::move(options));
    EXPECT_TRUE(service.ok()) << service.error().message();
    return service.ok() ? *std::move(service) : nullptr;
  }

  static int asked(const Service& service, const std::string& path,
                   wire::StoreRequestKind kind = wire::StoreRequestKind::kMaterialise) {
    const auto index = service.catalogue().find(path);
    EXPECT_TRUE(index) << path;
    return ask_node(service.node(), index.value_or(0), kind);
  }

  // Changes a byte of a member in its partition.
  void damage(const std::string& path) {
    const auto reader = PackReader::open(top_ / "packs");
    ASSERT_TRUE(reader.ok());
    const auto index = reader->catalogue().find(path);
    ASSERT_TRUE(index);
    const auto entry = reader->catalogue().entry(*index);
    std::fstream file(reader->partition_path(entry.partition),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(entry.offset_bytes));
    file.put('\x55');
  }

  std::filesystem::path source_;
  std::filesystem::path local_;
};

}  // namespace millrace::store
