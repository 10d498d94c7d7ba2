// Fakes for loader tests: in-memory samples that can be bad, slow or stuck, and decoders.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "data/decoder.h"
#include "data/source.h"

namespace millrace::loader {

// Reads in flight for any source. wait() makes the reads, newest first, so that nobody relies on an
// order, and throws what the source throws.
class LateReads final : public data::SampleReads {
 public:
  LateReads(const data::SampleSource& source, size_t capacity,
            std::atomic<size_t>* most_in_flight = nullptr)
      : source_(source), capacity_(capacity), most_in_flight_(most_in_flight) {}

  size_t capacity() const override { return capacity_; }
  size_t in_flight() const override { return requests_.size(); }

  void submit(const data::SampleRequest& request) override {
    requests_.push_back(request);
    if (most_in_flight_ == nullptr) return;
    size_t most = most_in_flight_->load();
    while (most < requests_.size() &&
           !most_in_flight_->compare_exchange_weak(most, requests_.size())) {
    }
  }

  void wait(std::vector<data::SampleDone>& done) override {
    if (requests_.empty()) return;
    const data::SampleRequest request = requests_.back();
    requests_.pop_back();
    done.push_back({request.tag, made(request)});
  }

 private:
  Result<ByteView> made(const data::SampleRequest& request) const {
    if (request.room != nullptr) return source_.read(request.sample, *request.room);
    ASSIGN_OR_RETURN(const size_t size_bytes, source_.read_into(request.sample, request.out));
    return ByteView(request.out).first(size_bytes);
  }

  const data::SampleSource& source_;
  size_t capacity_;
  std::atomic<size_t>* most_in_flight_;
  std::vector<data::SampleRequest> requests_;
};

// The bytes of sample i: i in eight bytes, then (i + k) % 251.
class FakeSource final : public data::SampleSource {
 public:
  explicit FakeSource(uint64_t sample_count, size_t sample_bytes = 16)
      : sample_count_(sample_count), sample_bytes_(sample_bytes) {}

  // Set these before use.
  std::set<uint64_t> bad;         // cannot be read
  std::set<uint64_t> throwing;    // reading them throws
  std::set<uint64_t> stuck;       // reads block until release()
  std::set<uint64_t> short_ones;  // one byte shorter
  std::chrono::microseconds delay{0};
  size_t filled_bytes = SIZE_MAX;  // of each; the rest is not written, to save time if it is large
  data::ReadWays in_ways;          // has reads in flight if `in_flight` is not empty
  std::string refusal;             // why open_reads() fails; empty: it succeeds

  size_t most_in_flight() const { return most_in_flight_.load(); }  // of one thread

  void release() {
    const std::lock_guard lock(mutex_);
    is_released_ = true;
    released_.notify_all();
  }
  uint64_t read_count() const { return read_count_.load(); }

  uint64_t sample_count() const override { return sample_count_; }
  std::string name(data::SampleId sample) const override {
    return "sample-" + std::to_string(data::index_of(sample));
  }
  std::optional<int64_t> label(data::SampleId sample) const override {
    if (data::index_of(sample) % 10 == 9) return std::nullopt;
    return static_cast<int64_t>(data::index_of(sample) % 10);
  }
  Result<ByteView> read(data::SampleId sample, data::Buffer& room) const override {
    const MutableByteView out = room.room(sample_bytes_);
    ASSIGN_OR_RETURN(const size_t size_bytes, read_into(sample, out));
    return ByteView(out.first(size_bytes));
  }
  Result<size_t> read_into(data::SampleId sample, MutableByteView out) const override {
    const uint64_t index = data::index_of(sample);
    read_count_.fetch_add(1);
    if (delay.count() > 0) std::this_thread::sleep_for(delay);
    if (stuck.contains(index)) {
      std::unique_lock lock(mutex_);
      released_.wait(lock, [&] { return is_released_; });
    }
    if (throwing.contains(index)) throw std::runtime_error("a library threw");
    if (bad.contains(index)) return fail(Errc::kIo, "{}: input/output error", name(sample));
    const size_t filled = std::min(sample_bytes_, filled_bytes);
    for (size_t i = sizeof index; i < filled; ++i) out[i] = byte_at(index, i);
    std::memcpy(out.data(), &index, sizeof index);
    return short_ones.contains(index) ? sample_bytes_ - 1 : sample_bytes_;
  }
  data::ReadWays ways() const override { return in_ways; }
  Result<std::unique_ptr<data::SampleReads>> open_reads(size_t capacity) const override {
    if (!refusal.empty()) return fail(Errc::kExhausted, "{}", refusal);
    if (in_ways.in_flight.empty()) return std::unique_ptr<data::SampleReads>();
    return std::unique_ptr<data::SampleReads>(
        std::make_unique<LateReads>(*this, capacity, &most_in_flight_));
  }
  uint64_t group_count() const override { return (sample_count_ + 9) / 10; }
  data::SampleId group_begin(uint64_t group) const override {
    return data::SampleId{std::min(group * 10, sample_count_)};
  }

