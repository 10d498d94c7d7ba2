#include "loader/exchange/shard_storage.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/hash/crc32c.h"
#include "base/io/atomic_file.h"
#include "base/io/temporary_directory.h"
#include "loader/testing/shard_job.h"

namespace millrace::loader::exchange {
namespace {

using data::Epoch;
using data::SampleId;
using testing::ElementsAre;
using testing::HasSubstr;

class Storage : public testing::Test {
 protected:
  // Rank 1 of 2 holds 3 of 6 samples: 3, 4, 5.
  Result<std::unique_ptr<ShardStorage>> open() {
    return ShardStorage::open(
        {.directory = path_, .order = order_, .rank = 1, .dataset = dataset_});
  }

  std::string refused() {
    const auto storage = open();
    return storage.ok() ? "" : storage.error().message();
  }

  static Status put(ShardStorage& storage, uint64_t slot, uint64_t sample) {
    const std::string bytes = bytes_of_sample(sample);
    return storage.stage(slot, SampleId{sample}, bytes_of(bytes));
  }

  std::unique_ptr<ShardStorage> staged() {
    auto storage = std::move(*open());
    for (uint64_t slot = 0; slot < 3; ++slot) EXPECT_TRUE(put(*storage, slot, 3 + slot).ok());
    EXPECT_TRUE(storage->prepare(Epoch{0}).ok());
    EXPECT_TRUE(storage->commit().ok());
    return storage;
  }

  // Writes a number into a file and updates the checksum.
  void forge(std::string_view name, size_t offset, uint64_t number) const {
    std::string bytes = *read_file(path_ / name);
    std::memcpy(bytes.data() + offset, &number, sizeof(number));
    std::memset(bytes.data() + 12, 0, 4);
    const uint32_t checksum = crc32c(bytes_of(bytes));
    std::memcpy(bytes.data() + 12, &checksum, 4);
    ASSERT_TRUE(write_file_atomically(path_ / name, bytes_of(bytes)).ok());
  }

  static std::string bytes_in(const ShardStorage& storage, uint64_t sample) {
    std::string bytes;
    const auto read = storage.read(SampleId{sample}, bytes);
    return read.ok() ? bytes : read.error().message();
  }

