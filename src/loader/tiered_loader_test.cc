// Tests how often loaders with tiers read the source, and that nothing else changes.
#include <gmock/gmock.h>

#include <filesystem>
#include <thread>

#include "base/io/temporary_directory.h"
#include "base/numbers/random.h"
#include "loader/loader.h"
#include "loader/testing/fakes.h"

namespace millrace::loader {
namespace {

using data::Epoch;
using data::SampleId;
using testing::HasSubstr;

constexpr size_t kSampleBytes = 1'000;
constexpr uint64_t kEntryBytes = kSampleBytes + tiers::Memory::kEntryBytes;

struct Case {
  std::shared_ptr<FakeSource> source;
  LoaderOptions options;
};

// One thread and one batch ahead, so that reads follow the order.
Case case_of(uint64_t sample_count, uint64_t kept_count) {
  Case run{.source = std::make_shared<FakeSource>(sample_count, kSampleBytes)};
  run.options.source = run.source;
  run.options.decoder = std::make_shared<FakeVerbatim>(kSampleBytes);
  run.options.batch_size = 8;
  run.options.seed = 3;
  run.options.thread_count = 1;
  run.options.prefetch_batches = 1;
  run.options.tiers.memory_bytes = kept_count * kEntryBytes;
  return run;
}

std::unique_ptr<Loader> must_open(const LoaderOptions& options) {
  auto loader = Loader::open(options);
  EXPECT_TRUE(loader.ok()) << loader.error().message();
  return *std::move(loader);
}

// Takes at most this many batches, checks their bytes and returns their samples.
std::vector<uint64_t> take(Loader& loader, size_t batch_count = 1'000'000) {
  std::vector<uint64_t> samples;
  for (size_t i = 0; i < batch_count; ++i) {
    auto batch = loader.next();
    EXPECT_TRUE(batch.ok()) << batch.error().message();
    if (!batch.ok() || !*batch) break;
    for (uint64_t row = 0; row < (*batch)->row_count; ++row) {
      const uint64_t sample = data::index_of((*batch)->samples[row]);
      const auto bytes = (*batch)->fields[0].bytes.subspan(row * kSampleBytes, kSampleBytes);
      uint64_t told = 0;
      std::memcpy(&told, bytes.data(), sizeof told);
      EXPECT_EQ(told, sample);
      EXPECT_EQ(bytes.back(), FakeSource::byte_at(sample, kSampleBytes - 1));
      samples.push_back(sample);
    }
  }
  return samples;
}

std::vector<uint64_t> whole_epoch(Loader& loader, uint64_t epoch) {
  EXPECT_TRUE(loader.start_epoch(Epoch{epoch}).ok());
  return take(loader);
}

// Predicts the reads of the source from the placement and Belady's rule.
class Expected {
 public:
  explicit Expected(const LoaderOptions& options, const Loader& loader)
      : held_(options.tiers.memory_bytes),
        placement_(
            {.order = std::shared_ptr<const order::Order>(std::shared_ptr<void>(), &loader.order()),
             .world = options.world,
             .batch_size = options.batch_size,
             .tail = options.tail}) {}

  void read(uint64_t epoch, const std::vector<uint64_t>& samples) {
    for (const uint64_t index : samples) {
      const SampleId sample{index};
      const auto next = placement_.next_use(sample, placement_.time_of(Epoch{epoch}, sample));
      if (!held_.contains(sample)) {
        ++source_reads;
        std::vector<SampleId> gone;
        if (next) held_.admit({sample, kEntryBytes, *next}, gone);
      } else if (next) {
        held_.touch(sample, *next);
      } else {
        held_.erase(sample);
      }
    }
  }

  uint64_t source_reads = 0;

