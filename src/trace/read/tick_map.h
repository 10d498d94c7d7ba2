// TickMap: converts ticks of a session's counter to its host's monotonic clock.
//
// Linear between samples of both clocks, so the error never exceeds that of a sample, however long
// the session is. Before the first and after the last sample, the nearest piece is extended. New
// samples at the end do not change earlier times: packing during the run gives the same times as
// packing afterwards with the samples that the first packer kept.
#pragma once

#include <cstdint>
#include <vector>

#include "wire/clock.h"

namespace millrace::trace {

class TickMap {
 public:
  // Samples closer than this are ignored: their noise would distort the rate.
  static constexpr uint64_t kSpacingNs = 10'000'000;
  // So are samples whose reading was interrupted.
  static constexpr uint64_t kUncertaintyMaxNs = 20'000;

  // `first` is the session's own sample. Without a second one, a tick counts as a nanosecond.
  TickMap(wire::CounterSource source, const wire::ClockSample& first);

  // Returns false and ignores the sample if it is less than kSpacingNs later than the last one, too
  // uncertain or damaged.
  bool add(const wire::ClockSample& sample);

  // Sets the rate if there is no second sample, from a calibration of the same machine.
  void set_rate(const wire::CounterScale& scale);

  bool has_rate() const { return has_rate_; }
  const std::vector<wire::ClockSample>& samples() const { return samples_; }

  // Nanoseconds since the first sample; 0 for earlier ticks.
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
