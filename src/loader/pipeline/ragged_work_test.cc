#include "loader/pipeline/ragged_work.h"

#include <gmock/gmock.h>

#include <cstring>
#include <set>
#include <string>

#include "loader/loader.h"
#include "loader/testing/fakes.h"

namespace millrace::loader::pipeline {
namespace {

using data::ElementType;
using data::FieldSpec;
using data::Ragged;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<FieldSpec> bytes_and_padded() {
  Ragged padded{.is_padded = true};
  const int16_t minus_two = -2;
  std::memcpy(padded.padding.data(), &minus_two, sizeof minus_two);
  return {{"bytes", ElementType::kU8, {}, Ragged{}}, {"padded", ElementType::kI16, {}, padded}};
}

// A RaggedWork with the offsets that a batch would have.
struct Filled {
  Filled(std::vector<FieldSpec> specs, uint64_t rows, uint64_t memory_bytes)
      : fields(std::move(specs)), memory({}, memory_bytes), work(fields, rows, memory) {
    for (size_t i = 0; i < fields.size(); ++i) offsets.emplace_back(rows + 1, -7);
    EXPECT_TRUE(work.prepare().ok());
  }
  Status put(size_t field, uint64_t row, std::string_view text) {
    ASSIGN_OR_RETURN(const MutableByteView room,
                     work.room(field, row, text.size() / fields[field].size_bytes()));
    std::memcpy(room.data(), text.data(), room.size());
    return {};
  }
  Status gather() {
    std::vector<std::span<int64_t>> spans;
    for (auto& each : offsets) spans.emplace_back(each);
    return work.gather(spans);
  }

