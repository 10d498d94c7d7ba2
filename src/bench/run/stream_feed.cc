// Batches by threads that read, shuffle and decode as a pipeline of tf.data does.
//
// `read_threads` files are read at once, from start to end, and their samples alternate. With a
// sample shuffle, `shuffle_size` samples are held in memory, and each that leaves is drawn from
// them; so the first batch waits until the buffer is full. Batches are decoded by
// `computation_threads` threads. Ranks divide the files; if files are shared, they divide each.
#include <algorithm>
#include <deque>
#include <optional>
#include <thread>

#include "base/concurrency/bounded_queue.h"
#include "base/concurrency/mutex.h"
#include "base/concurrency/thread.h"
#include "base/numbers/counter_random.h"
#include "bench/run/batch_feed.h"
#include "bench/samples/sample_maker.h"
#include "loader/order/order.h"

namespace millrace::bench {
namespace {

namespace order = loader::order;
using data::SampleId;

struct SampleRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// A sample as it is in the file.
struct RawSample {
  SampleId sample{};
  ByteView bytes;  // in `room`, or in memory of the source
  std::unique_ptr<data::Buffer> room;
};

using RawBatch = std::vector<RawSample>;

// Rooms that are used again, so that a sample does not cost an allocation. Thread-safe.
class RoomPool {
 public:
  std::unique_ptr<data::Buffer> take() {
    const MutexLock lock(mutex_);
    if (rooms_.empty()) return std::make_unique<data::Buffer>();
    auto room = std::move(rooms_.back());
    rooms_.pop_back();
    return room;
  }
  void give_back(RawBatch batch) {
    const MutexLock lock(mutex_);
    for (RawSample& raw : batch) rooms_.push_back(std::move(raw.room));
  }

 private:
  Mutex mutex_;
  std::vector<std::unique_ptr<data::Buffer>> rooms_ GUARDED_BY(mutex_);
};

// Stages of threads with bounded queues between them: read_threads readers, each with a file; one
// that takes their samples in turn, shuffles and batches them; computation_threads that decode.
class StreamFeed final : public BatchFeed {
 public:
  explicit StreamFeed(FeedOptions options) : options_(std::move(options)) {}
  ~StreamFeed() override { stop(); }

  Status start_epoch(data::Epoch epoch) override;
  Result<uint64_t> next() override;
  uint64_t bad_samples() const override { return bad_.count(); }
  std::string first_bad_sample() const override { return bad_.first(); }

 private:
  size_t reader_count() const { return std::max<uint64_t>(options_.reader.read_threads, 1); }
  size_t decoder_count() const {
    return std::max<uint64_t>(options_.reader.computation_threads, 1);
  }
  Result<std::vector<SampleRange>> ranges_of(data::Epoch epoch) const;
  Status start(const std::string& name, std::function<void()> run);
  void stop();
  void read_samples(size_t reader);
  void make_batches(data::Epoch epoch);
  std::optional<Result<RawSample>> next_raw();
  std::optional<Result<RawSample>> next_shuffled(CounterRandom& random);
  void decode_batches(size_t decoder, data::Epoch epoch);
  Result<MadeBatch> decode(SampleMaker& maker, const RawBatch& batch);