 private:
  tiers::HoldSet held_;
  tiers::Placement placement_;
};

// The extra batch is prefetched from the epoch after the last.
void expect_reads(const Case& run, const Expected& expected) {
  EXPECT_GE(run.source->read_count(), expected.source_reads);
  EXPECT_LE(run.source->read_count(), expected.source_reads + run.options.batch_size);
}

TEST(TieredLoader, ReadsTheSourceAsOftenAsThePlacementPredicts) {
  for (const World world : {World{0, 1}, World{1, 4}}) {
    for (const Tail tail : {Tail::kUneven, Tail::kDrop}) {
      SCOPED_TRACE(fmt::format("{} ranks, {}", world.size, order::tail_name(tail)));
      Case run = case_of(403, 100);
      run.options.world = world;
      run.options.tail = tail;
      const auto loader = must_open(run.options);
      Expected expected(run.options, *loader);
      uint64_t sample_count = 0;
      for (uint64_t epoch = 0; epoch < 3; ++epoch) {
        const auto samples = whole_epoch(*loader, epoch);
        expected.read(epoch, samples);
        sample_count += samples.size();
      }
      expect_reads(run, expected);
      EXPECT_LT(expected.source_reads, sample_count - 30);
    }
  }
}

// Draws 300 of 200 samples per epoch; a tenth of them have most of the weight.
Case drawn_case(Shuffle shuffle, uint64_t kept_count) {
  Case run = case_of(200, kept_count);
  run.options.shuffle = shuffle;
  run.options.position_count = 300;
  auto drawing = std::make_shared<order::Drawing>();
  for (uint64_t i = 0; i < 200; ++i) drawing->weights.push_back(i % 10 == 0 ? 20 : 1);
  drawing->mixture = {.proportions = {0.7, 0.3}, .part_begins = {0, 20, 200}};
  drawing->lists = std::make_shared<order::EpochLists>(200, 300);
  for (uint64_t epoch = 0; epoch < 4; ++epoch) {
    Random random(epoch);
    std::vector<int64_t> list;
    for (uint64_t i = 0; i < 300; ++i) {
      list.push_back(static_cast<int64_t>(random.below(random.below(200) + 1)));
    }
    EXPECT_TRUE(drawing->lists->put(Epoch{epoch}, list).ok());
  }
  run.options.drawing = std::move(drawing);
  return run;
}

// The reads of the source by Belady's rule, if the next use of each read is known within the
// horizon.
uint64_t fewest_reads(const std::vector<std::vector<uint64_t>>& epochs, uint64_t kept_count,
                      uint64_t horizon_epochs) {
  std::vector<uint64_t> reads;
  for (const auto& epoch : epochs) reads.insert(reads.end(), epoch.begin(), epoch.end());
  tiers::HoldSet held(kept_count);
  uint64_t source_reads = 0;
  for (uint64_t at = 0; at < reads.size(); ++at) {
    const uint64_t horizon = (at / epochs[0].size() + horizon_epochs + 1) * epochs[0].size();
    const auto next =
        std::find(reads.begin() + static_cast<ptrdiff_t>(at) + 1, reads.end(), reads[at]) -
        reads.begin();
    const bool is_used_again = static_cast<uint64_t>(next) < std::min(reads.size(), horizon);
    const SampleId sample{reads[at]};
    const auto use = static_cast<tiers::UseTime>(next);
    if (!held.contains(sample)) {
      ++source_reads;
      std::vector<SampleId> gone;
      if (is_used_again) held.admit({sample, 1, use}, gone);
    } else if (is_used_again) {
      held.touch(sample, use);
    } else {
      held.erase(sample);
    }
  }
  return source_reads;
}

TEST(TieredLoader, KeepsWhatADrawnOrderNeedsSoonest) {
  for (const Shuffle shuffle : {Shuffle::kWeighted, Shuffle::kMixture, Shuffle::kListed}) {
    SCOPED_TRACE(order::shuffle_name(shuffle));
    Case run = drawn_case(shuffle, 40);
    run.options.epoch_count = 4;
    const auto loader = must_open(run.options);
    std::vector<std::vector<uint64_t>> epochs;
    for (uint64_t epoch = 0; epoch < 4; ++epoch) {
      epochs.push_back(whole_epoch(*loader, epoch));
      EXPECT_EQ(epochs.back().size(), 300u);
    }
    const uint64_t fewest = fewest_reads(epochs, 40, shuffle == Shuffle::kListed ? 1 : 8);
    EXPECT_LT(fewest, 4 * 300u * 3 / 4);
    // A read near the end of an epoch may be attributed to the next one.
    EXPECT_NEAR(static_cast<double>(run.source->read_count()), static_cast<double>(fewest), 12);
  }
}

TEST(TieredLoader, ManyThreadsAndADiskServeADrawnOrder) {
  for (const Shuffle shuffle : {Shuffle::kWeighted, Shuffle::kMixture, Shuffle::kListed}) {
    SCOPED_TRACE(order::shuffle_name(shuffle));
    const auto directory = TemporaryDirectory::create();
    ASSERT_TRUE(directory.ok());
    Case run = drawn_case(shuffle, 30);
    run.options.world = {1, 2};
    run.options.thread_count = 4;
    run.options.prefetch_batches = 4;
    run.options.epoch_count = 4;
    run.options.tiers.disk_bytes = 300 * kEntryBytes;
    run.options.tiers.disk_directory = directory->path();
    const auto loader = must_open(run.options);
    for (uint64_t epoch = 0; epoch < 4; ++epoch) {
      EXPECT_EQ(whole_epoch(*loader, epoch).size(), 150u);
    }
    const auto tiers = *loader->stats().tiers;
    EXPECT_GT(tiers.of(tiers::Tier::kMemory).samples, 100u);
    EXPECT_LT(run.source->read_count(), 4 * 150u - 100);
  }
}

// One rank of four. Its epochs have thirteen batches. Its one thread prefetches up to ten batches,
// but only two of an epoch that has not begun.
class FarAhead {
 public:
  static constexpr uint64_t kSamples = 100;  // of the rank, per epoch
  static constexpr uint64_t kBatches = 13;