  std::vector<FieldSpec> fields;
  RaggedMemory memory;
  RaggedWork work;
  std::vector<std::vector<int64_t>> offsets;
};

TEST(RaggedWork, GathersRowsInOrderWhateverTheOrderTheyWereFilledIn) {
  Filled batch(bytes_and_padded(), 4, 1 << 24);
  ASSERT_TRUE(batch.put(0, 3, "dd").ok());
  ASSERT_TRUE(batch.put(0, 0, "a").ok());
  ASSERT_TRUE(batch.put(0, 2, "ccc").ok());
  ASSERT_TRUE(batch.put(1, 2, "c2C2").ok());
  ASSERT_TRUE(batch.gather().ok());
  EXPECT_EQ(text_of(batch.work.values(0)), "acccdd");
  EXPECT_THAT(batch.offsets[0], ElementsAre(0, 1, 1, 4, 6));
  EXPECT_EQ(batch.work.padded_length(1), 2u);
  EXPECT_EQ(text_of(batch.work.values(1)), std::string_view("\xfe\xff\xfe\xff\xfe\xff\xfe\xff"
                                                            "c2C2\xfe\xff\xfe\xff",
                                                            16));
  EXPECT_THAT(batch.offsets[1], ElementsAre(0, 0, 2, 0, -7));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(batch.work.values(1).data()) % 4096, 0u);
}

TEST(RaggedWork, AForgottenRowHasNoItems) {
  Filled batch(bytes_and_padded(), 2, 1 << 24);
  ASSERT_TRUE(batch.put(0, 0, "bad").ok());
  ASSERT_TRUE(batch.put(0, 1, "good").ok());
  batch.work.forget(0);
  ASSERT_TRUE(batch.gather().ok());
  EXPECT_EQ(text_of(batch.work.values(0)), "good");
  EXPECT_THAT(batch.offsets[0], ElementsAre(0, 0, 4));
}

TEST(RaggedWork, RowsBeyondTheBufferGetMemoryOfTheirOwn) {
  Filled batch({{"bytes", ElementType::kU8, {}, Ragged{}}}, 3, 1 << 26);
  const std::string large(1 << 20, 'x');
  for (uint64_t row = 0; row < 3; ++row) ASSERT_TRUE(batch.put(0, row, large).ok());
  ASSERT_TRUE(batch.gather().ok());
  EXPECT_EQ(text_of(batch.work.values(0)), large + large + large);
}

TEST(RaggedWork, ALengthLimitFailsOrTruncates) {
  Filled batch({{"short", ElementType::kU8, {}, Ragged{.length_max = 3}},
                {"cut", ElementType::kU8, {}, Ragged{.length_max = 3, .truncates = true}}},
               1, 1 << 24);
  const auto too_long = batch.work.room(0, 0, 4);
  ASSERT_FALSE(too_long.ok());
  EXPECT_EQ(too_long.error().message(),
            "'short' has 4 items, but at most 3 are allowed; raise max_length, or truncate");
  ASSERT_TRUE(batch.put(1, 0, "abcdef").ok());
  ASSERT_TRUE(batch.gather().ok());
  EXPECT_EQ(text_of(batch.work.values(1)), "abc");
}

TEST(RaggedWork, AnAbsurdLengthIsAnError) {
  Filled batch({{"x", ElementType::kF64, {1000}, Ragged{}}}, 1, 1 << 24);
  for (const uint64_t length : {uint64_t{1} << 20, ~uint64_t{0}, (~uint64_t{0}) / 8000 + 1}) {
    const auto room = batch.work.room(0, 0, length);
    ASSERT_FALSE(room.ok()) << length;
    EXPECT_THAT(room.error().message(), HasSubstr("'x' has"));
  }
}

TEST(RaggedWork, ABatchBeyondTheLimitFailsAndKnowsItsLargestRow) {
  Filled batch({{"x", ElementType::kU8, {}, Ragged{}}}, 3, 1 << 20);
  ASSERT_TRUE(batch.put(0, 0, std::string(1000, 'a')).ok());
  ASSERT_TRUE(batch.put(0, 1, std::string(400'000, 'a')).ok());
  EXPECT_FALSE(batch.put(0, 2, std::string(300'000, 'a')).ok());
  const auto gathered = batch.gather();
  ASSERT_FALSE(gathered.ok());
  EXPECT_THAT(gathered.error().message(), HasSubstr("of 3 samples take at least"));
  EXPECT_EQ(batch.work.largest_row(), 1u);
}

TEST(RaggedWork, PaddingThatDoesNotFitIsAnError) {
  Filled batch({{"x", ElementType::kU8, {}, Ragged{.is_padded = true}}}, 100, 1 << 20);
  ASSERT_TRUE(batch.put(0, 99, std::string(100'000, 'a')).ok());
  const auto gathered = batch.gather();
  ASSERT_FALSE(gathered.ok());
  EXPECT_EQ(batch.work.largest_row(), 99u);
}

TEST(RaggedMemory, AllowsMoreBatchesAsTheirSizeIsKnown) {
  RaggedMemory memory({}, 64 << 20);
  EXPECT_EQ(memory.batches_allowed(1 << 20), 1u);
  ASSERT_TRUE(memory.take_rows().ok());
  ASSERT_TRUE(memory.take_values(7 << 20).ok());
  memory.report(7 << 20);
  EXPECT_EQ(memory.batches_allowed(1 << 20), 3u);
  ASSERT_TRUE(memory.take_rows().ok());
  for (int i = 0; i < 10; ++i) memory.report(1 << 20);
  // 1 MiB, 9 MiB of rows and 9 MiB of values each.
  EXPECT_EQ(memory.batches_allowed(1 << 20), 3u);
}

// ---- through the loader ----

struct Job {
  std::shared_ptr<FakeSource> source = std::make_shared<FakeSource>(100);
  std::shared_ptr<FakeRagged> decoder = std::make_shared<FakeRagged>();
  LoaderOptions options{.shuffle = Shuffle::kOff, .batch_size = 16, .thread_count = 3};

  std::unique_ptr<Loader> open() {
    options.source = source;
    options.decoder = decoder;
    auto loader = Loader::open(options);
    EXPECT_TRUE(loader.ok());
    EXPECT_TRUE((*loader)->start_epoch(data::Epoch{0}).ok());
    return *std::move(loader);
  }
};

// Every row has the items of its sample.
void check_rows(const data::Batch& batch) {
  const auto& [index, bytes, pairs] = std::tie(batch.fields[0], batch.fields[1], batch.fields[2]);
  ASSERT_EQ(bytes.offsets.size(), batch.row_count + 1);
  ASSERT_EQ(pairs.lengths.size(), batch.row_count);
  ASSERT_EQ(bytes.bytes.size(), static_cast<size_t>(bytes.offsets.back()));
  ASSERT_EQ(pairs.bytes.size(), batch.row_count * pairs.padded_length * 8);
  for (uint64_t row = 0; row < batch.row_count; ++row) {
    uint64_t sample = 0;
    std::memcpy(&sample, index.bytes.data() + row * 8, 8);
    ASSERT_EQ(sample, data::index_of(batch.samples[row]));
    const uint64_t length = FakeRagged::length_of(sample);
    ASSERT_EQ(static_cast<uint64_t>(bytes.offsets[row + 1] - bytes.offsets[row]), length);
    for (uint64_t k = 0; k < length; ++k) {
      const auto expected = k < 8 ? static_cast<std::byte>(sample >> (8 * k)) : std::byte{0};
      ASSERT_EQ(bytes.bytes[static_cast<uint64_t>(bytes.offsets[row]) + k], expected);
    }
    ASSERT_EQ(static_cast<uint64_t>(pairs.lengths[row]), length);
    for (uint64_t k = 0; k < pairs.padded_length; ++k) {
      int32_t pair[2];
      std::memcpy(pair, pairs.bytes.data() + (row * pairs.padded_length + k) * 8, 8);
      ASSERT_EQ(pair[0], k < length ? static_cast<int32_t>(sample) : -1);
      ASSERT_EQ(pair[1], k < length ? static_cast<int32_t>(k) : -1);
    }
  }
}

TEST(RaggedBatches, HoldTheItemsOfEverySample) {
  Job job;
  const auto loader = job.open();
  uint64_t rows = 0;
  for (auto batch = loader->next(); batch.ok() && *batch; batch = loader->next()) {
    check_rows(**batch);
    EXPECT_EQ((*batch)->fields[2].padded_length, 6u);
    rows += (*batch)->row_count;
  }
  EXPECT_EQ(rows, 100u);
}

TEST(RaggedBatches, HaveTheSameRowsWithReadsInFlightAndAShuffledOrder) {
  Job job;
  job.source->in_ways = {.one_at_a_time = "a", .in_flight = "b"};
  job.options.shuffle = Shuffle::kGlobal;
  job.decoder->padded_length_max = 9;
  const auto loader = job.open();
  std::set<data::SampleId> seen;
  for (auto batch = loader->next(); batch.ok() && *batch; batch = loader->next()) {
    check_rows(**batch);
    EXPECT_EQ((*batch)->fields[2].padded_length, 9u);
    seen.insert((*batch)->samples.begin(), (*batch)->samples.end());
  }
  EXPECT_EQ(seen.size(), 100u);
}

TEST(RaggedBatches, BadSamplesAreLeftOut) {
  Job job;
  job.decoder->bad = {0, 6, 15, 20};
  job.source->bad = {1, 99};
  job.options.skips_bad_samples = true;
  const auto loader = job.open();
  uint64_t rows = 0;
  for (auto batch = loader->next(); batch.ok() && *batch; batch = loader->next()) {
    check_rows(**batch);
    rows += (*batch)->row_count;
  }
  EXPECT_EQ(rows, 94u);
}

TEST(RaggedBatches, ABatchOfOnlyBadSamplesIsEmpty) {
  Job job;
  for (uint64_t i = 0; i < 16; ++i) job.decoder->bad.insert(i);
  job.options.skips_bad_samples = true;
  const auto loader = job.open();
  const auto batch = loader->next();
  ASSERT_TRUE(batch.ok() && *batch);
  EXPECT_EQ((*batch)->row_count, 0u);
  check_rows(**batch);
}

TEST(RaggedBatches, PaddingRowsAreWholeSamples) {
  Job job;
  job.options.tail = Tail::kPad;
  const auto loader = job.open();
  uint64_t real = 0;
  for (auto batch = loader->next(); batch.ok() && *batch; batch = loader->next()) {
    ASSERT_EQ((*batch)->row_count, 16u);
    check_rows(**batch);
    for (const uint8_t each : (*batch)->is_real) real += each;
  }
  EXPECT_EQ(real, 100u);
}

TEST(RaggedBatches, StayValidWhileTheyAreHeldAndReuseTheirMemoryAfterwards) {
  Job job;
  job.options.prefetch_batches = 2;
  const auto loader = job.open();
  std::vector<data::Batch> held;
  for (auto batch = loader->next(); batch.ok() && *batch; batch = loader->next()) {
    held.push_back(**batch);
  }
  for (const data::Batch& batch : held) check_rows(batch);
  held.clear();
  for (uint64_t epoch = 1; epoch < 20; ++epoch) {
    ASSERT_TRUE(loader->start_epoch(data::Epoch{epoch}).ok());
    for (auto batch = loader->next(); batch.ok() && *batch; batch = loader->next()) {
      check_rows(**batch);
    }
  }
  // Seven batches were held, in two buffers each. 140 batches were made.
  EXPECT_LE(loader->stats().buffers_allocated, 2 * 7 + 3 * 5);
}

TEST(RaggedBatches, ABatchThatDoesNotFitNamesItsLargestSampleAndTheNextOneComes) {
  Job job;
  job.source = std::make_shared<FakeSource>(8);
  job.decoder->item_bytes = 60'000;  // sample 6: 6 items
  job.options.batch_size = 4;
  job.options.memory_bytes = 1'000'000;
  const auto loader = job.open();
  const auto first = loader->next();  // 0 + 1 + 2 + 3 items: 360,000 bytes
  ASSERT_TRUE(first.ok()) << first.error().message();
  const auto second = loader->next();  // 4 + 5 + 6 + 0 items
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message(), HasSubstr("sample-"));
  EXPECT_THAT(second.error().message(), HasSubstr("use a smaller batch_size"));
  const auto end = loader->next();
  ASSERT_TRUE(end.ok());
  EXPECT_FALSE(*end);
}

TEST(RaggedBatches, ASampleThatAloneDoesNotFitIsNamed) {
  Job job;
  job.decoder->item_bytes = 90'000;
  job.options.memory_bytes = 1'000'000;  // 500,000 per sample
  job.options.batch_size = 1;
  const auto loader = job.open();
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(loader->next().ok());
  const auto sixth = loader->next();
  ASSERT_FALSE(sixth.ok());
  EXPECT_THAT(sixth.error().message(), HasSubstr("sample-6: 'bytes' has 6 items"));
}

}  // namespace
}  // namespace millrace::loader::pipeline
