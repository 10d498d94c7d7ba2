// MeasuredSource: another source, with the time of every read.
//
// The time of a sample is from the call, or from the submission of a read in flight, until its
// bytes are there.
#pragma once

#include <array>
#include <chrono>
#include <memory>

#include "base/concurrency/mutex.h"
#include "base/numbers/quantile_sketch.h"
#include "data/source.h"

namespace millrace::bench {

// Times from many threads. They are spread over several sketches, so that threads rarely meet.
class LatencyRecorder {
 public:
  void add(std::chrono::nanoseconds latency);
  QuantileSketch all() const;  // in nanoseconds

 private:
  static constexpr size_t kParts = 16;
  struct alignas(64) Part {
    mutable Mutex mutex;
    QuantileSketch sketch GUARDED_BY(mutex);
  };
  std::array<Part, kParts> parts_;
};

class MeasuredSource final : public data::SampleSource {
 public:
  // Both are shared with the caller.
  MeasuredSource(std::shared_ptr<const data::SampleSource> source,
                 std::shared_ptr<LatencyRecorder> latencies)
      : source_(std::move(source)), latencies_(std::move(latencies)) {}

  uint64_t sample_count() const override { return source_->sample_count(); }
  std::string name(data::SampleId sample) const override { return source_->name(sample); }
  std::optional<int64_t> label(data::SampleId sample) const override {
    return source_->label(sample);
  }
  Result<ByteView> read(data::SampleId sample, data::Buffer& room) const override;
  Result<size_t> read_into(data::SampleId sample, MutableByteView out) const override;
  data::ReadWays ways() const override { return source_->ways(); }
  Result<std::unique_ptr<data::SampleReads>> open_reads(size_t capacity) const override;
  void prepare(std::span<const data::SampleId> soon) const override { source_->prepare(soon); }
  bool wants_order() const override { return source_->wants_order(); }
  void expect(const data::ComingOrder& order) const override { source_->expect(order); }
  void finished(std::span<const data::SampleId> read) const override { source_->finished(read); }
  void start_epoch(data::Epoch epoch, uint64_t done) const override {
    source_->start_epoch(epoch, done);
  }
  bool can_read_ahead() const override { return source_->can_read_ahead(); }
  uint64_t group_count() const override { return source_->group_count(); }
  data::SampleId group_begin(uint64_t group) const override { return source_->group_begin(group); }

 private:
  std::shared_ptr<const data::SampleSource> source_;
  std::shared_ptr<LatencyRecorder> latencies_;
};

}  // namespace millrace::bench
