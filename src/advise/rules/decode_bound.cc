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
  // What waits for something else than its loader waits longer than the loader works.
  const uint64_t decode_a_rank_ns = waiting.decode_ns / (waiting.rank_ns / waiting.wall_ns);
  if (2 * decode_a_rank_ns < waiting.data_ns) return {};

  const double decode_share = ratio(waiting.decode_ns, waiting.decode_ns + waiting.calls_ns);
  Finding finding;
  finding.title = "training waits for decoding on the CPU, not for I/O";
  finding.evidence = {
      {fmt::format("a rank waits {} for data, {} of the wall time", duration(waiting.data_ns),
                   format_percent(waiting.share(waiting.data_ns))),
       "time.mean"},
      {fmt::format("making samples took {} beside their I/O, which took {}",
                   duration(waiting.decode_ns), duration(waiting.calls_ns)),
       "functions"}};
  finding.threshold =
      "5 % of the wall time waiting, and twice as long in decoding as in I/O: faster storage "
      "would not change the half of it";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "more workers, up to the cores of a rank (num_workers); decode_jpeg of torchvision.io or "
              "DALI instead of PIL; crop while decoding; augment in batches on the accelerator")
          .tf_data(
              "map(decode, num_parallel_calls=tf.data.AUTOTUNE); tf.image.decode_and_crop_jpeg; cache() "
              "behind decoding where the values fit")
          .loader("millrace.DataLoader decodes on threads and only what a crop needs")
          .any("store samples smaller: resized once to little more than training uses")
          .take();
  finding.gain =
      gain_of(waiting, scaled(waiting.data_ns, decode_share) / 2,
              "half of the waiting that decoding accounts for: what twice the workers, or a "
              "decoder twice as fast, would save");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
