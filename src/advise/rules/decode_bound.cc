// decode-bound: training waits for decoding on the CPU, not for I/O.
#include <fmt/core.h>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/units.h"

namespace millrace::advise {

Judged judge_decode_bound(const analyze::Profile& profile, const Machine& machine) {
  constexpr uint64_t kTimesIo = 2;
  const Waiting waiting = waiting_of(profile);
  if (profile.time.basis != analyze::WaitBasis::kRegions || waiting.decode_ns < kSecond) return {};
  if (waiting.data_ns < kSecond || waiting.share(waiting.data_ns) < kWaitShareMin) return {};
  if (waiting.decode_ns < kTimesIo * waiting.calls_ns) return {};
  // A rank that waits much longer than its loader decodes is waiting for something else.
  const uint64_t decode_per_rank_ns = waiting.decode_ns / (waiting.rank_ns / waiting.wall_ns);
  if (2 * decode_per_rank_ns < waiting.data_ns) return {};

  const double decode_share = ratio(waiting.decode_ns, waiting.decode_ns + waiting.calls_ns);
  Finding finding;
  finding.title = "training waits for decoding on the CPU, not for I/O";
  finding.evidence = {
      {fmt::format("a rank waits {} for data, {} of the wall time", duration(waiting.data_ns),
                   format_percent(waiting.share(waiting.data_ns))),
       "time.mean"},
      {fmt::format("decoding took {}, I/O took {}", duration(waiting.decode_ns),
                   duration(waiting.calls_ns)),
       "functions"}};
  finding.threshold =
      "at least 5 % of the wall time waiting, and twice as much time in decoding as in I/O: faster "
      "storage would save less than half of it";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "add workers, up to the cores per rank (num_workers); use decode_jpeg of "
              "torchvision.io or DALI instead of PIL; crop while decoding; augment in batches on "
              "the accelerator")
          .tf_data(
              "decode in parallel: map(decode, num_parallel_calls=tf.data.AUTOTUNE); use "
              "tf.image.decode_and_crop_jpeg; cache() after decoding if the values fit in memory")
          .loader("use millrace.DataLoader: it decodes on threads, and only what a crop needs")
          .any("store smaller samples: resize once to little more than training uses")
          .take();
  finding.gain =
      gain_of(waiting, scaled(waiting.data_ns, decode_share) / 2,
              "half of the waiting caused by decoding: what twice the workers, or a decoder twice "
              "as fast, would save");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
