// slow-transform: training waits for transforms of samples on the CPU.
#include <algorithm>

#include "advise/rules/rules.h"
#include "advise/wording.h"

namespace millrace::advise {
namespace {

Finding slow_transform_text(const Case& given) {
  std::string most;  // functions are sorted by time
  for (const analyze::FunctionStats& function : given.profile.functions) {
    const bool transforms =
        function.role == analyze::Role::kTransform || function.role == analyze::Role::kDecode;
    if (transforms && most.empty()) most = function.name;
  }
  return {
      .kind = "training waits for transforms on the CPU",
      .evidence = {waiting_for_data(given),
                   at("functions:" + most,
                      "of {} of loading, transforms took {}, {} for each sample",
                      duration(given.waiting.work_ns), duration(given.loading.transform_ns),
                      duration(given.loading.transform_ns /
                               std::max<uint64_t>(given.loading.samples, 1)))},
      .threshold = "half of the loading, and 5 % of training time to gain",
      .changes =
          {{"pytorch",
            "transform whole batches on the accelerator (torchvision.transforms.v2 on a batch, or "
            "Kornia); do what is not random once, before training; crop before other transforms; "
            "add workers up to the cores per rank"},
           {"tf.data",
            "map(transform, num_parallel_calls=tf.data.AUTOTUNE) after batch(), so that it works "
            "on whole batches"},
           {"loader", "use millrace.DataLoader: it crops, resizes and flips while it decodes"}},
      .gain = {.how =
                   "eight tenths of the waiting for transforms: between twice as fast and on the "
                   "accelerator"}};
}

}  // namespace

Judged judge_slow_transform(const Case& given) {
  if (given.waiting.work_ns == 0 || 2 * given.loading.transform_ns < given.waiting.work_ns) {
    return judge_code(given, /*decoding=*/false);
  }
  const uint64_t saved_ns = scaled(given.waiting.due_to(given.loading.transform_ns), kSavedOfCode);
  if (given.waiting.share(saved_ns) < kWaitShareMin) return {};
  return less_waiting(given.waiting, saved_ns, slow_transform_text(given));
}

}  // namespace millrace::advise
