// Tests that the loader with many reads in flight behaves as with one at a time, except for what
// waits for what.
#include "loader/pipeline/flight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "loader/loader.h"
#include "loader/testing/fake_loaders.h"

namespace millrace::loader::pipeline {
namespace {

using data::Epoch;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

const data::ReadWays kFlies = {.one_at_a_time = "alone", .in_flight = "late"};

std::shared_ptr<FakeSource> flying(uint64_t sample_count, size_t sample_bytes = 16) {
  auto source = std::make_shared<FakeSource>(sample_count, sample_bytes);
  source->in_ways = kFlies;
  return source;
}

// All bytes of two epochs, with labels.
std::string all_bytes(const LoaderOptions& options) {
  const auto loader = begun(options);
  std::string all;
  for (const Epoch epoch : {Epoch{0}, Epoch{1}}) {
    EXPECT_TRUE(loader->start_epoch(epoch).ok());
    while (true) {
      const auto batch = loader->next();
      EXPECT_TRUE(batch.ok()) << batch.error().message();
      if (!batch.ok() || !*batch) break;
      for (const data::BatchField& field : (*batch)->fields) all += text_of(field.bytes);
      all += text_of(std::as_bytes((*batch)->labels));
    }
  }
  return all;
}

TEST(Flight, ReturnsTheSameBytesAsReadsOneAtATime) {
  for (const bool is_verbatim : {false, true}) {
    for (const uint64_t batch_size : {1, 7, 64}) {
      LoaderOptions options = in_order(std::make_shared<FakeSource>(203), batch_size);
      options.shuffle = order::Shuffle::kGlobal;
      if (is_verbatim) options.decoder = std::make_shared<FakeVerbatim>();
      const std::string expected = all_bytes(options);
      for (const uint32_t io_depth : {1u, 2u, 32u}) {
        for (const uint32_t threads : {1u, 4u}) {
          const auto source = flying(203);
          options.source = source;
          options.io_depth = io_depth;
          options.thread_count = threads;
          EXPECT_EQ(all_bytes(options), expected) << batch_size << " " << io_depth;
          EXPECT_EQ(source->most_in_flight() > 1, io_depth > 1);
          EXPECT_LE(source->most_in_flight(), io_depth);
        }
      }
    }
  }
}

TEST(Flight, MeasuringTheChoiceChangesNoByte) {
  LoaderOptions options = in_order(std::make_shared<FakeSource>(3000), 16);
  const std::string expected = all_bytes(options);
  const auto source = flying(3000);
  source->in_ways.is_open_choice = true;
  options.source = source;
  EXPECT_EQ(all_bytes(options), expected);
}

TEST(Flight, StatsReportTheChoiceAndBothMeasurements) {
  const auto source = flying(3000);
  source->in_ways.is_open_choice = true;
  const auto loader = begun(in_order(source, 16));
  EXPECT_EQ(loader->stats().reads.engine, "alone");  // until there is a measurement
  while ((*loader->next()).has_value()) {
  }
  const ReadStats reads = loader->stats().reads;
  EXPECT_GE(reads.trial_count, 1u);
  ASSERT_EQ(reads.measured.size(), 2u);
  EXPECT_EQ(reads.measured[0].name, "alone");
  EXPECT_EQ(reads.measured[1].name, "late");
  EXPECT_GT(reads.measured[0].bytes_per_second, 0);
  EXPECT_GT(reads.measured[1].bytes_per_second, 0);
  EXPECT_THAT(reads.engine, testing::AnyOf("alone", "late"));
}

TEST(Flight, CountsWhatWasReadAndDecoded) {
  const auto source = flying(64);
  source->delay = std::chrono::microseconds(10);
  const auto loader = begun(in_order(source, 16));
  while ((*loader->next()).has_value()) {
  }
  const LoaderStats stats = loader->stats();
  EXPECT_GE(stats.bytes_read, 64u * 16);
  EXPECT_GE(stats.read, std::chrono::microseconds(64 * 10));
  EXPECT_GT(stats.decode.count(), 0);
  EXPECT_EQ(stats.reads.engine, "late");
}

TEST(Flight, ABadSampleIsNamedAtItsBatchAndTheLoaderContinues) {
  const auto source = flying(12);
  source->bad = {6, 5};
  const auto loader = begun(in_order(source, 4));
  EXPECT_THAT(next_samples(*loader), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(next_error(*loader).message(), "sample-5: input/output error");
  EXPECT_THAT(next_samples(*loader), ElementsAre(8, 9, 10, 11));
  EXPECT_EQ(loader->stats().bad_samples, 2u);
}

TEST(Flight, BadSamplesAreLeftOutOnRequest) {
  const auto source = flying(10);
  source->bad = {0, 2, 9};
  LoaderOptions options = in_order(source, 5);
  options.skips_bad_samples = true;
  const auto loader = begun(options);
  const auto batch = *loader->next();
  EXPECT_THAT(samples_of(*batch), ElementsAre(1, 3, 4));
  EXPECT_EQ(batch->fields[0].bytes[16], FakeSource::byte_at(3, 15));
  EXPECT_THAT(next_samples(*loader), ElementsAre(5, 6, 7, 8));
}

TEST(Flight, AnUndecodableSampleOrOneOfAnotherLengthIsNamed) {
  const auto decoder = std::make_shared<FakeDecoder>();
  decoder->bad = {2};
  LoaderOptions options = in_order(flying(4), 4);
  options.decoder = decoder;
  EXPECT_EQ(next_error(*begun(options)).message(), "sample-2: the header is damaged");
  const auto source = flying(4);
  source->short_ones = {1};
  options.source = source;
  options.decoder = std::make_shared<FakeVerbatim>();
  EXPECT_THAT(next_error(*begun(options)).message(),
              HasSubstr("sample-1: it has 15 bytes, but every sample must have 16"));
}

TEST(Flight, ASourceThatThrowsLosesOnlyWhatWasInFlight) {
  const auto source = flying(400);
  source->throwing = {30};
  LoaderOptions options = in_order(source, 10);
  options.skips_bad_samples = true;
  const auto loader = begun(options);
  uint64_t rows = 0;
  for (int i = 0; i < 40; ++i) rows += next_samples(*loader).size();
  EXPECT_LT(rows, 400u);
  EXPECT_GE(rows, 400u - options.io_depth);
  EXPECT_EQ(rows + loader->stats().bad_samples, 400u);
  EXPECT_THAT(loader->stats().first_bad_sample, HasSubstr("a library threw"));
}

TEST(Flight, AStuckReadIsNamedAfterTheDeadlineAndTheBatchComesLater) {
  const auto source = flying(4);
  source->stuck = {2};
  LoaderOptions options = in_order(source, 4);
  options.read_deadline = milliseconds(30);
  options.thread_count = 1;
  options.prefetch_batches = 1;
  const auto loader = begun(options);
  const Error error = error_that_names(*loader, "sample-2 ");
  EXPECT_EQ(error.code(), Errc::kTimeout);
  EXPECT_THAT(error.message(), HasSubstr("sample-2 (read for "));
  EXPECT_THAT(error.message(), HasSubstr("deadline of 30 ms"));
  EXPECT_EQ(next_error(*loader).code(), Errc::kTimeout);
  source->release();
  EXPECT_THAT(next_samples_at_last(*loader), ElementsAre(0, 1, 2, 3));
}

TEST(Flight, ManyStuckReadsAreCountedAndSomeNamed) {
  const auto source = flying(64);
  for (uint64_t i = 0; i < 64; ++i) source->stuck.insert(i);
  LoaderOptions options = in_order(source, 64);
  options.decoder = std::make_shared<FakeVerbatim>();
  options.read_deadline = milliseconds(30);
  options.thread_count = 1;
  options.prefetch_batches = 1;
  options.io_depth = 10;
  const auto loader = begun(options);
  while (source->read_count() == 0) std::this_thread::yield();  // all ten are in flight then
  EXPECT_THAT(next_error(*loader).message(), HasSubstr(" and 6 more"));
  source->release();
  EXPECT_EQ(next_samples_at_last(*loader).size(), 64u);
}

TEST(Flight, ALoaderWithAStuckReadCanBeDestroyedAndItsThreadEndsLater) {
  const auto source = flying(8);
  source->stuck = {0};
  LoaderOptions options = in_order(source, 4);
  options.read_deadline = milliseconds(5);
  auto loader = begun(options);
  options.source.reset();
  EXPECT_EQ(error_that_names(*loader, "sample-0 ").code(), Errc::kTimeout);
  loader.reset();
  EXPECT_GT(source.use_count(), 1);  // the thread still has it
  source->release();
  while (source.use_count() > 1) std::this_thread::yield();
}

TEST(Flight, CancelEndsAWaitForReadsInFlight) {
  const auto source = flying(8);
  source->stuck = {0};
  const auto loader = begun(in_order(source, 4));
  std::thread canceller([&] {
    std::this_thread::sleep_for(milliseconds(10));
    loader->cancel();
  });
  EXPECT_EQ(next_error(*loader).code(), Errc::kCancelled);
  canceller.join();
  source->release();
  ASSERT_TRUE(loader->start_epoch(Epoch{1}).ok());
  EXPECT_THAT(next_samples(*loader), ElementsAre(0, 1, 2, 3));
}

TEST(Flight, EpochsMayStartInAnyOrderAtAnyTime) {
  for (const bool is_open_choice : {false, true}) {
    const auto source = flying(64);
    source->in_ways.is_open_choice = is_open_choice;
    LoaderOptions options = in_order(source, 8);
    options.decoder = std::make_shared<FakeVerbatim>();
    options.thread_count = 4;
    const auto loader = begun(options);
    for (uint64_t i = 0; i < 300; ++i) {
      ASSERT_TRUE(loader->start_epoch(Epoch{i * i % 7}).ok());
      for (uint64_t batch = 0; batch < i % 10; ++batch) {
        const auto samples = next_samples(*loader);
        ASSERT_EQ(samples.empty(), batch >= 8);
        if (!samples.empty()) {
          ASSERT_EQ(samples[0], batch * 8);
        }
      }
    }
  }
}

TEST(Flight, AConsumerMayStopAtAnyTime) {
  for (int batches = 0; batches < 8; ++batches) {
    const auto source = flying(100'000);
    source->delay = std::chrono::microseconds(100);
    const auto loader = begun(in_order(source, 16));
    for (int i = 0; i < batches; ++i) EXPECT_EQ(next_samples(*loader).size(), 16u);
  }
}

TEST(Flight, ReadsOfTheNextBatchBeginBeforeThisOneIsRead) {
  const auto source = flying(200);
  LoaderOptions options = in_order(source, 2);
  options.decoder = std::make_shared<FakeVerbatim>();
  options.thread_count = 1;
  options.prefetch_batches = 8;
  const auto loader = begun(options);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(next_samples(*loader).size(), 2u);
  EXPECT_GT(source->most_in_flight(), 2u);
}

TEST(Flight, AThreadHasAtMostItsPartOfABatchInFlight) {
  const auto source = flying(6400);
  LoaderOptions options = in_order(source, 64);
  options.decoder = std::make_shared<FakeVerbatim>();
  options.thread_count = 4;
  const auto loader = begun(options);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(next_samples(*loader).size(), 64u);
  EXPECT_GT(source->most_in_flight(), 4u);
  EXPECT_LE(source->most_in_flight(), 16u);
}

// Ignores the bytes.
class LazyDecoder final : public data::Decoder {
 public:
  std::vector<data::FieldSpec> fields() const override {
    return {{"nothing", data::ElementType::kU8, {1}}};
  }
  Status decode(ByteView, const data::DecodeContext&, std::span<const data::Output>,
                data::Scratch*) const override {
    return {};
  }
};

TEST(Flight, LargeEncodedSamplesDoNotFillTheMemory) {
  constexpr size_t kSampleBytes = 20 << 20;
  static_assert(Flight::kRoomBytesMax / kSampleBytes == 3);
  const auto source = flying(24, kSampleBytes);
  source->filled_bytes = 0;
  LoaderOptions options = in_order(source, 8);
  options.decoder = std::make_shared<LazyDecoder>();
  options.thread_count = 1;
  options.prefetch_batches = 1;
  const auto loader = begun(options);
  EXPECT_EQ(next_samples(*loader).size(), 8u);
  EXPECT_GT(source->most_in_flight(), 1u);
  EXPECT_LE(source->most_in_flight(), 3u);
}

TEST(Flight, WithoutReadsInFlightReadsOneAtATimeAndStatsSayWhy) {
  for (const bool is_open_choice : {false, true}) {
    const auto source = flying(2000);
    source->in_ways.is_open_choice = is_open_choice;
    source->refusal = "no rings are left";
    LoaderOptions options = in_order(source, 10);
    const auto loader = begun(options);
    for (int i = 0; i < 200; ++i) EXPECT_EQ(next_samples(*loader).size(), 10u);
    EXPECT_EQ(loader->stats().reads.engine, "alone");
    EXPECT_EQ(loader->stats().reads.refusal, "no rings are left");
  }
}

TEST(Flight, RefusesAnInvalidDepth) {
  LoaderOptions options = in_order(flying(8), 4);
  for (const uint32_t io_depth : {0u, 5000u}) {
    options.io_depth = io_depth;
    const auto loader = Loader::open(options);
    ASSERT_FALSE(loader.ok());
    EXPECT_THAT(loader.error().message(), HasSubstr("io_depth"));
  }
}

}  // namespace
}  // namespace millrace::loader::pipeline
