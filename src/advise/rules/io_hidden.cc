// io-hidden: there is much I/O, and compute hides it: nothing is to be gained from it.
#include <fmt/core.h>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/units.h"

namespace millrace::advise {

Judged judge_io_hidden(const analyze::Profile& profile, const Machine&) {
  constexpr double kIoShareMin = 0.25;
  constexpr double kHiddenShareMin = 0.9;
  const Waiting waiting = waiting_of(profile);
  const analyze::TimeSplit& mean = profile.time.mean;
  // Who looks for a problem in little I/O needs no telling.
  if (mean.compute_ns == 0 || mean.io_ns < kSecond) return {};
  if (waiting.share(mean.io_ns) < kIoShareMin) return {};
  const double hidden = ratio(mean.io_hidden_ns, mean.io_ns);
  if (hidden < kHiddenShareMin || waiting.share(waiting.data_ns) >= kWaitShareMin) return {};

  Finding finding;
  finding.title = "I/O is hidden already: nothing to gain from it";
  finding.evidence = {
      {fmt::format("a rank is in I/O for {} of the wall time, and {} of that falls into computing",
                   format_percent(waiting.share(mean.io_ns)), format_percent(hidden)),
       "time.mean"},
      {fmt::format("training waits for data for {} of the wall time",
                   format_percent(waiting.share(waiting.data_ns))),
       "time.mean"}};
  finding.threshold =
      "a quarter of the time in I/O, 90 % of it beside computing, and under 5 % waiting: less "
      "than runs differ from one another";
  finding.changes = {
      {"any",
       "leave the I/O as it is; look at the computing, and measure again when that has become "
       "faster or the job larger"}};
  finding.gain.how = "none: it was measured that training hardly waits";
  finding.severity = Severity::kNote;
  return finding;
}

}  // namespace millrace::advise
