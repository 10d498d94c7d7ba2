// TieredReads: reads of a TieredSource in flight.
//
// A sample that a tier holds is returned at once, as by read(). Only samples from the slow source
// are in flight, through its own reads; they are kept when they arrive.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "data/reads.h"
#include "loader/tiers/tiered_source.h"

namespace millrace::loader::tiers {

class TieredReads final : public data::SampleReads {
 public:
  // REQUIRES: `slow` reads the slow source behind `source`
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
  std::chrono::nanoseconds landed_at_{};   // when the last one landed
  std::unique_ptr<data::SampleReads> slow_;
};

}  // namespace millrace::loader::tiers
