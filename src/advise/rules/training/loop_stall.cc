// loop-stall: the training loop itself reads or writes files, and computes nothing meanwhile.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "analyze/files/file_kinds.h"
#include "base/text/phrases.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

struct Calls {
  uint64_t reading_ns = 0;
  uint64_t writing_ns = 0;
  uint64_t count = 0;
  uint64_t gaps = 0;
  const analyze::Stall* longest = nullptr;
  std::string names;  // at most three, longest first
};

// Listing and examining files is metadata-storm's.
Calls calls_of(const Case& given) {
  Calls calls;
  size_t named = 0;
  for (const analyze::Stall& stall : given.profile.stalls) {
    if (stall.phase != kInTraining || stall.name.empty()) continue;
    if (is_metadata(given.profile, stall.name)) continue;
    // Modules that are imported late, and batches that workers hand over in shared memory.
    if (analyze::is_system_path(stall.directory + "/") || stall.directory == "/dev/shm") continue;
    if (writes_checkpoint(given.profile, stall)) continue;  // checkpoint-stall
    if (calls.longest == nullptr) calls.longest = &stall;   // sorted by time
    const bool writes = is_writing(given.profile, stall.name) || changes_names(stall.name) ||
                        has_writes_in(given.profile, stall.directory);
    (writes ? calls.writing_ns : calls.reading_ns) += stall.stall_ns;
    calls.count += stall.count;
    calls.gaps = std::max(calls.gaps, stall.gaps);
    if (named++ < 3) calls.names += (calls.names.empty() ? "" : ", ") + stall.name;
  }
  return calls;
}

Finding loop_stall_text(const Case& given, const Calls& calls, uint64_t saved_ns) {
  const bool writes = calls.writing_ns >= calls.reading_ns;
  std::vector<Change> changes = {
      {"any", "read it once before training, or in the workers of the DataLoader"}};
  if (writes) {
    changes = {
        {"any",
         "write logs and metrics from a thread, or every hundredth step; do not call fsync for "
         "them; open the file once"},
        {"pytorch",
         "if this is the state of the model, it is a checkpoint: copy it to the CPU and write it "
         "in a thread, or use torch.distributed.checkpoint.async_save"}};
  }
  const std::string region =
      calls.longest->region.empty() ? "" : fmt::format(" in the region {}", calls.longest->region);
  return {
      .kind = fmt::format("the training loop stops to {} files ({})", writes ? "write" : "read",
                          calls.names),
      .evidence = {at("stalls",
                      "{} calls in {} outside of loading and compute{}, most of them in {}",
                      format_exact(calls.count), counted(calls.gaps, "gap", "gaps"), region,
                      calls.longest->directory.empty() ? "no directory" : calls.longest->directory),
                   at("stalls", "training stopped for {}, {}", duration(saved_ns),
                      given.waiting.part(saved_ns))},
      .threshold =
          "5 % of training time, from the first step to the last: what the loop does itself, no "
          "worker does for it",
      .changes = std::move(changes),
      .gain = {.how = "the time in which training stopped for these calls"}};
}

}  // namespace

Judged judge_loop_stall(const Case& given) {
  const Calls calls = calls_of(given);
  const uint64_t saved_ns = (calls.reading_ns + calls.writing_ns) / given.ranks;
  if (calls.longest == nullptr || given.waiting.share(saved_ns) < kWaitShareMin) return {};
  return less_time(given.waiting, saved_ns, loop_stall_text(given, calls, saved_ns));
}

}  // namespace millrace::advise
