// worker_feeds: batches by threads that read as the workers of PyTorch do.
#pragma once

#include <memory>

#include "bench/run/batch_feed.h"
#include "loader/order/order.h"

namespace millrace::bench {

// Whole batches by each worker, one sample after the other.
Result<std::unique_ptr<BatchFeed>> open_worker_feed(FeedOptions options);

// DLIO shuffles files and samples separately. Samples in random order are a global shuffle.
loader::order::Shuffle shuffle_of(const ReaderConfig& reader);

}  // namespace millrace::bench
