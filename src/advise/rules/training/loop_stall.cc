// loop-stall: the training loop itself reads or writes files, and computes nothing meanwhile.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "analyze/files/file_kinds.h"
#include "base/text/phrases.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

bool is_writing(wire::CallKind kind) {
  return kind == wire::CallKind::kWrite || kind == wire::CallKind::kSync;
}

struct Calls {
  uint64_t reading_ns = 0;
  uint64_t writing_ns = 0;
  uint64_t count = 0;
  uint64_t gaps = 0;
  const analyze::Stall* longest = nullptr;
  std::vector<std::string> names;  // at most three, longest first
};

// Then an open there was for writing.
bool has_writes_in(const analyze::Profile& profile, const std::string& directory) {
  return std::any_of(profile.stalls.begin(), profile.stalls.end(), [&](const auto& stall) {
    return stall.phase == kInTraining && stall.directory == directory &&
           is_writing(kind_of(profile, stall.name));
  });
}

// Listing and examining files is metadata-storm's.
Calls calls_of(const analyze::Profile& profile) {
  Calls calls;
  for (const analyze::Stall& stall : profile.stalls) {
    if (stall.phase != kInTraining || stall.name.empty()) continue;
    if (is_metadata(profile, stall.name)) continue;
    // Modules that are imported late, and batches that workers hand over in shared memory.
    if (analyze::is_system_path(stall.directory + "/") || stall.directory == "/dev/shm") continue;
    if (writes_checkpoint(profile, stall)) continue;       // checkpoint-stall
    if (calls.longest == nullptr) calls.longest = &stall;  // sorted by time
    const bool writes = is_writing(kind_of(profile, stall.name)) || changes_names(stall.name) ||
                        has_writes_in(profile, stall.directory);
    (writes ? calls.writing_ns : calls.reading_ns) += stall.stall_ns;
    calls.count += stall.count;
    calls.gaps = std::max(calls.gaps, stall.gaps);
    if (calls.names.size() < 3) calls.names.push_back(stall.name);
  }
  return calls;
}

}  // namespace

Judged judge_loop_stall(const analyze::Profile& profile, const Machine& machine) {
  const Waiting waiting = waiting_of(profile);
  const Calls calls = calls_of(profile);
  const uint64_t saved_ns = (calls.reading_ns + calls.writing_ns) / waiting.ranks;
  if (calls.longest == nullptr || waiting.share(saved_ns) < kWaitShareMin) return {};

  const bool writes = calls.writing_ns >= calls.reading_ns;
  std::string names = calls.names.front();
  for (size_t i = 1; i < calls.names.size(); ++i) names += ", " + calls.names[i];
  const std::string region =
      calls.longest->region.empty() ? "" : fmt::format(" in the region {}", calls.longest->region);
  Finding finding;
  finding.title =
      fmt::format("the training loop stops to {} files ({})", writes ? "write" : "read", names);
  finding.evidence = {
      {fmt::format("{} calls in {} outside of loading and compute{}, most of them in {}",
                   format_exact(calls.count), counted(calls.gaps, "gap", "gaps"), region,
                   calls.longest->directory.empty() ? "no directory" : calls.longest->directory),
       "stalls"},
      {fmt::format("training stopped for {}, {}", duration(saved_ns), waiting.part(saved_ns)),
       "stalls"}};
  finding.threshold =
      "5 % of training time, from the first step to the last: what the loop does itself, no "
      "worker does for it";
  Changes list(profile, machine);
  if (writes) {
    list.any(
            "write logs and metrics from a thread, or every hundredth step; do not call fsync for them; "
            "open the file once")
        .pytorch(
            "if this is the state of the model, it is a checkpoint: copy it to the CPU and write it "
            "in a thread, or use torch.distributed.checkpoint.async_save");
  } else {
    list.any("read it once before training, or in the workers of the DataLoader");
  }
  finding.changes = list.take();

  finding.gain = gain_of(waiting, saved_ns, "the time in which training stopped for these calls");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