  TemporaryDirectory directory_ = *TemporaryDirectory::create();
  std::filesystem::path path_ = directory_.path() / "deep" / "storage";
  order::Options order_ = partial_order(6, 2, 0.5);
  uint64_t dataset_ = 0x1234;
};

TEST_F(Storage, IsEmptyAtFirst) {
  const auto storage = open();
  ASSERT_TRUE(storage.ok()) << storage.error().message();
  EXPECT_EQ((*storage)->epoch(), std::nullopt);
  EXPECT_EQ((*storage)->slot_count(), 3u);
  EXPECT_EQ(bytes_in(**storage, 3),
            path_.string() + ": sample 3 is not held by rank 1 in this epoch");
}

TEST_F(Storage, HoldsWhatWasCommittedEvenAfterReopening) {
  staged();
  const auto storage = std::move(*open());
  EXPECT_EQ(storage->epoch(), Epoch{0});
  EXPECT_THAT(storage->samples(), ElementsAre(SampleId{3}, SampleId{4}, SampleId{5}));
  for (const uint64_t sample : {3, 4, 5}) {
    EXPECT_EQ(bytes_in(*storage, sample), bytes_of_sample(sample));
  }
  EXPECT_TRUE(storage->holds(SampleId{4}));
  EXPECT_FALSE(storage->holds(SampleId{0}));
}

TEST_F(Storage, KeepsThisEpochsSamplesUntilTheNextIsCommitted) {
  auto storage = staged();
  ASSERT_TRUE(put(*storage, 1, 2).ok());
  ASSERT_TRUE(storage->prepare(Epoch{1}).ok());
  EXPECT_EQ(bytes_in(*storage, 4), bytes_of_sample(4));
  EXPECT_EQ(storage->prepared(), Epoch{1});
  ASSERT_TRUE(storage->commit().ok());
  EXPECT_EQ(storage->epoch(), Epoch{1});
  EXPECT_THAT(storage->samples(), ElementsAre(SampleId{3}, SampleId{2}, SampleId{5}));
  EXPECT_EQ(bytes_in(*storage, 2), bytes_of_sample(2));
  EXPECT_FALSE(storage->holds(SampleId{4}));
}

TEST_F(Storage, APreparedEpochSurvivesReopeningAndCanBeCommittedOrDiscarded) {
  for (const bool goes_forward : {false, true}) {
    {
      auto storage = staged();
      ASSERT_TRUE(put(*storage, 1, 2).ok());
      ASSERT_TRUE(storage->prepare(Epoch{1}).ok());
    }
    auto storage = std::move(*open());
    EXPECT_EQ(storage->epoch(), Epoch{0});
    EXPECT_EQ(storage->prepared(), Epoch{1});
    EXPECT_TRUE((goes_forward ? storage->commit() : storage->discard()).ok());
    EXPECT_EQ(storage->epoch(), Epoch{goes_forward ? 1u : 0u});
    EXPECT_EQ(bytes_in(*storage, goes_forward ? 2 : 4), bytes_of_sample(goes_forward ? 2 : 4));
    storage.reset();
    EXPECT_EQ((*open())->prepared(), std::nullopt);
  }
}

TEST_F(Storage, DiscardsWhatWasStagedButNotPrepared) {
  {
    auto storage = staged();
    ASSERT_TRUE(put(*storage, 1, 2).ok());
  }
  const auto storage = std::move(*open());
  EXPECT_THAT(storage->samples(), ElementsAre(SampleId{3}, SampleId{4}, SampleId{5}));
  EXPECT_EQ(bytes_in(*storage, 4), bytes_of_sample(4));
}

TEST_F(Storage, ASlotWithoutASampleCannotBePrepared) {
  auto storage = std::move(*open());
  ASSERT_TRUE(put(*storage, 0, 3).ok());
  EXPECT_THAT(storage->prepare(Epoch{0}).error().message(),
              HasSubstr("slot 1 of 3 has no sample for epoch 0"));
}

TEST_F(Storage, ASampleCannotBeInTwoSlots) {
  auto storage = staged();
  ASSERT_TRUE(put(*storage, 1, 3).ok());
  EXPECT_THAT(storage->prepare(Epoch{1}).error().message(), HasSubstr("sample 3 is in two slots"));
}

mode_t mode_of(const std::filesystem::path& path) {
  struct stat info{};
  EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

TEST_F(Storage, IsAccessibleOnlyToItsUserWithAnyUmask) {
  for (const mode_t mask : {022, 000}) {
    const mode_t before = umask(mask);
    auto storage = staged();
    EXPECT_TRUE(put(*storage, 1, 2).ok());
    EXPECT_TRUE(storage->prepare(Epoch{1}).ok());
    const std::vector<SampleId> wanted{SampleId{0}, SampleId{1}, SampleId{2}};
    EXPECT_TRUE(storage->begin_staging(wanted).ok());  // leaves a journal
    umask(before);
    EXPECT_EQ(mode_of(path_), 0700u);
    EXPECT_EQ(mode_of(path_.parent_path()), 0700u);
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      EXPECT_EQ(mode_of(entry.path()), 0600u) << entry.path();
      names.push_back(entry.path().filename().string());
    }
    EXPECT_THAT(names, testing::UnorderedElementsAre("samples", "staged"));
    storage.reset();
    staged();
    EXPECT_EQ(mode_of(path_ / "owned"), 0600u);
    std::filesystem::remove_all(path_.parent_path());
  }
}

TEST_F(Storage, OfAnOlderVersionBecomesInaccessibleToOthers) {
  staged();
  std::filesystem::permissions(path_, std::filesystem::perms(0755));
  std::filesystem::permissions(path_ / "samples", std::filesystem::perms(0644));
  EXPECT_EQ(refused(), "");
  EXPECT_EQ(mode_of(path_), 0700u);
  EXPECT_EQ(mode_of(path_ / "samples"), 0600u);
}

TEST_F(Storage, DoesNotFollowALink) {
  const auto victim = directory_.path() / "victim";
  std::ofstream(victim) << "precious";
  std::filesystem::create_directories(path_);
  std::filesystem::create_symlink(victim, path_ / "samples");
  EXPECT_THAT(refused(), HasSubstr("has 'samples', but is no storage of a loader"));
}

TEST_F(Storage, OfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a directory to another user";
  std::filesystem::create_directories(path_);
  ASSERT_EQ(chown(path_.c_str(), 65534, 65534), 0);
  EXPECT_THAT(refused(), HasSubstr("belongs to user 65534"));
}

TEST_F(Storage, CanBeUsedByOnlyOneProcess) {
  const auto storage = staged();
  EXPECT_THAT(refused(), HasSubstr("another loader of this process, uses this directory"));
}

TEST_F(Storage, OfAnotherJobIsRefused) {
  staged();
  order_.seed = 5;
  EXPECT_THAT(refused(), HasSubstr("made with the seed 17, and this job has 5; start the job"));
  order_ = partial_order(6, 2, 0.25);
  EXPECT_THAT(refused(), HasSubstr("made with the fraction 0.5, and this job has 0.25"));
  order_ = partial_order(7, 2, 0.5);
  EXPECT_THAT(refused(), HasSubstr("made with samples: 6, and this job has 7"));
  order_ = partial_order(6, 3, 0.5);
  EXPECT_THAT(refused(), HasSubstr("made with rank 1 of 2, and this job has 1 of 3"));
  order_ = partial_order(6, 2, 0.5);
  EXPECT_EQ(refused(), "");
  dataset_ = 0x1235;
  EXPECT_THAT(refused(), HasSubstr("it holds samples of another dataset"));
}

TEST_F(Storage, RefusesAFileThatIsChangedAnywhere) {
  staged();
  const std::string good = *read_file(path_ / "owned");
  for (size_t at = 0; at < good.size(); ++at) {
    std::string changed = good;
    changed[at] = static_cast<char>(changed[at] ^ 0x04);
    ASSERT_TRUE(write_file_atomically(path_ / "owned", bytes_of(changed)).ok());
    ASSERT_THAT(refused(), HasSubstr("owned: ")) << at;
  }
  for (size_t length = 0; length < good.size(); ++length) {
    const std::string cut = good.substr(0, length);
    ASSERT_TRUE(write_file_atomically(path_ / "owned", bytes_of(cut)).ok());
    ASSERT_THAT(refused(), HasSubstr("owned: ")) << length;
  }
}

TEST_F(Storage, RefusesInvalidEntriesWithACorrectChecksum) {
  constexpr size_t kEntries = 72;
  staged();
  const std::string good = *read_file(path_ / "owned");
  const auto refused_with = [&](size_t offset, uint64_t number) {
    EXPECT_TRUE(write_file_atomically(path_ / "owned", bytes_of(good)).ok());
    forge("owned", offset, number);
    return refused();
  };
  EXPECT_THAT(refused_with(kEntries, 6), HasSubstr("it names sample 6, but there are 6"));
  EXPECT_THAT(refused_with(kEntries, 4), HasSubstr("sample 4 is in two slots"));
  EXPECT_THAT(refused_with(kEntries + 8, ~uint64_t{0}), HasSubstr("but the samples file ends"));
  EXPECT_THAT(refused_with(kEntries + 16, ~uint64_t{0}), HasSubstr("but the samples file ends"));
  EXPECT_THAT(refused_with(kEntries + 32 + 8, 0), HasSubstr("overlap"));
  EXPECT_THAT(refused_with(56, uint64_t{1} << 60), HasSubstr("claims 1152921504606846976 slots"));
  EXPECT_THAT(refused_with(0, 1), HasSubstr("not a list of the samples of a rank"));
}

TEST_F(Storage, DoesNotReturnSamplesThatChangedOnDisk) {
  staged();
  {
    std::fstream samples(path_ / "samples", std::ios::in | std::ios::out | std::ios::binary);
    samples.seekp(5);
    samples.put('!');
  }
  EXPECT_THAT(bytes_in(**open(), 3), HasSubstr("are not those that were stored"));
  std::filesystem::resize_file(path_ / "samples", 100);
  EXPECT_THAT(refused(), HasSubstr("but the samples file ends at byte 100"));
}

TEST_F(Storage, RemovesTheLeftoversOfAKilledWriter) {
  staged();
  const auto leftover = path_ / ".owned.next.1234.abcd";
  std::ofstream(leftover) << "half";
  ASSERT_TRUE(open().ok());
  EXPECT_FALSE(std::filesystem::exists(leftover));
}

TEST_F(Storage, FilesOfOthersStay) {
  namespace fs = std::filesystem;
  fs::create_directories(path_);
  fs::permissions(path_, fs::perms(0755));
  std::ofstream(path_ / "notes") << "mine";
  EXPECT_THAT(refused(), HasSubstr("has 'notes', but is no storage of a loader"));
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms(0755));
  fs::rename(path_ / "notes", path_ / "samples");
  EXPECT_THAT(refused(), HasSubstr("has 'samples', but is no storage of a loader"));
  EXPECT_EQ(*read_file(path_ / "samples"), "mine");
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms(0755));
  for (const char* name : {"staged", "owned", "owned.next"}) {
    std::ofstream(path_ / name) << "a list of mine";
    EXPECT_NE(refused(), "") << name;
    EXPECT_EQ(*read_file(path_ / name), "a list of mine");
    EXPECT_EQ(fs::status(path_).permissions(), fs::perms(0755)) << name;
    fs::remove(path_ / name);
  }
  EXPECT_EQ(*read_file(path_ / "samples"), "mine");
  fs::resize_file(path_ / "samples", 0);
  std::ofstream(path_ / "notes") << "mine";
  EXPECT_THAT(refused(), HasSubstr("has 'notes', but is no storage of a loader"));
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms(0755));
  fs::remove_all(path_);
  staged();
  for (const char* name : {"notes", ".owned", ".owned.notes", ".staged.12"}) {
    std::ofstream(path_ / name) << "mine";
  }
  EXPECT_EQ(refused(), "");
  for (const char* name : {"notes", ".owned", ".owned.notes", ".staged.12"}) {
    EXPECT_EQ(*read_file(path_ / name), "mine") << name;
  }
}

