// slow-transform: training waits for transforms of samples on the CPU.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/text/units.h"

namespace millrace::advise {

Judged judge_slow_transform(const analyze::Profile& profile, const Machine& machine) {
  const Waiting waiting = waiting_of(profile);
  const analyze::Loading& loading = profile.loading;
  if (waiting.work_ns == 0 || 2 * loading.transform_ns < waiting.work_ns) {
    return judge_code(profile, machine, /*decoding=*/false);
  }
  const uint64_t saved_ns = scaled(waiting.due_to(loading.transform_ns), kSavedOfCode);
  if (waiting.share(saved_ns) < kWaitShareMin) return {};

  std::string most;  // functions are sorted by time
  for (const analyze::FunctionStats& function : profile.functions) {
    const bool transforms =
        function.role == analyze::Role::kTransform || function.role == analyze::Role::kDecode;
    if (transforms && most.empty()) most = function.name;
  }
  Finding finding;
  finding.title = "training waits for transforms on the CPU";
  finding.evidence = {
      {fmt::format("a rank waits {} for data, {}", duration(waiting.data_ns),
                   waiting.part(waiting.data_ns)),
       "time.mean"},
      {fmt::format("of {} of loading, transforms took {}, {} for each sample",
                   duration(waiting.work_ns), duration(loading.transform_ns),
                   duration(loading.transform_ns / std::max<uint64_t>(loading.samples, 1))),
       "functions:" + most}};
  finding.threshold = "half of the loading, and 5 % of training time to gain";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "transform whole batches on the accelerator (torchvision.transforms.v2 on a batch, "
              "or Kornia); do what is not random once, before training; crop before other "
              "transforms; add workers up to the cores per rank")
          .tf_data(
              "map(transform, num_parallel_calls=tf.data.AUTOTUNE) after batch(), so that it works "
              "on whole batches")
          .loader("use millrace.DataLoader: it crops, resizes and flips while it decodes")
          .take();
  finding.gain =
      gain_of(waiting, saved_ns,
              "eight tenths of the waiting for transforms: between twice as fast and on the "
              "accelerator");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
