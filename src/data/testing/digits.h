// Digits: a source of ten samples in memory, for tests of sources that are made of others.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "data/source.h"

namespace millrace::data {

// Ten samples "0" to "9" in files of 3, 0, 4 and 3; a sample's label is twice its number.
class Digits final : public SampleSource {
 public:
  explicit Digits(std::string what = "digit") : what_(std::move(what)) {}

  uint64_t sample_count() const override { return 10; }
  std::string name(SampleId sample) const override {
    return fmt::format("{} {}", what_, index_of(sample));
  }
  std::optional<int64_t> label(SampleId sample) const override {
    return 2 * static_cast<int64_t>(index_of(sample));
  }
  Result<ByteView> read(SampleId sample, Buffer& room) const override {
    const MutableByteView place = room.room(1);
    place[0] = std::byte(static_cast<unsigned char>('0' + index_of(sample)));
    return ByteView(place);
  }
  Result<size_t> read_into(SampleId sample, MutableByteView out) const override {
    if (out.empty()) return fail(Errc::kExhausted, "no room");
    out[0] = std::byte(static_cast<unsigned char>('0' + index_of(sample)));
    return 1;
  }
  ReadWays ways() const override { return {.in_flight = "at once"}; }
  Result<std::unique_ptr<SampleReads>> open_reads(size_t capacity) const override;
  void prepare(std::span<const SampleId> soon) const override {
    const std::lock_guard lock(mutex_);
    prepared_.assign(soon.begin(), soon.end());
  }
  uint64_t group_count() const override { return 4; }
  SampleId group_begin(uint64_t group) const override {
    constexpr uint64_t kBegins[] = {0, 3, 3, 7, 10};
    return SampleId{kBegins[group]};
  }

  mutable std::vector<SampleId> prepared_;

 private:
  mutable std::mutex mutex_;  // guards prepared_ while threads of a loader run
  std::string what_;
};

// Completes every read as soon as it is submitted.
class DigitReads final : public SampleReads {
 public:
  DigitReads(const Digits& digits, size_t capacity) : digits_(digits), capacity_(capacity) {}

  size_t capacity() const override { return capacity_; }
  size_t in_flight() const override { return done_.size(); }
  void submit(const SampleRequest& request) override {
    if (request.room != nullptr) {
      done_.push_back({request.tag, digits_.read(request.sample, *request.room)});
      return;
    }
    const auto size = digits_.read_into(request.sample, request.out);
    done_.push_back({request.tag, size.ok() ? Result<ByteView>(request.out.first(*size))
                                            : Result<ByteView>(size.error())});
  }
  void wait(std::vector<SampleDone>& done) override {
    for (SampleDone& one : done_) done.push_back(std::move(one));
    done_.clear();
  }

 private:
  const Digits& digits_;
  size_t capacity_;
  std::vector<SampleDone> done_;
};

inline Result<std::unique_ptr<SampleReads>> Digits::open_reads(size_t capacity) const {
  return std::unique_ptr<SampleReads>(std::make_unique<DigitReads>(*this, capacity));
}

}  // namespace millrace::data