  // A copy that the threads read; changed only while there are none.
  const FeedOptions options_;
  std::vector<SampleRange> ranges_;
  std::vector<RawSample> shuffle_buffer_;
  uint64_t next_reader_ = 0;   // whose turn it is, counted on
  uint64_t next_decoder_ = 0;  // likewise
  RoomPool rooms_;
  BadSamples bad_;
  // Deques, because queues do not move.
  std::deque<BoundedQueue<Result<RawSample>>> raw_;     // by reader
  std::deque<BoundedQueue<Result<RawBatch>>> batches_;  // by decoder
  std::deque<BoundedQueue<Result<MadeBatch>>> made_;    // by decoder
  std::vector<std::thread> threads_;
};

Status StreamFeed::start(const std::string& name, std::function<void()> run) {
  ASSIGN_OR_RETURN(std::thread thread, start_thread(name, std::move(run)));
  threads_.push_back(std::move(thread));
  return {};
}

void StreamFeed::stop() {
  for (auto& queue : raw_) queue.close();
  for (auto& queue : batches_) queue.close();
  for (auto& queue : made_) queue.close();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  raw_.clear();
  batches_.clear();
  made_.clear();
  shuffle_buffer_.clear();
}

Status StreamFeed::start_epoch(data::Epoch epoch) {
  stop();
  ASSIGN_OR_RETURN(ranges_, ranges_of(epoch));
  next_reader_ = next_decoder_ = 0;
  const uint64_t ahead = std::max<uint64_t>(options_.reader.prefetch_size, 1);
  for (size_t r = 0; r < reader_count(); ++r) {
    raw_.emplace_back(options_.batch_size / reader_count() + 1);
  }
  for (size_t d = 0; d < decoder_count(); ++d) {
    batches_.emplace_back(1);
    made_.emplace_back((ahead + decoder_count() - 1) / decoder_count());
  }
  for (size_t r = 0; r < reader_count(); ++r) {
    RETURN_IF_ERROR(start(fmt::format("bench-reader-{}", r), [this, r] {
      read_samples(r);
      raw_[r].close();
    }));
  }
  RETURN_IF_ERROR(start("bench-batches", [this, epoch] {
    make_batches(epoch);
    for (auto& queue : batches_) queue.close();
  }));
  for (size_t d = 0; d < decoder_count(); ++d) {
    RETURN_IF_ERROR(start(fmt::format("bench-decoder-{}", d), [this, d, epoch] {
      decode_batches(d, epoch);
      made_[d].close();
    }));
  }
  return {};
}

Result<uint64_t> StreamFeed::next() {
  while (true) {
    const std::optional<Result<MadeBatch>> made = made_[next_decoder_++ % decoder_count()].pop();
    if (!made) return uint64_t{0};  // batches go to the decoders in turn: the others have none left
    if (!made->ok()) return made->error();
    if ((*made)->rows > 0) return (*made)->rows;  // a batch of bad samples only is left out
  }
}

// The files of this rank, in the order of the epoch; of shared files, its part of each. With fewer
// files than ranks, parts of files, too.
Result<std::vector<SampleRange>> StreamFeed::ranges_of(data::Epoch epoch) const {
  const data::SampleSource& source = *options_.source;
  const auto [rank, size] = options_.world;
  const bool shares = options_.reader.file_access == FileAccess::kShared;
  if (!shares && source.group_count() < size) {
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
  for (uint64_t position = shares ? 0 : rank; position < files->size();
       position += shares ? 1 : size) {
    const uint64_t file = data::index_of(files->at(epoch, position));
    const uint64_t begin = data::index_of(source.group_begin(file));
    const uint64_t count = data::index_of(source.group_begin(file + 1)) - begin;
    // Ranks take turns, so that none gets the shorter part of every file.
    const uint64_t part = shares ? (rank + file) % size : 0;
    const uint64_t parts = shares ? size : 1;
    ranges.push_back({begin + count * part / parts, begin + count * (part + 1) / parts});
  }
  return ranges;
}

void StreamFeed::read_samples(size_t reader) {
  for (size_t r = reader; r < ranges_.size(); r += reader_count()) {
    for (uint64_t index = ranges_[r].begin; index < ranges_[r].end; ++index) {
      RawSample raw{.sample = SampleId{index}, .bytes = {}, .room = rooms_.take()};
      const Result<ByteView> bytes = options_.source->read(raw.sample, *raw.room);
      if (bytes.ok()) {
        raw.bytes = *bytes;
        if (!raw_[reader].push(std::move(raw))) return;
      } else if (options_.reader.skips_bad_samples()) {
        bad_.add(bytes.error());
      } else {
        raw_[reader].push(bytes.error());
        return;
      }
    }
  }
}

// From the readers in turn; nullopt if all have ended.
std::optional<Result<RawSample>> StreamFeed::next_raw() {
  for (size_t ended = 0; ended < reader_count(); ++ended) {
    if (auto raw = raw_[next_reader_++ % reader_count()].pop()) return raw;
  }
  return std::nullopt;
}

// As tf.data does it: any sample of the buffer, which is filled again from the files.
std::optional<Result<RawSample>> StreamFeed::next_shuffled(CounterRandom& random) {
  const uint64_t capacity = std::max<uint64_t>(options_.reader.shuffle_size, 1);
  while (shuffle_buffer_.size() < capacity) {
    auto raw = next_raw();
    if (!raw) break;
    if (!raw->ok()) return raw;
    shuffle_buffer_.push_back(*std::move(*raw));
  }
  if (shuffle_buffer_.empty()) return std::nullopt;
  std::swap(shuffle_buffer_[random.below(shuffle_buffer_.size())], shuffle_buffer_.back());
  RawSample drawn = std::move(shuffle_buffer_.back());
  shuffle_buffer_.pop_back();
  return drawn;
}

void StreamFeed::make_batches(data::Epoch epoch) {
  CounterRandom random(options_.seed, static_cast<uint64_t>(epoch));
  const bool shuffles = options_.reader.sample_shuffle != Shuffle::kOff;
  RawBatch batch;
  for (uint64_t b = 0;;) {
    auto raw = shuffles ? next_shuffled(random) : next_raw();
    auto& queue = batches_[b % decoder_count()];
    if (raw && !raw->ok()) {
      queue.push(raw->error());
      return;
    }
    if (raw) batch.push_back(*std::move(*raw));
    const bool is_complete = batch.size() == options_.batch_size || (!raw && !batch.empty());
    if (is_complete && !queue.push(std::exchange(batch, {}))) return;
    if (is_complete) ++b;
    if (!raw) return;
  }
}

void StreamFeed::decode_batches(size_t decoder, data::Epoch epoch) {
  SampleMaker maker(options_, epoch);
  while (auto batch = batches_[decoder].pop()) {
    if (!batch->ok()) {
      made_[decoder].push(batch->error());
      return;
    }
    Result<MadeBatch> made = decode(maker, **batch);
    rooms_.give_back(**std::move(batch));
    const bool failed = !made.ok();
    if (!made_[decoder].push(std::move(made)) || failed) return;
  }
}

Result<MadeBatch> StreamFeed::decode(SampleMaker& maker, const RawBatch& batch) {
  MadeBatch made = maker.make_batch();
  for (const RawSample& raw : batch) {
    Status added = maker.add(raw.sample, raw.bytes, made);
    if (added.ok()) continue;
    if (!options_.reader.skips_bad_samples()) return std::move(added).error();
    bad_.add(added.error());
  }
  return made;
}

}  // namespace

Result<std::unique_ptr<BatchFeed>> open_stream_feed(FeedOptions options) {
  return std::unique_ptr<BatchFeed>(std::make_unique<StreamFeed>(std::move(options)));
}

}  // namespace millrace::bench
