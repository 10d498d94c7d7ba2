// Batches that a test has seen: copies of all that a loader returned, to be compared.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "loader/loader.h"
#include "loader/testing/fakes.h"

namespace millrace::loader {

// A copy of a batch, which can be compared and lets the loader reuse the memory.
struct Seen {
  uint64_t epoch = 0;
  uint64_t index = 0;
  std::vector<uint64_t> samples;
  std::vector<int64_t> labels;
  std::vector<uint8_t> is_real;
  std::vector<std::vector<std::byte>> fields;

  bool operator==(const Seen&) const = default;
};

inline Seen seen(const data::Batch& batch) {
  Seen seen{.epoch = data::number_of(batch.epoch), .index = batch.index};
  for (const data::SampleId id : batch.samples) seen.samples.push_back(data::index_of(id));
  seen.labels.assign(batch.labels.begin(), batch.labels.end());
  seen.is_real.assign(batch.is_real.begin(), batch.is_real.end());
  for (const auto& field : batch.fields) {
    EXPECT_EQ(field.bytes.size(), batch.row_count * field.spec.size_bytes());
    seen.fields.emplace_back(field.bytes.begin(), field.bytes.end());
  }
  EXPECT_EQ(batch.samples.size(), batch.row_count);
  EXPECT_EQ(batch.labels.size(), batch.row_count);
  EXPECT_EQ(batch.is_real.size(), batch.row_count);
  return seen;
}

inline LoaderOptions options(uint64_t sample_count, uint64_t batch_size) {
  LoaderOptions options;
  options.source = std::make_shared<FakeSource>(sample_count);
  options.decoder = std::make_shared<FakeDecoder>();
  options.batch_size = batch_size;
  options.seed = 7;
  options.thread_count = 3;
  return options;
}

inline std::unique_ptr<Loader> open(const LoaderOptions& options) {
  auto loader = Loader::open(options);
  EXPECT_TRUE(loader.ok()) << loader.error().message();
  return loader.ok() ? *std::move(loader) : nullptr;
}

inline std::vector<Seen> take(Loader& loader, size_t count = 1'000'000) {
  std::vector<Seen> batches;
  while (batches.size() < count) {
    auto batch = loader.next();
    EXPECT_TRUE(batch.ok()) << batch.error().message();
    if (!batch.ok() || !*batch) break;
    batches.push_back(seen(**batch));
  }
  return batches;
}

inline std::vector<Seen> whole_epoch(Loader& loader, uint64_t epoch) {
  EXPECT_TRUE(loader.start_epoch(data::Epoch{epoch}).ok());
  return take(loader);
}

inline std::vector<uint64_t> samples_of(const std::vector<Seen>& batches) {
  std::vector<uint64_t> samples;
  for (const Seen& batch : batches) {
    samples.insert(samples.end(), batch.samples.begin(), batch.samples.end());
  }
  return samples;
}

// All rows, without batch boundaries: they must not depend on the batch size.
using Rows = std::vector<std::tuple<uint64_t, int64_t, std::vector<std::byte>>>;
inline Rows rows_of(const std::vector<Seen>& batches) {
  Rows rows;
  for (const Seen& batch : batches) {
    const size_t count = batch.samples.size();
    for (size_t row = 0; row < count; ++row) {
      std::vector<std::byte> bytes;
      for (const auto& field : batch.fields) {
        const auto size = static_cast<ptrdiff_t>(field.size() / count);
        const auto begin = field.begin() + static_cast<ptrdiff_t>(row) * size;
        bytes.insert(bytes.end(), begin, begin + size);
      }
      rows.emplace_back(batch.samples[row], batch.labels[row], bytes);
    }
  }
  return rows;
}

}  // namespace millrace::loader
