#include "trace/read/tick_map.h"

#include "base/system/counter.h"

namespace millrace::trace {

TickMap::TickMap(wire::CounterSource source, const wire::ClockSample& first)
    : source_(source),
      has_rate_(source == wire::CounterSource::kMonotonicClock),
      samples_{first},
      pieces_{{.begin_ticks = first.counter_ticks,
               .begin_ns = 0,
               .scale = {source, 0, uint64_t{1} << wire::kScaleShift}}} {}

bool TickMap::add(const wire::ClockSample& sample) {
  const wire::ClockSample& last = samples_.back();
  if (sample.monotonic_ns <= last.monotonic_ns || sample.counter_ticks <= last.counter_ticks ||
      sample.monotonic_ns - last.monotonic_ns < kSpacingNs ||
      sample.uncertainty_ns > kUncertaintyMaxNs) {
    return false;
  }
  // Counters run at 1 MHz to 1 THz; anything else is a damaged sample.
  const double ns_per_tick = static_cast<double>(sample.monotonic_ns - last.monotonic_ns) /
                             static_cast<double>(sample.counter_ticks - last.counter_ticks);
  if (ns_per_tick < 1e-3 || ns_per_tick > 1e3) return false;
  Piece piece{.begin_ticks = last.counter_ticks,
              .begin_ns = last.monotonic_ns - samples_.front().monotonic_ns,
              .scale = scale_between(source_, last, sample)};
  if (samples_.size() == 1) {
    pieces_.front() = piece;
  } else {
    pieces_.push_back(piece);
  }
  samples_.push_back(sample);
  has_rate_ = true;
  return true;
}

void TickMap::set_rate(const wire::CounterScale& scale) {
  if (samples_.size() > 1) return;
  pieces_.front().scale = scale;
  has_rate_ = true;
}

}  // namespace millrace::trace
