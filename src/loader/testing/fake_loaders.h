// Helpers to open loaders over the fakes and to read their batches.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "loader/loader.h"
#include "loader/testing/fakes.h"

namespace millrace::loader {

// Not shuffled, so that a test knows which batch a sample is in.
inline LoaderOptions in_order(std::shared_ptr<const FakeSource> source, uint64_t batch_size) {
  LoaderOptions options;
  options.source = std::move(source);
  options.decoder = std::make_shared<FakeDecoder>();
  options.shuffle = Shuffle::kOff;
  options.batch_size = batch_size;
  options.thread_count = 2;
  return options;
}

inline std::unique_ptr<Loader> begun(const LoaderOptions& options) {
  auto loader = Loader::open(options);
  EXPECT_TRUE(loader.ok()) << loader.error().message();
  EXPECT_TRUE((*loader)->start_epoch(data::Epoch{0}).ok());
  return *std::move(loader);
}

inline std::vector<uint64_t> samples_of(const data::Batch& batch) {
  std::vector<uint64_t> samples;
  for (const data::SampleId sample : batch.samples) samples.push_back(data::index_of(sample));
  return samples;
}

inline std::vector<uint64_t> next_samples(Loader& loader) {
  const auto batch = loader.next();
  EXPECT_TRUE(batch.ok()) << batch.error().message();
  return batch.ok() && *batch ? samples_of(**batch) : std::vector<uint64_t>();
}

inline Error next_error(Loader& loader) {
  const auto batch = loader.next();
  EXPECT_FALSE(batch.ok());
  return batch.ok() ? Error(Errc::kIo, "no error") : batch.error();
}

// With a short read_deadline, any read may be late on a busy machine, and any may be named. These
// two retry: until a batch comes, and until the error names `sample`.
inline std::vector<uint64_t> next_samples_at_last(Loader& loader) {
  auto batch = loader.next();
  while (!batch.ok() && batch.error().code() == Errc::kTimeout) batch = loader.next();
  EXPECT_TRUE(batch.ok()) << batch.error().message();
  return batch.ok() && *batch ? samples_of(**batch) : std::vector<uint64_t>();
}

inline Error error_that_names(Loader& loader, std::string_view sample) {
  Error error = next_error(loader);
  while (error.code() == Errc::kTimeout && error.message().find(sample) == std::string_view::npos) {
    error = next_error(loader);
  }
  return error;
}

}  // namespace millrace::loader
