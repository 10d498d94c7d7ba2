// Batches by threads that read as the workers of PyTorch do.
#include <millrace/trace.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <thread>

#include "base/concurrency/bounded_queue.h"
#include "base/concurrency/thread.h"
#include "bench/run/batch_feed.h"
#include "bench/samples/sample_maker.h"

namespace millrace::bench {
namespace {

namespace order = loader::order;
using data::SampleId;

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

}  // namespace

order::Shuffle shuffle_of(const ReaderConfig& reader) {
  if (reader.sample_shuffle != Shuffle::kOff) return order::Shuffle::kGlobal;
  return reader.file_shuffle != Shuffle::kOff ? order::Shuffle::kFile : order::Shuffle::kOff;
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

}  // namespace millrace::bench
