#include "bench/run/batch_feed.h"

#include <millrace/trace.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <thread>

#include "base/concurrency/bounded_queue.h"
#include "base/concurrency/thread.h"
#include "bench/samples/sample_maker.h"
#include "loader/loader.h"
#include "loader/order/order.h"

namespace millrace::bench {
namespace {

namespace order = loader::order;
using data::SampleId;

// DLIO shuffles files and samples separately. Samples in random order are a global shuffle.
order::Shuffle shuffle_of(const ReaderConfig& reader) {
  if (reader.sample_shuffle != Shuffle::kOff) return order::Shuffle::kGlobal;
  return reader.file_shuffle != Shuffle::kOff ? order::Shuffle::kFile : order::Shuffle::kOff;
}

class NativeFeed final : public BatchFeed {
 public:
  explicit NativeFeed(std::unique_ptr<loader::Loader> loader) : loader_(std::move(loader)) {}

  Status start_epoch(data::Epoch epoch) override { return loader_->start_epoch(epoch); }

  Result<uint64_t> next() override {
    while (true) {
      ASSIGN_OR_RETURN(const std::optional<data::Batch> batch, loader_->next());
      if (!batch) return uint64_t{0};
      if (batch->row_count > 0) return batch->row_count;
    }
  }

  uint64_t bad_samples() const override { return loader_->stats().bad_samples; }
  std::string first_bad_sample() const override { return loader_->stats().first_bad_sample; }

 private:
  std::unique_ptr<loader::Loader> loader_;
};

// Threads read as the workers of PyTorch do: whole batches by each, one sample after the other.
class WorkerFeed final : public BatchFeed {
 public:
  WorkerFeed(FeedOptions options, std::unique_ptr<order::Order> order)
      : options_(std::move(options)),
        order_(std::move(order)),
        share_({.sample_count = order_->size(),
                .world = options_.world,
                .batch_size = options_.batch_size}) {}
  ~WorkerFeed() override { stop_workers(); }

  uint64_t bad_samples() const override { return bad_.count(); }
  std::string first_bad_sample() const override { return bad_.first(); }

  // Every worker has a queue, whose length bounds what is read ahead.
  Status start_epoch(data::Epoch epoch) override {
    stop_workers();
    next_ = 0;
    const size_t capacity = std::max<uint64_t>(options_.reader.prefetch_size, 1);
    for (size_t w = 0; w < worker_count(); ++w) queues_.emplace_back(capacity);
    for (size_t w = 0; w < worker_count(); ++w) {
      ASSIGN_OR_RETURN(std::thread thread,
                       start_thread(fmt::format("bench-worker-{}", w), [this, epoch, w] {
                         make_batches(w, epoch);
                         queues_[w].close();
                       }));
      threads_.push_back(std::move(thread));
    }
    return {};
  }

  Result<uint64_t> next() override {
    while (next_ < share_.batch_count()) {
      const std::optional<Made> made = queues_[next_++ % worker_count()].pop();
      if (!made) return fail(Errc::kCancelled, "the worker of batch {} has stopped", next_ - 1);
      if (!made->ok()) return made->error();
      if ((*made)->rows > 0) return (*made)->rows;  // a batch of bad samples only is left out
    }
    return uint64_t{0};
  }

 private:
  using Made = Result<MadeBatch>;

  size_t worker_count() const { return std::max<uint64_t>(options_.reader.read_threads, 1); }

  void stop_workers() {
    for (auto& queue : queues_) queue.close();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    queues_.clear();
  }

  void make_batches(size_t worker, data::Epoch epoch) {
    SampleMaker maker(options_, epoch);
    std::vector<SampleId> samples;
    for (uint64_t b = worker; b < share_.batch_count(); b += worker_count()) {
      const order::BatchPlan plan = share_.batch(b);
      samples.resize(plan.row_count);
      order_->fill(epoch, plan.first_position, options_.world.size, samples);
      if (!queues_[worker].push(make_batch(maker, samples))) return;
    }
  }

