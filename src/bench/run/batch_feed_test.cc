#include "bench/run/batch_feed.h"

#include <gmock/gmock.h>

#include <condition_variable>
#include <mutex>
#include <set>

#include "bench/samples/measured_source.h"
#include "data/testing/digits.h"
#include "data/testing/source_contract.h"

namespace millrace::bench {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAreArray;

// Notes which samples were decoded, and refuses one.
class NotingDecoder final : public data::Decoder {
 public:
  explicit NotingDecoder(std::optional<uint64_t> bad = {}) : bad_(bad) {}

  std::vector<data::FieldSpec> fields() const override { return {{.name = "x", .shape = {8}}}; }
  Status decode(ByteView, const data::DecodeContext& context, std::span<const data::Output>,
                data::Scratch*) const override {
    const uint64_t sample = data::index_of(context.sample);
    if (sample == bad_) return fail(Errc::kCorrupt, "is damaged");
    const std::lock_guard lock(mutex_);
    seen_.push_back(sample);
    return {};
  }
  std::vector<uint64_t> take() const {
    const std::lock_guard lock(mutex_);
    return std::exchange(seen_, {});
  }

 private:
  std::optional<uint64_t> bad_;
  mutable std::mutex mutex_;
  mutable std::vector<uint64_t> seen_;
};

Result<std::vector<uint64_t>> batches_of(BatchFeed& feed, uint64_t epoch) {
  RETURN_IF_ERROR(feed.start_epoch(data::Epoch{epoch}));
  std::vector<uint64_t> rows;
  while (true) {
    ASSIGN_OR_RETURN(const uint64_t count, feed.next());
    if (count == 0) return rows;
    rows.push_back(count);
  }
}

class EveryLoader : public testing::TestWithParam<DataLoader> {
 protected:
  FeedOptions options(const std::shared_ptr<NotingDecoder>& decoder) const {
    FeedOptions wanted;
    wanted.source = std::make_shared<data::Digits>();
    wanted.decoder = decoder;
    wanted.reader.data_loader = GetParam();
    wanted.reader.read_threads = 3;
    wanted.reader.file_shuffle = Shuffle::kSeed;
    wanted.reader.sample_shuffle = Shuffle::kSeed;
    wanted.batch_size = 2;
    wanted.epoch_count = 1;
    return wanted;
  }
};

TEST_P(EveryLoader, ReadsEachSampleOnceAnEpochOnAnyNumberOfRanks) {
  for (const uint32_t size : {1, 2, 3, 7, 20}) {
    std::vector<uint64_t> seen;
    uint64_t rows = 0;
    for (uint32_t rank = 0; rank < size; ++rank) {
      const auto decoder = std::make_shared<NotingDecoder>();
      FeedOptions wanted = options(decoder);
      wanted.world = {rank, size};
      const auto feed = *open_feed(wanted);
      const auto batches = batches_of(*feed, 0);
      ASSERT_TRUE(batches.ok()) << batches.error().message();
      for (const uint64_t count : *batches) rows += count;
      for (const uint64_t sample : decoder->take()) seen.push_back(sample);
    }
    EXPECT_EQ(rows, 10) << size << " ranks";
    EXPECT_THAT(seen, UnorderedElementsAreArray({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  }
}

TEST_P(EveryLoader, FailsWithTheNameOfABadSampleOrLeavesItOut) {
  FeedOptions wanted = options(std::make_shared<NotingDecoder>(4));
  const auto failing = *open_feed(wanted);
  const auto failed = batches_of(*failing, 0);
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.error().message(), HasSubstr("digit 4"));
  EXPECT_THAT(failed.error().message(), HasSubstr("is damaged"));

  wanted.reader.on_error = OnError::kSkip;
  const auto skipping = *open_feed(wanted);
  uint64_t rows = 0;
  const auto left = batches_of(*skipping, 0);
  ASSERT_TRUE(left.ok());
  for (const uint64_t count : *left) rows += count;
  EXPECT_EQ(rows, 9);
  EXPECT_EQ(skipping->bad_samples(), 1);
  EXPECT_THAT(skipping->first_bad_sample(), HasSubstr("digit 4"));
}

TEST_P(EveryLoader, CanBeLeftInTheMiddleOfAnEpoch) {
  const auto feed = *open_feed(options(std::make_shared<NotingDecoder>()));
  ASSERT_TRUE(feed->start_epoch(data::Epoch{0}).ok());
  EXPECT_EQ(*feed->next(), 2);
  EXPECT_EQ(batches_of(*feed, 1)->size(), 5);
}

// The loader `tensorflow`.
class StreamFeed : public testing::Test {
 protected:
  // The samples of epoch 0 on one of `size` ranks, in the order in which they were decoded.
  std::vector<uint64_t> order(const ReaderConfig& reader, loader::order::World world = {0, 1}) {
    const auto decoder = std::make_shared<NotingDecoder>();
    const auto feed = *open_feed({.source = std::make_shared<data::Digits>(),
                                  .decoder = decoder,
                                  .reader = reader,
                                  .batch_size = 1,
                                  .world = world,
                                  .seed = 1,
                                  .epoch_count = 1});
    const auto batches = batches_of(*feed, 0);
    EXPECT_TRUE(batches.ok());
    return decoder->take();
  }

  ReaderConfig reader_{.data_loader = DataLoader::kTensorflow, .sample_shuffle = Shuffle::kSeed};
};

TEST_F(StreamFeed, DrawsFromABufferOfShuffleSize) {
  for (const uint64_t capacity : {1, 2, 4, 100}) {
    reader_.shuffle_size = capacity;
    const std::vector<uint64_t> seen = order(reader_);
    ASSERT_EQ(seen.size(), 10);
    // A sample leaves at the earliest when the buffer was filled up to it.
    for (size_t i = 0; i < seen.size(); ++i) EXPECT_LT(seen[i], i + capacity) << capacity;
    EXPECT_EQ(std::is_sorted(seen.begin(), seen.end()), capacity == 1) << capacity;
    EXPECT_EQ(order(reader_), seen) << "the same seed, another order";
  }
}

TEST_F(StreamFeed, DividesEachFileIfFilesAreShared) {
  reader_.sample_shuffle = Shuffle::kOff;
  const uint64_t files = data::Digits().group_count();
  ASSERT_GT(files, 1);
  std::vector<uint64_t> all;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    reader_.file_access = FileAccess::kShared;
    const std::vector<uint64_t> shared = order(reader_, {rank, 2});
    all.insert(all.end(), shared.begin(), shared.end());
    reader_.file_access = FileAccess::kMulti;
    EXPECT_NE(order(reader_, {rank, 2}), shared);
  }
  EXPECT_THAT(all, UnorderedElementsAreArray({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

// Waits until several threads are decoding at once.
class MeetingDecoder final : public data::Decoder {
 public:
  explicit MeetingDecoder(size_t count) : count_(count) {}
  std::vector<data::FieldSpec> fields() const override { return {{.name = "x", .shape = {8}}}; }
  Status decode(ByteView, const data::DecodeContext&, std::span<const data::Output>,
                data::Scratch*) const override {
    std::unique_lock lock(mutex_);
    ++here_;
    met_.notify_all();
    const bool met = met_.wait_for(lock, std::chrono::seconds(60), [&] { return here_ >= count_; });
    return met ? Status() : Status(fail(Errc::kTimeout, "nobody else decodes"));
  }

 private:
  size_t count_;
  mutable std::mutex mutex_;
  mutable std::condition_variable met_;
  mutable size_t here_ = 0;
};

TEST_F(StreamFeed, DecodesWithAllComputationThreadsAtOnce) {
  reader_.computation_threads = 4;
  const auto feed = *open_feed({.source = std::make_shared<data::Digits>(),
                                .decoder = std::make_shared<MeetingDecoder>(4),
                                .reader = reader_,
                                .batch_size = 1,
                                .world = {0, 1}});
  EXPECT_EQ(batches_of(*feed, 0)->size(), 10);
}

INSTANTIATE_TEST_SUITE_P(ByName, EveryLoader,
                         testing::Values(DataLoader::kNative, DataLoader::kPytorch,
                                         DataLoader::kTensorflow, DataLoader::kDali),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(NullFeed, HasTheBatchesOfItsRank) {
  const auto feed = null_feed(10, 4, {1, 2});
  EXPECT_THAT(*batches_of(*feed, 0), testing::ElementsAre(4, 1));
  EXPECT_THAT(*batches_of(*feed, 1), testing::ElementsAre(4, 1));
}

TEST(MeasuredSource, PassesTheSourceContractAndTimesEachRead) {
  const auto latencies = std::make_shared<LatencyRecorder>();
  const auto source = std::make_shared<MeasuredSource>(std::make_shared<data::Digits>(), latencies);
  std::vector<std::string> samples;
  for (int i = 0; i < 10; ++i) samples.push_back(std::to_string(i));
  const Status kept = data::check_source({.source = source, .samples = samples});
  EXPECT_TRUE(kept.ok()) << kept.error().message();
  const uint64_t before = latencies->all().count();
  data::Buffer room;
  ASSERT_TRUE(source->read(data::SampleId{3}, room).ok());
  EXPECT_EQ(latencies->all().count(), before + 1);
}

}  // namespace
}  // namespace millrace::bench
