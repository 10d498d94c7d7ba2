// worker_feeds: batches by threads that read as the workers of PyTorch and tf.data do.
#pragma once

#include <memory>

#include "bench/batch_feed.h"
#include "loader/order/order.h"

namespace millrace::bench {

// Whole batches by each worker, one sample after the other.
Result<std::unique_ptr<BatchFeed>> open_worker_feed(FeedOptions options);

// Whole files by each worker; a batch takes samples from all of them in turn.
Result<std::unique_ptr<BatchFeed>> open_stream_feed(FeedOptions options);

// DLIO shuffles files and samples separately. Samples in random order are a global shuffle.
loader::order::Shuffle shuffle_of(const ReaderConfig& reader);

}  // namespace millrace::bench
