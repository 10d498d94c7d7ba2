#include "loader/tiers/disk.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "base/io/temporary_directory.h"
#include "base/numbers/random.h"
#include "io/testing/memory_engine.h"

namespace millrace::loader::tiers {
namespace {

using data::SampleId;

SampleBytes bytes_for(uint64_t sample, size_t size_bytes) {
  std::string text(size_bytes, static_cast<char>('a' + sample % 26));
  return SampleBytes::copy_of(bytes_of(text));
}

std::string read_back(Disk& tier, uint64_t sample) {
  std::string text;
  const auto read = tier.read(SampleId{sample}, [&](size_t size_bytes) {
    text.resize(size_bytes);
    return std::optional(std::as_writable_bytes(std::span(text)));
  });
  return read ? text : "not held";
}

std::unique_ptr<Disk> open(std::shared_ptr<io::Engine> engine, uint64_t capacity_bytes) {
  auto tier = Disk::open(
      {.engine = std::move(engine), .directory = "/tmp", .capacity_bytes = capacity_bytes});
  EXPECT_TRUE(tier.ok()) << tier.error().message();
  return *std::move(tier);
}

TEST(Extents, JoinsAdjacentFreePieces) {
  Extents extents(4 * Extents::kBlockBytes + 100);
  std::vector<uint64_t> taken;
  while (const auto offset = extents.take(1)) taken.push_back(*offset);
  EXPECT_EQ(taken, (std::vector<uint64_t>{0, 4096, 8192, 12288}));
  extents.give_back(4096, 1);
  extents.give_back(12288, 1);
  EXPECT_EQ(extents.take(2 * Extents::kBlockBytes), std::nullopt);
  extents.give_back(8192, 1);
  EXPECT_EQ(extents.take(3 * Extents::kBlockBytes), 4096u);
}

TEST(Disk, ReturnsTheBytesItWasGiven) {
  const auto tier = open(std::make_shared<io::MemoryEngine>(), 1 << 20);
  tier->offer(SampleId{1}, bytes_for(1, 5'000), UseTime{10});
  tier->offer(SampleId{2}, bytes_for(2, 0), UseTime{20});
  tier->settle();
  EXPECT_EQ(read_back(*tier, 1), std::string(5'000, 'b'));
  EXPECT_EQ(read_back(*tier, 2), "");
  EXPECT_EQ(read_back(*tier, 3), "not held");
}

TEST(Disk, NeverExceedsItsCapacity) {
  constexpr uint64_t kCapacity = 10 * Extents::kBlockBytes;
  const auto tier = open(std::make_shared<io::MemoryEngine>(), kCapacity);
  Random random(4);
  for (uint64_t i = 0; i < 500; ++i) {
    tier->offer(SampleId{i}, bytes_for(i, random.below(12'000)), UseTime{random.below(10'000)});
    if (i % 8 == 0) tier->settle();
    EXPECT_LE(tier->stats().held_bytes, kCapacity);
  }
  tier->settle();
  for (uint64_t i = 0; i < 500; ++i) {
    if (!tier->contains(SampleId{i})) continue;
    const std::string text = read_back(*tier, i);
    EXPECT_EQ(text, std::string(text.size(), static_cast<char>('a' + i % 26)));
  }
  EXPECT_GT(tier->stats().held_samples, 0u);
}

TEST(Disk, AReadErrorDropsTheSampleAndIsCounted) {
  const auto engine = std::make_shared<io::MemoryEngine>();
  const auto tier = open(engine, 1 << 20);
  tier->offer(SampleId{1}, bytes_for(1, 5'000), UseTime{10});
  tier->settle();
  engine->set_faults({.read_error_at = 100});
  EXPECT_EQ(read_back(*tier, 1), "not held");
  engine->set_faults({});
  EXPECT_EQ(read_back(*tier, 1), "not held");
  EXPECT_EQ(tier->stats().read_errors, 1u);
  EXPECT_EQ(tier->stats().held_bytes, 0u);
}

TEST(Disk, AFullDiskKeepsItsSamplesAndTakesNoMore) {
  const auto engine = std::make_shared<io::MemoryEngine>();
  const auto tier = open(engine, 1 << 20);
  engine->set_faults({.disk_bytes = 64 << 10});
  tier->offer(SampleId{1}, bytes_for(1, 40'000), UseTime{10});
  tier->offer(SampleId{2}, bytes_for(2, 40'000), UseTime{20});
  tier->offer(SampleId{3}, bytes_for(3, 10), UseTime{30});
  tier->settle();
  EXPECT_EQ(read_back(*tier, 1), std::string(40'000, 'b'));
  EXPECT_FALSE(tier->contains(SampleId{2}));
  EXPECT_NE(tier->stats().ended_by.find("no space left"), std::string::npos);
  EXPECT_FALSE(tier->would_take(10, UseTime{1}));
}

// The files that this process has open in `directory`, named or not.
std::vector<struct stat> open_files_below(const std::filesystem::path& directory) {
  std::vector<struct stat> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    struct stat info{};
    if (!gone && target.native().starts_with(directory.native() + "/") &&
        stat(entry.path().c_str(), &info) == 0) {
      found.push_back(info);
    }
  }
  return found;
}

TEST(Disk, NobodyElseCanReadOrRedirectItsFile) {
  for (const mode_t mask : {022, 000}) {
    auto directory = *TemporaryDirectory::create();
    const auto victim = directory.path() / "victim";
    std::ofstream(victim) << "precious";
    char host[256] = {};
    gethostname(host, sizeof(host) - 1);
    // An attacker who can write to the directory and guesses the name puts a link there.
    for (int number = 0; number < 100; ++number) {
      const auto name = fmt::format("millrace-tier-{}-{}-{}", host, getpid(), number);
      std::filesystem::create_symlink(victim, directory.path() / name);
    }
    const mode_t before = umask(mask);
    auto tier = Disk::open({.engine = *io::open_engine("posix"),
                            .directory = directory.path(),
                            .capacity_bytes = 1 << 20});
    umask(before);
    ASSERT_TRUE(tier.ok()) << tier.error().message();
    (*tier)->offer(SampleId{1}, bytes_for(1, 5'000), UseTime{10});
    (*tier)->settle();
    EXPECT_EQ(read_back(**tier, 1), std::string(5'000, 'b'));
    EXPECT_EQ(std::filesystem::file_size(victim), 8u);
    const auto files = open_files_below(directory.path());
    EXPECT_FALSE(files.empty());
    for (const struct stat& file : files) EXPECT_EQ(file.st_mode & 07777, 0600u);
  }
}

TEST(Disk, ItsFileHasNoNameAndFilesOfDeadProcessesAreRemoved) {
  auto directory = TemporaryDirectory::create();
  ASSERT_TRUE(directory.ok());
  const pid_t dead = fork();
  if (dead == 0) _exit(0);
  waitpid(dead, nullptr, 0);
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  const auto named = [&](const std::string& host_name, pid_t pid) {
    return directory->path() / fmt::format("millrace-tier-{}-{}-0", host_name, pid);
  };
  const auto leftover = named(host, dead);
  const auto of_the_living = named(host, getppid());
  const auto elsewhere = named("another", dead);
  const std::filesystem::path mine = leftover.string() + "-notes";
  for (const auto& path : {leftover, of_the_living, elsewhere, mine}) std::ofstream(path) << "x";

  auto engine = io::open_engine("posix");
  ASSERT_TRUE(engine.ok());
  auto tier = Disk::open(
      {.engine = *std::move(engine), .directory = directory->path(), .capacity_bytes = 1 << 20});
  ASSERT_TRUE(tier.ok()) << tier.error().message();
  (*tier)->offer(SampleId{1}, bytes_for(1, 5'000), UseTime{10});
  (*tier)->settle();
  EXPECT_EQ(read_back(**tier, 1), std::string(5'000, 'b'));
  EXPECT_EQ((*tier)->stats().leftovers_removed, 1u);
  std::set<std::filesystem::path> left;
  for (const auto& entry : std::filesystem::directory_iterator(directory->path())) {
    left.insert(entry.path());
  }
  EXPECT_EQ(left, (std::set{of_the_living, elsewhere, mine}));
}

TEST(Disk, NamesAMissingDirectory) {
  auto engine = io::open_engine("posix");
  ASSERT_TRUE(engine.ok());
  const auto tier = Disk::open(
      {.engine = *std::move(engine), .directory = "no/such/place", .capacity_bytes = 1 << 20});
  ASSERT_FALSE(tier.ok());
  EXPECT_TRUE(tier.error().message().starts_with("no/such/place/millrace-tier-"));
}

}  // namespace
}  // namespace millrace::loader::tiers
