#include "advise/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "base/io/temporary_directory.h"
#include "base/system/cpus.h"
#include "base/system/memory.h"

namespace millrace::advise {
namespace {

using testing::HasSubstr;

std::string this_host() {
  std::array<char, 256> name{};
  EXPECT_EQ(gethostname(name.data(), name.size() - 1), 0);
  return name.data();
}

analyze::FileStats file(const std::string& path, analyze::FileKind kind) {
  analyze::FileStats stats;
  stats.path = path;
  stats.kind = kind;
  stats.io.bytes_read = 1;
  return stats;
}

TEST(DetectMachine, FindsCoresAndMemoryIfTheJobRanHere) {
  analyze::Profile profile;
  profile.job.hosts = {"other", this_host()};
  const Machine machine = detect_machine(profile);
  EXPECT_EQ(machine.cores, usable_cpu_count());
  ASSERT_TRUE(machine.memory_bytes.has_value());
  EXPECT_LE(*machine.memory_bytes, *memory_total_bytes());
}

TEST(DetectMachine, FindsNothingIfTheJobRanElsewhere) {
  analyze::Profile profile;
  profile.job.hosts = {"a-node-far-away"};
  profile.files = {file("/no/such/place/a.bin", analyze::FileKind::kData)};
  const Machine machine = detect_machine(profile);
  EXPECT_FALSE(machine.cores.has_value());
  EXPECT_FALSE(machine.memory_bytes.has_value());
  EXPECT_FALSE(machine.local_disk_bytes.has_value());
  EXPECT_EQ(machine.data_storage, Storage::kUnknown);
  EXPECT_EQ(machine.data_file_system, "");
}

TEST(DetectMachine, FindsTheFileSystemIfTheDataIsHere) {
  const TemporaryDirectory directory = *TemporaryDirectory::create("/dev/shm");
  const std::string path = directory.path() / "a.bin";
  std::ofstream(path) << "x";
  analyze::Profile profile;
  profile.files = {file("/gone/b.bin", analyze::FileKind::kData),
                   file(path, analyze::FileKind::kData),
                   file(path, analyze::FileKind::kCheckpoint)};
  const Machine machine = detect_machine(profile);
  EXPECT_EQ(machine.data_storage, Storage::kMemory);
  EXPECT_EQ(machine.data_file_system, "tmpfs");
  EXPECT_EQ(machine.checkpoint_storage, Storage::kMemory);
}

TEST(StorageOfFileSystem, KnowsTheUsualOnes) {
  EXPECT_EQ(storage_of_file_system("lustre"), Storage::kParallel);
  EXPECT_EQ(storage_of_file_system("nfs4"), Storage::kNetwork);
  EXPECT_EQ(storage_of_file_system("ext4"), Storage::kLocal);
  EXPECT_EQ(storage_of_file_system("tmpfs"), Storage::kMemory);
  EXPECT_EQ(storage_of_file_system("fuse.something"), Storage::kUnknown);
  EXPECT_EQ(storage_of_file_system(""), Storage::kUnknown);
}

TEST(ApplyOverrides, OptionsReplaceDetectedValues) {
  Machine machine{.memory_bytes = 1, .data_storage = Storage::kLocal, .data_file_system = "ext4"};
  const auto changed = apply_overrides(machine, {.cores = "64",
                                                 .memory = "256GiB",
                                                 .local_disk = "1TB",
                                                 .data_storage = "lustre",
                                                 .checkpoint_storage = "network"});
  ASSERT_TRUE(changed.ok());
  EXPECT_EQ(changed->cores, 64u);
  EXPECT_EQ(changed->memory_bytes, uint64_t{256} << 30);
  EXPECT_EQ(changed->local_disk_bytes, 1'000'000'000'000u);
  EXPECT_EQ(changed->data_storage, Storage::kParallel);
  EXPECT_EQ(changed->data_file_system, "lustre");
  EXPECT_EQ(changed->checkpoint_storage, Storage::kNetwork);
}

TEST(ApplyOverrides, KeepsDetectedValuesWithoutOptions) {
  const Machine machine{.memory_bytes = 7, .data_file_system = "ext4"};
  const auto same = apply_overrides(machine, {});
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same->memory_bytes, 7u);
  EXPECT_EQ(same->data_file_system, "ext4");
}

TEST(ApplyOverrides, AKindOfStorageClearsTheFileSystem) {
  const auto changed = apply_overrides({.data_file_system = "ext4"}, {.data_storage = "parallel"});
  ASSERT_TRUE(changed.ok());
  EXPECT_EQ(changed->data_file_system, "");
}

TEST(ApplyOverrides, ErrorsNameTheOption) {
  for (const char* cores : {"0", "-1", "2.5", "65537", "many", " 2"}) {
    EXPECT_THAT(apply_overrides({}, {.cores = cores}).error().message(),
                HasSubstr("--cores: '" + std::string(cores) + "' is not a number of cores"));
  }
  EXPECT_THAT(apply_overrides({}, {.memory = "64G"}).error().message(), HasSubstr("--memory: "));
  EXPECT_THAT(apply_overrides({}, {.local_disk = "much"}).error().message(),
              HasSubstr("--local-disk: "));
  const auto error = apply_overrides({}, {.data_storage = "lustr"}).error().message();
  EXPECT_THAT(error, HasSubstr("--data-storage: 'lustr' is not a kind of storage"));
  EXPECT_THAT(error, HasSubstr("did you mean 'lustre'?"));
  EXPECT_FALSE(apply_overrides({}, {.checkpoint_storage = "\x1b[2J"}).ok());
}

}  // namespace
}  // namespace millrace::advise