  static std::byte byte_at(uint64_t sample, size_t offset) {
    return static_cast<std::byte>((sample + offset) % 251);
  }

 private:
  const uint64_t sample_count_;
  const size_t sample_bytes_;
  mutable std::atomic<uint64_t> read_count_{0};
  mutable std::atomic<size_t> most_in_flight_{0};
  mutable std::mutex mutex_;
  mutable std::condition_variable released_;
  bool is_released_ = false;
};

// The only field is the seed that the sample is decoded with.
class SeedDecoder final : public data::Decoder {
 public:
  std::vector<data::FieldSpec> fields() const override {
    return {{"seed", data::ElementType::kI64, data::Shape()}};
  }
  Status decode(ByteView, const data::DecodeContext& context, std::span<const data::Output> outputs,
                data::Scratch*) const override {
    std::memcpy(outputs[0].bytes().data(), &context.seed, sizeof context.seed);
    return {};
  }
};

class FakeVerbatim final : public data::Decoder {
 public:
  explicit FakeVerbatim(size_t sample_bytes = 16) : sample_bytes_(sample_bytes) {}
  std::vector<data::FieldSpec> fields() const override {
    return {{"bytes", data::ElementType::kU8, {sample_bytes_}}};
  }
  bool is_verbatim() const override { return true; }
  Status decode(ByteView, const data::DecodeContext&, std::span<const data::Output>,
                data::Scratch*) const override {
    return fail(Errc::kUnsupported, "a verbatim decoder is not called");
  }

 private:
  size_t sample_bytes_;
};

// Three fields: the sample's index; its first (index % 7) bytes, ragged; and as many pairs of int32
// (index, k), padded with -1. Refuses the samples in `bad` after their first ragged field.
class FakeRagged final : public data::Decoder {
 public:
  std::set<uint64_t> bad;
  uint64_t padded_length_max = 0;
  size_t item_bytes = 1;  // of the first ragged field

  static uint64_t length_of(uint64_t index) { return index % 7; }

  std::vector<data::FieldSpec> fields() const override {
    data::Ragged padded{.length_max = padded_length_max, .is_padded = true};
    padded.padding.fill(std::byte{0xff});
    return {{"index", data::ElementType::kU64, {}},
            {"bytes", data::ElementType::kU8, {item_bytes}, data::Ragged{}},
            {"pairs", data::ElementType::kI32, {2}, padded}};
  }
  Status decode(ByteView sample, const data::DecodeContext& context,
                std::span<const data::Output> outputs, data::Scratch*) const override {
    const uint64_t index = data::index_of(context.sample);
    std::memcpy(outputs[0].bytes().data(), &index, sizeof index);
    ASSIGN_OR_RETURN(const MutableByteView bytes, outputs[1].room(length_of(index)));
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = sample[i % sample.size()];
    if (bad.contains(index)) return fail(Errc::kCorrupt, "the header is damaged");
    ASSIGN_OR_RETURN(const MutableByteView pairs, outputs[2].room(length_of(index)));
    for (uint64_t k = 0; k < pairs.size() / 8; ++k) {
      const int32_t pair[] = {static_cast<int32_t>(index), static_cast<int32_t>(k)};
      std::memcpy(pairs.data() + k * sizeof pair, pair, sizeof pair);
    }
    return {};
  }
};

// Two fields: the reversed bytes, and a number computed from sample, epoch and seed, like an
// augmentation. Refuses the samples in `bad`.
class FakeDecoder final : public data::Decoder {
 public:
  explicit FakeDecoder(size_t sample_bytes = 16) : sample_bytes_(sample_bytes) {}

  std::set<uint64_t> bad;

  std::vector<data::FieldSpec> fields() const override {
    return {{"bytes", data::ElementType::kU8, {sample_bytes_}},
            {"mixed", data::ElementType::kU64, {}}};
  }
  Status decode(ByteView sample, const data::DecodeContext& context,
                std::span<const data::Output> outputs, data::Scratch*) const override {
    if (bad.contains(data::index_of(context.sample))) {
      return fail(Errc::kCorrupt, "the header is damaged");
    }
    for (size_t i = 0; i < sample.size(); ++i)
      outputs[0].bytes()[i] = sample[sample.size() - 1 - i];
    const uint64_t mixed = mix(context);
    std::memcpy(outputs[1].bytes().data(), &mixed, sizeof mixed);
    return {};
  }

  static uint64_t mix(const data::DecodeContext& context) {
    return (data::index_of(context.sample) * 31 + data::number_of(context.epoch)) * 31 +
           context.seed;
  }

 private:
  size_t sample_bytes_;
};

}  // namespace millrace::loader