TEST(Ownership, ReadsTheGoldenFile) {
  const std::string bytes = *read_file("tests/golden/owned.bin");
  const StorageOptions options{.order = partial_order(6, 2, 0.5), .rank = 1, .dataset = 0x1234};
  const auto owned = Ownership::parse(bytes_of(bytes), options, /*samples_size_bytes=*/128);
  ASSERT_TRUE(owned.ok()) << owned.error().message();
  EXPECT_EQ(owned->epoch(), Epoch{9});
  ASSERT_NE(owned->find(SampleId{3}), nullptr);
  EXPECT_EQ(owned->find(SampleId{3})->offset_bytes, 64u);
  EXPECT_EQ(owned->find(SampleId{0})->crc32c, 0x22222222u);
  EXPECT_EQ(owned->entries()[2].sample, 5u);
  EXPECT_EQ(owned->find(SampleId{4}), nullptr);
  EXPECT_EQ(owned->bytes(options), bytes);
}

TEST(FreeExtents, TakesTheSmallestPartThatFits) {
  FreeExtents places;
  places.reset({{.offset_bytes = 256, .size_bytes = 60}, {.offset_bytes = 448, .size_bytes = 64}});
  // Free: 0 to 256, 320 to 448.
  EXPECT_EQ(places.take(100), 320u);
  EXPECT_EQ(places.take(65), 0u);
  EXPECT_EQ(places.take(128), 128u);
  EXPECT_EQ(places.take(1), 512u);
  EXPECT_EQ(places.end_bytes(), 576u);
}

}  // namespace
}  // namespace millrace::loader::exchange
