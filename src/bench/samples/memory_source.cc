// Datasets in memory: all samples are read before the training (reader.read_type=memory).
#include <atomic>
#include <cstring>
#include <map>
#include <vector>

#include "base/concurrency/mutex.h"
#include "base/concurrency/thread_pool.h"
#include "base/system/cpus.h"
#include "base/system/memory.h"
#include "base/text/units.h"
#include "bench/samples/samples.h"

namespace millrace::bench {
namespace {

// If `keeps_errors`, a sample that cannot be read fails when it is asked for.
class MemorySource final : public data::SampleSource {
 public:
  MemorySource(std::shared_ptr<const data::SampleSource> source, bool keeps_errors)
      : source_(std::move(source)),
        keeps_errors_(keeps_errors),
        samples_(source_->sample_count()) {}

  // Reads every sample on all cores. Fails before the memory is full.
  Status fill() {
    const uint64_t limit = memory_available_bytes().value_or(UINT64_MAX);
    std::atomic<uint64_t> used = 0;
    ThreadPool pool(usable_cpu_count());
    return pool.parallel_for(samples_.size(), [&](size_t i) -> Status {
      thread_local data::Buffer room;
      const auto read = source_->read(data::SampleId{i}, room);
      if (!read.ok()) return keep(i, read.error());
      const ByteView bytes = *read;
      if (used.fetch_add(bytes.size()) + bytes.size() > limit) {
        return fail(Errc::kExhausted,
                    "the dataset does not fit into the memory, of which {} is available; use "
                    "reader.read_type=on_demand or a smaller --scale",
                    format_bytes(limit));
      }
      samples_[i].assign(bytes.begin(), bytes.end());
      return {};
    });
  }

  uint64_t sample_count() const override { return samples_.size(); }
  std::string name(data::SampleId sample) const override { return source_->name(sample); }
  std::optional<int64_t> label(data::SampleId sample) const override {
    return source_->label(sample);
  }
  Result<ByteView> read(data::SampleId sample, data::Buffer&) const override {
    RETURN_IF_ERROR(error_of(sample));
    return ByteView(samples_[data::index_of(sample)]);
  }
  Result<size_t> read_into(data::SampleId sample, MutableByteView out) const override {
    RETURN_IF_ERROR(error_of(sample));
    const auto& bytes = samples_[data::index_of(sample)];
    if (bytes.size() > out.size()) {
      return fail(Errc::kExhausted, "{}: has {} bytes, and there is room for {}", name(sample),
                  bytes.size(), out.size());
    }
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return bytes.size();
  }
  uint64_t group_count() const override { return source_->group_count(); }
  data::SampleId group_begin(uint64_t group) const override { return source_->group_begin(group); }

 private:
  Status keep(uint64_t index, const Error& error) {
    if (!keeps_errors_) return error;
    const MutexLock lock(mutex_);
    errors_.emplace(index, error);
    return {};
  }
  Status error_of(data::SampleId sample) const {
    const auto found = errors_.find(data::index_of(sample));
    return found == errors_.end() ? Status() : Status(found->second);
  }

  std::shared_ptr<const data::SampleSource> source_;
  bool keeps_errors_;
  std::vector<std::vector<std::byte>> samples_;
  Mutex mutex_;                       // for fill(); what it filled is only read
  std::map<uint64_t, Error> errors_;  // by index; guarded while it is filled
};

}  // namespace

Status read_if_in_memory(const Workload& workload, OpenedDataset& dataset) {
  if (workload.reader.read_type != ReadType::kMemory) return {};
  const auto memory =
      std::make_shared<MemorySource>(dataset.source, workload.reader.skips_bad_samples());
  RETURN_IF_ERROR(memory->fill());
  dataset.source = memory;
  return {};
}

}  // namespace millrace::bench
