#include "bench/samples/measured_source.h"

#include <atomic>
#include <unordered_map>

#include "base/system/clock.h"

namespace millrace::bench {
namespace {

class MeasuredReads final : public data::SampleReads {
 public:
  MeasuredReads(std::unique_ptr<data::SampleReads> reads, LatencyRecorder& latencies)
      : reads_(std::move(reads)), latencies_(latencies) {}

  size_t capacity() const override { return reads_->capacity(); }
  size_t in_flight() const override { return reads_->in_flight(); }

  void submit(const data::SampleRequest& request) override {
    begins_[request.tag] = monotonic_now();
    reads_->submit(request);
  }

  void wait(std::vector<data::SampleDone>& done) override {
    const size_t before = done.size();
    reads_->wait(done);
    const auto now = monotonic_now();
    for (size_t i = before; i < done.size(); ++i) {
      const auto begin = begins_.find(done[i].tag);
      if (begin == begins_.end()) continue;
      latencies_.add(now - begin->second);
      begins_.erase(begin);
    }
  }

 private:
  std::unique_ptr<data::SampleReads> reads_;
  LatencyRecorder& latencies_;  // of the source, which outlives this
  std::unordered_map<uint64_t, std::chrono::nanoseconds> begins_;  // by tag, of those in flight
};

}  // namespace

void LatencyRecorder::add(std::chrono::nanoseconds latency) {
  static std::atomic<size_t> threads = 0;
  thread_local const size_t mine = threads.fetch_add(1, std::memory_order_relaxed) % kParts;
  Part& part = parts_[mine];
  const MutexLock lock(part.mutex);
  part.sketch.add(static_cast<uint64_t>(latency.count()));
}

QuantileSketch LatencyRecorder::all() const {
  QuantileSketch all;
  for (const Part& part : parts_) {
    const MutexLock lock(part.mutex);
    all.merge(part.sketch);
  }
  return all;
}

Result<ByteView> MeasuredSource::read(data::SampleId sample, data::Buffer& room) const {
  const auto begin = monotonic_now();
  auto bytes = source_->read(sample, room);
  latencies_->add(monotonic_now() - begin);
  return bytes;
}

Result<size_t> MeasuredSource::read_into(data::SampleId sample, MutableByteView out) const {
  const auto begin = monotonic_now();
  auto bytes = source_->read_into(sample, out);
  latencies_->add(monotonic_now() - begin);
  return bytes;
}

Result<std::unique_ptr<data::SampleReads>> MeasuredSource::open_reads(size_t capacity) const {
  ASSIGN_OR_RETURN(auto reads, source_->open_reads(capacity));
  if (reads == nullptr) return reads;
  return std::unique_ptr<data::SampleReads>(
      std::make_unique<MeasuredReads>(std::move(reads), *latencies_));
}

}  // namespace millrace::bench
