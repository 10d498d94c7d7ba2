// TieredReads: reads of a TieredSource under way at once.
//
// What a tier has is there at once, as of the source's read(); only what comes from the slow source
// is in flight, by the slow source's own reads, and is kept when it lands.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "data/reads.h"
#include "loader/tiers/tiered_source.h"

namespace millrace::loader {

class TieredReads final : public data::SampleReads {
 public:
  // REQUIRES: `slow` is of the source that `source` is before
  TieredReads(const TieredSource& source, std::unique_ptr<data::SampleReads> slow);

  size_t capacity() const override { return slots_.size(); }
  size_t in_flight() const override { return slow_->in_flight() + at_once_.size(); }
  void submit(const data::SampleRequest& request) override;
  void wait(std::vector<data::SampleDone>& done) override;

 private:
  struct Slot {
    uint64_t tag = 0;
    TieredSource::Use use;
    std::chrono::nanoseconds began{};
  };

  const TieredSource& source_;
  std::vector<Slot> slots_;
  std::vector<size_t> free_;
  std::vector<data::SampleDone> at_once_;  // from a tier
  std::vector<data::SampleDone> landed_;   // from the source
  std::chrono::nanoseconds landed_at_{};   // the last one
  std::unique_ptr<data::SampleReads> slow_;
};

}  // namespace millrace::loader
