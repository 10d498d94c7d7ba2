// too-many-workers: more workers than cores, which get in each other's way.
#include <fmt/core.h>

#include <utility>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "base/text/phrases.h"

namespace millrace::advise {
namespace {

Finding too_many_workers_text(const Case& given, double busy, bool is_known) {
  return {
      .kind = "too many workers",
      .details =
          fmt::format("{} for {}", given.loading.threads, counted(*given.cores, "core", "cores")),
      .evidence =
          {at("loading",
              "{:.1f} batches are fetched at a time by code that needs a core; a rank has {}", busy,
              *given.cores),
           waiting_for_data(given)},
      .threshold =
          "twice the cores, and 1.5 times as many fetches in progress: more workers do not compute "
          "faster, take memory, and delay the training process",
      .changes = {{"pytorch",
                   fmt::format("use as many workers as cores: DataLoader(..., num_workers={}), and "
                               "torch.set_num_threads(1) in each",
                               *given.cores)},
                  {"tf.data", "use num_parallel_calls=tf.data.AUTOTUNE"},
                  {"loader", "use millrace.DataLoader without num_workers: it finds the number"}},
      .gain = {.how = is_known
                          ? "the time to start the workers that are too many, until the first "
                            "batch of each epoch"
                          : "a trace does not show how much the processes disturb each other"}};
}

}  // namespace

Judged judge_too_many_workers(const Case& given) {
  if (!given.cores || given.waiting.work_ns == 0 || given.loading.threads <= 2 * *given.cores)
    return {};
  if (given.waiting.share(given.waiting.data_ns) < kWaitShareMin) return {};
  // Workers that wait for storage need no core.
  const uint64_t code_ns = minus(given.loading.work_ns, given.loading.read_ns);
  const double busy = given.loading.in_flight * ratio(code_ns, given.loading.work_ns);
  if (busy <= 1.5 * static_cast<double>(*given.cores)) return {};
  const uint64_t starts_ns = given.loading.epoch_starts_ns / given.ranks;
  const uint64_t saved_ns = scaled(starts_ns, 1 - ratio(*given.cores, given.loading.threads));
  const bool is_known = given.waiting.matters(saved_ns);
  Finding text = too_many_workers_text(given, busy, is_known);
  return is_known ? less_time(given.waiting, saved_ns, std::move(text))
                  : less_by_unknown(std::move(text));
}

}  // namespace millrace::advise
