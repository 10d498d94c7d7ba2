// BatchFeed: the batches of a rank, in the way in which a loader would read them.
//
// `native` is Millrace's loader. The others make the calls that PyTorch, tf.data and DALI make:
//  - pytorch: a worker reads a whole batch, one sample after the other; workers take turns;
//  - tensorflow: `read_threads` files are open at once, each is read from start to end, and their
//    samples alternate; they pass a shuffle buffer and threads that decode (stream_feed.cc);
//  - dali: one reader, one batch after the other, from mapped files.
// The engine of the source (open_dataset in samples.h) makes the sizes of the reads.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "bench/workload/workload.h"
#include "data/decoder.h"
#include "data/source.h"
#include "loader/order/share.h"

namespace millrace::bench {

struct FeedOptions {
  std::shared_ptr<const data::SampleSource> source;
  std::shared_ptr<const data::Decoder> decoder;
  ReaderConfig reader;
  uint64_t batch_size = 1;
  loader::order::World world;
  uint64_t seed = 0;
  uint64_t epoch_count = 0;
};

class BatchFeed {
 public:
  virtual ~BatchFeed() = default;  // ends the threads

  virtual Status start_epoch(data::Epoch epoch) = 0;

  // Waits for the next batch. The number of its samples; 0 at the end of the epoch.
  virtual Result<uint64_t> next() = 0;

  // Samples that were left out with on_error=skip, and the error of the first.
  virtual uint64_t bad_samples() const = 0;
  virtual std::string first_bad_sample() const = 0;
};

// As reader.data_loader says.
Result<std::unique_ptr<BatchFeed>> open_feed(FeedOptions options);

// That of tensorflow.
Result<std::unique_ptr<BatchFeed>> open_stream_feed(FeedOptions options);

// Batches of nothing, at once: what is left is the cost of the benchmark itself.
std::unique_ptr<BatchFeed> null_feed(uint64_t sample_count, uint64_t batch_size,
                                     loader::order::World world);

}  // namespace millrace::bench
