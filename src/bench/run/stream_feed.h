// stream_feed: batches by threads that read, shuffle and decode as a pipeline of tf.data does.
//
// `read_threads` files are read at once, from start to end, and their samples alternate. With a
// sample shuffle, `shuffle_size` samples are held in memory, and each that leaves is drawn from
// them; so the first batch waits until the buffer is full. Batches are decoded by
// `computation_threads` threads. Ranks divide the files; if files are shared, they divide each.
#pragma once

#include <memory>

#include "bench/run/batch_feed.h"

namespace millrace::bench {

Result<std::unique_ptr<BatchFeed>> open_stream_feed(FeedOptions options);

}  // namespace millrace::bench
