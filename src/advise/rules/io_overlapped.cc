// io-overlapped: there is much I/O, but it overlaps with compute, so improving it would gain
// nothing.
#include <fmt/core.h>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/units.h"

namespace millrace::advise {

Judged judge_io_overlapped(const analyze::Profile& profile, const Machine&) {
  constexpr double kIoShareMin = 0.25;
  constexpr double kOverlappedShareMin = 0.9;
  const Waiting waiting = waiting_of(profile);
  const analyze::TimeSplit& mean = profile.time.mean;
  // Little I/O is not worth a finding.
  if (mean.compute_ns == 0 || mean.io_ns < kSecond) return {};
  if (waiting.share(mean.io_ns) < kIoShareMin) return {};
  const double overlapped = ratio(mean.io_overlapped_ns, mean.io_ns);
  if (overlapped < kOverlappedShareMin || waiting.share(waiting.data_ns) >= kWaitShareMin)
    return {};

  Finding finding;
  finding.title = "I/O already overlaps with compute: faster I/O would gain nothing";
  finding.evidence = {
      {fmt::format("a rank spends {} of the wall time in I/O, and {} of that overlaps with compute",
                   format_percent(waiting.share(mean.io_ns)), format_percent(overlapped)),
       "time.mean"},
      {fmt::format("training waits for data for {} of the wall time",
                   format_percent(waiting.share(waiting.data_ns))),
       "time.mean"}};
  finding.threshold =
      "a quarter of the time in I/O, 90 % of it overlapped, and less than 5 % waiting, which is "
      "within the variation between runs";
  finding.changes = {
      {"any",
       "leave the I/O as it is and speed up compute; measure again when compute is faster or the "
       "job is larger"}};
  finding.gain.how = "none: training hardly waits for data";
  finding.severity = Severity::kNote;
  return finding;
}

}  // namespace millrace::advise
