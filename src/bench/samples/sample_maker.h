// SampleMaker: reads samples and decodes them into the memory of a batch. BadSamples: those that
// are left out.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/concurrency/mutex.h"
#include "base/result.h"
#include "bench/run/batch_feed.h"

namespace millrace::bench {

// What a worker passes on. The memory is freed with it, as a training program frees its batches.
struct MadeBatch {
  uint64_t rows = 0;  // below the size of the batch if bad samples were left out
  std::unique_ptr<std::byte[]> memory;
};

// Counts the samples that reader.on_error=skip leaves out. Thread-safe.
class BadSamples {
 public:
  void add(const Error& error) {
    const MutexLock lock(mutex_);
    if (count_++ == 0) first_ = error.message();
  }
  uint64_t count() const {
    const MutexLock lock(mutex_);
    return count_;
  }
  // The error of the first one; empty if there is none.
  std::string first() const {
    const MutexLock lock(mutex_);
    return first_;
  }

 private:
  mutable Mutex mutex_;
  uint64_t count_ GUARDED_BY(mutex_) = 0;
  std::string first_ GUARDED_BY(mutex_);
};

// Single-threaded.
class SampleMaker {
 public:
  // `options` must outlive the maker.
  SampleMaker(const FeedOptions& options, data::Epoch epoch)
      : options_(options), epoch_(epoch), scratch_(options.decoder->make_scratch()) {
    for (const data::FieldSpec& field : options.decoder->fields()) row_bytes_ += field.size_bytes();
  }

  MadeBatch make_batch() const {
    return {.memory =
                std::make_unique_for_overwrite<std::byte[]>(row_bytes_ * options_.batch_size)};
  }

  // Reads the sample, and appends it to the batch.
  Status add(data::SampleId sample, MadeBatch& batch) {
    ASSIGN_OR_RETURN(const ByteView bytes, options_.source->read(sample, room_));
    return add(sample, bytes, batch);
  }

  // REQUIRES: the batch has room
  Status add(data::SampleId sample, ByteView bytes, MadeBatch& batch) {
    const data::Output output{
        MutableByteView(batch.memory.get() + batch.rows * row_bytes_, row_bytes_)};
    const data::DecodeContext context{sample, epoch_, options_.seed};
    Status decoded = options_.decoder->decode(bytes, context, {&output, 1}, scratch_.get());
    if (!decoded.ok()) return std::move(decoded).error().within(options_.source->name(sample));
    ++batch.rows;
    return {};
  }

 private:
  const FeedOptions& options_;
  data::Epoch epoch_;
  std::unique_ptr<data::Scratch> scratch_;
  data::Buffer room_;
  uint64_t row_bytes_ = 0;
};

}  // namespace millrace::bench
