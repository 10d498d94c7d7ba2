// TickMap: when a tick of a session's counter was, on its host's monotonic clock.
//
// Linear between samples of both clocks, so that an error is never more than a sample's own,
// however long the session; beyond the last sample, and before the first, the nearest piece goes
// on. Adding samples at the end changes nothing of what lies before them: a packer that runs along
// gives the same times as one that runs afterwards from the samples the first one kept.
#pragma once

#include <cstdint>
#include <vector>

#include "wire/clock.h"

namespace millrace::trace {

class TickMap {
 public:
  // Samples closer than this are not worth a piece of their own: their noise would bend it.
  static constexpr uint64_t kSpacingNs = 10'000'000;
  // Nor are those whose taking was interrupted.
  static constexpr uint64_t kUncertaintyMaxNs = 20'000;

  // `first` is the session's own. Without a second sample a tick is taken for a nanosecond.
  TickMap(wire::CounterSource source, const wire::ClockSample& first);

  // False, and nothing is changed, where the sample is of no use: not later than the last by
  // kSpacingNs, too uncertain, or damaged.
  bool add(const wire::ClockSample& sample);

  // The rate, where there is no second sample: from a calibration of the same machine.
  void set_rate(const wire::CounterScale& scale);

  bool has_rate() const { return has_rate_; }
  const std::vector<wire::ClockSample>& samples() const { return samples_; }

  // Nanoseconds since the first sample; 0 for what was before.
  uint64_t since_first_ns(uint64_t ticks) const {
    const Piece* piece = &pieces_.back();
    while (ticks < piece->begin_ticks && piece != pieces_.data()) --piece;
    if (ticks >= piece->begin_ticks) {
      return piece->begin_ns + ticks_to_ns(piece->scale, ticks - piece->begin_ticks);
    }
    const uint64_t before = ticks_to_ns(piece->scale, piece->begin_ticks - ticks);
    return before < piece->begin_ns ? piece->begin_ns - before : 0;
  }

 private:
  struct Piece {
    uint64_t begin_ticks;
    uint64_t begin_ns;
    wire::CounterScale scale;
  };

  wire::CounterSource source_;
  bool has_rate_;
  std::vector<wire::ClockSample> samples_;
  std::vector<Piece> pieces_;  // never empty; in order
};

}  // namespace millrace::trace
