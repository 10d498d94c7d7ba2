#include "bench/worker_feeds.h"

#include <millrace/trace.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "base/bounded_queue.h"
#include "base/thread.h"

namespace millrace::bench {
namespace {

namespace order = loader::order;
using data::SampleId;

// Reads and decodes one sample at a time into memory that it uses again. One per thread.
class SampleMaker {
 public:
  SampleMaker(const FeedOptions& options, data::Epoch epoch)
      : options_(options), epoch_(epoch), scratch_(options.decoder->make_scratch()) {
    uint64_t row_bytes = 0;
    for (const data::FieldSpec& field : options.decoder->fields()) row_bytes += field.size_bytes();
    row_.resize(row_bytes);
  }

  Status make(SampleId sample) {
    ASSIGN_OR_RETURN(const ByteView bytes, options_.source->read(sample, room_));
    const data::Output output{MutableByteView(row_)};
    const data::DecodeContext context{sample, epoch_, options_.seed};
    Status decoded = options_.decoder->decode(bytes, context, {&output, 1}, scratch_.get());
    if (decoded.ok()) return decoded;
    return std::move(decoded).error().within(options_.source->name(sample));
  }

 private:
  const FeedOptions& options_;
  data::Epoch epoch_;
  std::unique_ptr<data::Scratch> scratch_;
  data::Buffer room_;
  std::vector<std::byte> row_;
};

// What workers pass on: a number of samples, or why there are none.
using Made = Result<uint64_t>;

class FeedBase : public BatchFeed {
 public:
  explicit FeedBase(FeedOptions options) : options_(std::move(options)) {}

  uint64_t bad_samples() const override {
    const std::lock_guard lock(mutex_);
    return bad_samples_;
  }
  std::string first_bad_sample() const override {
    const std::lock_guard lock(mutex_);
    return first_bad_sample_;
  }

 protected:
  size_t worker_count() const { return std::max<uint64_t>(options_.reader.read_threads, 1); }

  // 1, or 0 if the sample is bad and left out.
  Made make_one(SampleMaker& maker, SampleId sample) {
    Status made = maker.make(sample);
    if (made.ok()) return uint64_t{1};
    if (options_.reader.on_error != "skip") return std::move(made).error();
    const std::lock_guard lock(mutex_);
    if (bad_samples_++ == 0) first_bad_sample_ = made.error().message();
    return uint64_t{0};
  }

  // Every worker has a queue, whose length bounds what is read ahead.
  Status start_workers(size_t capacity, const std::function<void(size_t)>& work) {
    for (size_t w = 0; w < worker_count(); ++w) queues_.emplace_back(capacity);
    for (size_t w = 0; w < worker_count(); ++w) {
      ASSIGN_OR_RETURN(std::thread thread,
                       start_thread(fmt::format("bench-worker-{}", w), [this, work, w] {
                         work(w);
                         queues_[w].close();
                       }));
      threads_.push_back(std::move(thread));
    }
    return {};
  }

  void stop_workers() {
    for (auto& queue : queues_) queue.close();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    queues_.clear();
  }

  // A copy that the workers read; changed only while there are none.
  const FeedOptions options_;
  std::deque<BoundedQueue<Made>> queues_;  // a deque, because queues do not move

 private:
  std::vector<std::thread> threads_;
  mutable std::mutex mutex_;  // guards what follows
  uint64_t bad_samples_ = 0;
  std::string first_bad_sample_;
};

class WorkerFeed final : public FeedBase {
 public:
  WorkerFeed(FeedOptions options, std::unique_ptr<order::Order> order)
      : FeedBase(std::move(options)),
        order_(std::move(order)),
        share_({.sample_count = order_->size(),
                .world = options_.world,
                .batch_size = options_.batch_size}) {}
  ~WorkerFeed() override { stop_workers(); }