  Made make_batch(SampleMaker& maker, std::span<const SampleId> samples) {
    static Name fetch(MILLRACE_FETCH);
    Region region(fetch);
    region.tag("samples", samples.size());
    MadeBatch made = maker.make_batch();
    for (const SampleId sample : samples) {
      Status added = maker.add(sample, made);
      if (added.ok()) continue;
      if (!options_.reader.skips_bad_samples()) return std::move(added).error();
      bad_.add(added.error());
    }
    return made;
  }

  // A copy that the workers read; changed only while there are none.
  const FeedOptions options_;
  std::unique_ptr<order::Order> order_;
  order::Share share_;
  uint64_t next_ = 0;
  BadSamples bad_;
  std::deque<BoundedQueue<Made>> queues_;  // a deque, because queues do not move
  std::vector<std::thread> threads_;
};

class NullFeed final : public BatchFeed {
 public:
  NullFeed(uint64_t sample_count, uint64_t batch_size, order::World world)
      : share_({.sample_count = sample_count, .world = world, .batch_size = batch_size}) {}

  Status start_epoch(data::Epoch) override {
    next_ = 0;
    return {};
  }
  Result<uint64_t> next() override {
    return next_ < share_.batch_count() ? share_.batch(next_++).row_count : uint64_t{0};
  }
  uint64_t bad_samples() const override { return 0; }
  std::string first_bad_sample() const override { return {}; }

 private:
  order::Share share_;
  uint64_t next_ = 0;
};

Result<std::unique_ptr<BatchFeed>> open_native(FeedOptions options) {
  loader::LoaderOptions loading;
  loading.source = std::move(options.source);
  loading.decoder = std::move(options.decoder);
  loading.shuffle = shuffle_of(options.reader);
  loading.seed = options.seed;
  loading.world = options.world;
  loading.batch_size = options.batch_size;
  loading.epoch_count = options.epoch_count;
  loading.thread_count = static_cast<uint32_t>(options.reader.read_threads);
  loading.prefetch_batches = static_cast<uint32_t>(
      options.reader.prefetch_size * std::max<uint64_t>(options.reader.read_threads, 1));
  loading.skips_bad_samples = options.reader.skips_bad_samples();
  loading.marks_waits = false;  // the training loop marks its own
  ASSIGN_OR_RETURN(auto loader, loader::Loader::open(std::move(loading)));
  return std::unique_ptr<BatchFeed>(std::make_unique<NativeFeed>(std::move(loader)));
}

Result<std::unique_ptr<BatchFeed>> open_worker_feed(FeedOptions options) {
  order::Options wanted{.shuffle = shuffle_of(options.reader),
                        .sample_count = options.source->sample_count(),
                        .seed = options.seed};
  if (wanted.shuffle == order::Shuffle::kFile) {
    for (uint64_t g = 0; g <= options.source->group_count(); ++g) {
      wanted.group_begins.push_back(data::index_of(options.source->group_begin(g)));
    }
  }
  ASSIGN_OR_RETURN(auto order, order::make_order(wanted));
  return std::unique_ptr<BatchFeed>(
      std::make_unique<WorkerFeed>(std::move(options), std::move(order)));
}

}  // namespace

Result<std::unique_ptr<BatchFeed>> open_feed(FeedOptions options) {
  switch (options.reader.data_loader) {
    case DataLoader::kNative:
      return open_native(std::move(options));
    case DataLoader::kTensorflow:
      return open_stream_feed(std::move(options));
    case DataLoader::kDali:
      options.reader.read_threads = 1;
      break;
    case DataLoader::kPytorch:
      break;
  }
  return open_worker_feed(std::move(options));
}

std::unique_ptr<BatchFeed> null_feed(uint64_t sample_count, uint64_t batch_size,
                                     order::World world) {
  return std::make_unique<NullFeed>(sample_count, batch_size, world);
}

}  // namespace millrace::bench