  FarAhead() {
    run.options.world = {1, 4};
    run.options.prefetch_batches = 10;
    loader = must_open(run.options);
  }

  // The predicted reads of the source for the first `read_count` reads of the rank.
  uint64_t expected_reads(uint64_t read_count) const {
    Expected expected(run.options, *loader);
    for (uint64_t i = 0; i < read_count; ++i) {
      const Epoch epoch{i / kSamples};
      const SampleId sample = loader->order().at(epoch, 1 + 4 * (i % kSamples));
      expected.read(data::number_of(epoch), {data::index_of(sample)});
    }
    return expected.source_reads;
  }

  // Waits until the thread has made this many reads. It then has no room for more.
  void wait_until_read(uint64_t read_count) const {
    for (int i = 0; i < 60'000; ++i) {
      const LoaderStats stats = loader->stats();
      uint64_t reads = 0;
      for (const tiers::TierUse& use : stats.tiers->tiers) reads += use.samples;
      if (reads >= read_count) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    FAIL() << "the threads did not prefetch";
  }

  Case run = case_of(400, 40);
  std::unique_ptr<Loader> loader;
};

TEST(TieredLoader, FollowsThreadsThatAreFarAheadOfTheConsumer) {
  const FarAhead ahead;
  for (uint64_t epoch = 0; epoch < 8; ++epoch) {
    whole_epoch(*ahead.loader, epoch);
    ahead.wait_until_read((epoch + 1) * 100 + 16);
  }
  EXPECT_EQ(ahead.run.source->read_count(), ahead.expected_reads(816));
}

TEST(TieredLoader, FollowsEpochsThatEndABatchEarly) {
  const FarAhead ahead;
  for (uint64_t epoch = 0; epoch < 8; ++epoch) {
    ASSERT_TRUE(ahead.loader->start_epoch(Epoch{epoch}).ok());
    take(*ahead.loader, FarAhead::kBatches - 1);
    ahead.wait_until_read((epoch + 1) * 100 + 16);
  }
  // A few samples are near the end of one epoch and near the start of the next.
  EXPECT_LE(ahead.run.source->read_count(), ahead.expected_reads(816) + 5);
}

TEST(TieredLoader, ManyThreadsReadOnceWhatFitsAcrossEpochs) {
  Case run = case_of(300, 300);
  run.options.thread_count = 4;
  run.options.prefetch_batches = 12;
  const auto loader = must_open(run.options);
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    EXPECT_EQ(whole_epoch(*loader, epoch).size(), 300u);
  }
  // Two threads may read the same sample at once, for two different epochs.
  EXPECT_LE(run.source->read_count(), 300u + 3 * run.options.thread_count);
  const auto tiers = loader->stats().tiers;
  ASSERT_TRUE(tiers);
  EXPECT_GE(tiers->of(tiers::Tier::kMemory).samples, 600u - 3 * run.options.thread_count);
}

// Threads read in another order. A read near the end of one epoch and the start of the next may be
// attributed to either. That affects a few samples.
TEST(TieredLoader, ManyThreadsCauseFewExtraReads) {
  Case run = case_of(400, 200);
  run.options.thread_count = 4;
  run.options.prefetch_batches = 4;
  const auto loader = must_open(run.options);
  Expected expected(run.options, *loader);
  for (uint64_t epoch = 0; epoch < 6; ++epoch) expected.read(epoch, whole_epoch(*loader, epoch));
  EXPECT_EQ(expected.source_reads, 400u + 5 * 200u);
  EXPECT_LE(run.source->read_count(), expected.source_reads + 4 * 8 + 40);
}

TEST(TieredLoader, KeepsNothingAfterTheLastEpoch) {
  Case run = case_of(100, 100);
  run.options.epoch_count = 2;
  const auto loader = must_open(run.options);
  whole_epoch(*loader, 0);
  EXPECT_GT(loader->stats().tiers->memory_held_bytes, 0u);
  whole_epoch(*loader, 1);
  EXPECT_EQ(loader->stats().tiers->memory_held_bytes, 0u);
  EXPECT_EQ(run.source->read_count(), 100u);
}

TEST(TieredLoader, FollowsEpochsThatEndEarlyOrRepeat) {
  Case run = case_of(400, 100);
  const auto loader = must_open(run.options);
  Expected expected(run.options, *loader);
  expected.read(0, whole_epoch(*loader, 0));
  ASSERT_TRUE(loader->start_epoch(Epoch{1}).ok());
  expected.read(1, take(*loader, 20));
  expected.read(7, whole_epoch(*loader, 7));
  expected.read(7, whole_epoch(*loader, 7));
  expected.read(8, whole_epoch(*loader, 8));
  // Each jump drops a prefetched batch.
  EXPECT_LE(run.source->read_count(), expected.source_reads + 4 * run.options.batch_size);
}

TEST(TieredLoader, ResumesInTheMiddleOfAnEpoch) {
  Case run = case_of(400, 100);
  std::string state;
  std::vector<uint64_t> rest;
  {
    const auto loader = must_open(run.options);
    whole_epoch(*loader, 0);
    ASSERT_TRUE(loader->start_epoch(Epoch{1}).ok());
    take(*loader, 20);
    state = loader->state().text();
    rest = take(*loader);
  }
  Case resumed = case_of(400, 100);
  const auto loader = must_open(resumed.options);
  ASSERT_TRUE(loader->restore(*LoaderState::parse(state)).ok());
  Expected expected(resumed.options, *loader);
  const auto samples = take(*loader);
  EXPECT_EQ(samples, rest);
  EXPECT_EQ(samples.size(), 400u - 160);
  expected.read(1, samples);
  for (uint64_t epoch = 2; epoch < 4; ++epoch) expected.read(epoch, whole_epoch(*loader, epoch));
  expect_reads(resumed, expected);
}

TEST(TieredLoader, ANewBatchSizeKeepsWhatIsHeld) {
  const Case run = case_of(/*sample_count=*/96, /*kept_count=*/96);
  const auto loader = must_open(run.options);
  whole_epoch(*loader, 0);
  ASSERT_TRUE(loader->start_epoch(Epoch{1}).ok());
  auto samples = take(*loader, 3);
  const LoaderState state = loader->state();
  ASSERT_TRUE(loader->set_batch_size(24).ok());
  ASSERT_TRUE(loader->restore(state).ok());
  const auto rest = take(*loader);
  samples.insert(samples.end(), rest.begin(), rest.end());
  EXPECT_EQ(samples, whole_epoch(*must_open(case_of(96, 0).options), 1));
  EXPECT_EQ(run.source->read_count(), 96u);
}

TEST(TieredLoader, FollowsTheShardsOfAStateOfAnotherWorld) {
  Case run = case_of(400, 400);
  run.options.shuffle = Shuffle::kLocal;
  run.options.world = {0, 4};
  const LoaderState state = must_open(run.options)->state();
  run.options.world = {0, 2};
  const auto loader = must_open(run.options);
  whole_epoch(*loader, 0);
  ASSERT_TRUE(loader->restore(state).ok());
  const uint64_t before = run.source->read_count();
  take(*loader);
  for (uint64_t epoch = 1; epoch < 3; ++epoch) whole_epoch(*loader, epoch);
  // This rank has two of the four shards in every epoch.
  EXPECT_LE(run.source->read_count() - before, 200u);
}

TEST(TieredLoader, KeepsSamplesInAFileThatIsAlreadyDeleted) {
  const auto directory = TemporaryDirectory::create();
  ASSERT_TRUE(directory.ok());
  Case run = case_of(100, 0);
  run.options.tiers.disk_bytes = 100 * tiers::Extents::kBlockBytes;
  run.options.tiers.disk_directory = directory->path();
  run.source->delay = std::chrono::microseconds(500);  // slower than the tier's file
  const auto loader = must_open(run.options);
  whole_epoch(*loader, 0);
  // More than the prefetched batch, whose samples may come from the source again.
  while (loader->stats().tiers->disk.written_samples <= run.options.batch_size) {
    std::this_thread::yield();
  }
  for (uint64_t epoch = 1; epoch < 3; ++epoch) whole_epoch(*loader, epoch);
  EXPECT_GT(loader->stats().tiers->of(tiers::Tier::kDisk).samples, 0u);
  EXPECT_TRUE(std::filesystem::is_empty(directory->path()));
}

TEST(TieredLoader, ReportsAnUnwritableDirectoryBeforeTheFirstEpoch) {
  Case run = case_of(10, 0);
  run.options.tiers.disk_bytes = 1 << 20;
  run.options.tiers.disk_directory = "/proc/no-such-directory";
  const auto loader = Loader::open(run.options);
  ASSERT_FALSE(loader.ok());
  EXPECT_THAT(loader.error().message(),
              HasSubstr("samples cannot be kept in /proc/no-such-directory: "));
}

}  // namespace
}  // namespace millrace::loader