  Status start_epoch(data::Epoch epoch) override {
    stop_workers();
    next_ = 0;
    return start_workers(std::max<uint64_t>(options_.reader.prefetch_size, 1),
                         [this, epoch](size_t worker) { make_batches(worker, epoch); });
  }

  Result<uint64_t> next() override {
    while (next_ < share_.batch_count()) {
      const std::optional<Made> made = queues_[next_++ % worker_count()].pop();
      if (!made) return fail(Errc::kCancelled, "the worker of batch {} has stopped", next_ - 1);
      if (!made->ok()) return made->error();
      if (**made > 0) return **made;  // a batch of bad samples only is left out
    }
    return uint64_t{0};
  }

 private:
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
    uint64_t rows = 0;
    for (const SampleId sample : samples) {
      ASSIGN_OR_RETURN(const uint64_t made, make_one(maker, sample));
      rows += made;
    }
    return rows;
  }

  std::unique_ptr<order::Order> order_;
  order::Share share_;
  uint64_t next_ = 0;
};

struct SampleRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};

class StreamFeed final : public FeedBase {
 public:
  explicit StreamFeed(FeedOptions options) : FeedBase(std::move(options)) {}
  ~StreamFeed() override { stop_workers(); }

  Status start_epoch(data::Epoch epoch) override {
    stop_workers();
    ASSIGN_OR_RETURN(ranges_, ranges_of(epoch));
    next_ = 0;
    const uint64_t ahead =
        options_.batch_size * std::max<uint64_t>(options_.reader.prefetch_size, 1);
    return start_workers(ahead / worker_count() + 1,
                         [this, epoch](size_t worker) { make_samples(worker, epoch); });
  }

  Result<uint64_t> next() override {
    uint64_t rows = 0;
    size_t ended = 0;
    while (rows < options_.batch_size && ended < worker_count()) {
      const std::optional<Made> made = queues_[next_++ % worker_count()].pop();
      ended = made ? 0 : ended + 1;
      if (!made) continue;
      if (!made->ok()) return made->error();
      rows += **made;
    }
    return rows;
  }

 private:
  // The files of this rank, in the order of the epoch. With fewer files than ranks, parts of files.
  Result<std::vector<SampleRange>> ranges_of(data::Epoch epoch) const {
    const data::SampleSource& source = *options_.source;
    const auto [rank, size] = options_.world;
    if (source.group_count() < size) {
      const uint64_t count = source.sample_count();
      return std::vector<SampleRange>{{count * rank / size, count * (rank + 1) / size}};
    }
    const bool shuffles = options_.reader.file_shuffle != Shuffle::kOff;
    ASSIGN_OR_RETURN(
        const auto files,
        order::make_order({.shuffle = shuffles ? order::Shuffle::kGlobal : order::Shuffle::kOff,
                           .sample_count = source.group_count(),
                           .seed = options_.seed}));
    std::vector<SampleRange> ranges;
    for (uint64_t position = rank; position < files->size(); position += size) {
      const uint64_t file = data::index_of(files->at(epoch, position));
      ranges.push_back(
          {data::index_of(source.group_begin(file)), data::index_of(source.group_begin(file + 1))});
    }
    return ranges;
  }

  void make_samples(size_t worker, data::Epoch epoch) {
    SampleMaker maker(options_, epoch);
    for (size_t r = worker; r < ranges_.size(); r += worker_count()) {
      for (uint64_t sample = ranges_[r].begin; sample < ranges_[r].end; ++sample) {
        Made made = make_one(maker, SampleId{sample});
        const bool failed = !made.ok();
        if (!queues_[worker].push(std::move(made)) || failed) return;
      }
    }
  }

  std::vector<SampleRange> ranges_;
  uint64_t next_ = 0;  // the worker whose turn it is, counted on
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

Result<std::unique_ptr<BatchFeed>> open_stream_feed(FeedOptions options) {
  return std::unique_ptr<BatchFeed>(std::make_unique<StreamFeed>(std::move(options)));
}

}  // namespace millrace::bench
