// unaligned-direct: unaligned reads and writes with O_DIRECT.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/text/phrases.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

// In reads and writes that failed.
uint64_t failed_time(const analyze::Profile& profile) {
  uint64_t time_ns = 0;
  for (const analyze::FunctionStats& function : profile.functions) {
    const bool moves =
        function.kind == wire::CallKind::kRead || function.kind == wire::CallKind::kWrite;
    if (moves) time_ns += scaled(function.time_ns, ratio(function.errors, function.count));
  }
  return time_ns;
}

}  // namespace

Judged judge_unaligned_direct(const analyze::Profile& profile, const Machine& machine) {
  constexpr uint64_t kCountMin = 100;
  constexpr double kShareMin = 0.01;
  const analyze::FileStats* worst = nullptr;
  uint64_t unaligned = 0;
  uint64_t transfers = 0;
  uint64_t errors = 0;
  uint64_t files = 0;
  uint64_t most = 0;
  for (const analyze::FileStats& file : profile.files) {
    if (file.direct_opens == 0) continue;
    transfers += file.io.reads + file.io.writes;
    // The end of a file need not be aligned: allow one unaligned transfer per open.
    // If the file was opened without O_DIRECT, too, only transfers that failed are known.
    const uint64_t known = std::max(file.unaligned_direct, file.io.errors);
    const uint64_t habit = known - std::min(known, file.io.opens);
    if (habit == 0) continue;
    ++files;
    unaligned += habit;
    errors += file.io.errors;
    if (habit > most) worst = &file;
    most = std::max(most, habit);
  }
  if (unaligned < kCountMin || ratio(unaligned, transfers) < kShareMin) return {};

  Finding finding;
  finding.title = "unaligned O_DIRECT transfers";
  finding.evidence = {
      {fmt::format(
           "{} of {} transfers of files opened with O_DIRECT failed or are not multiples of 512 "
           "bytes, in {}",
           format_exact(unaligned), format_exact(transfers), counted(files, "file", "files")),
       "files:" + worst->path}};
  if (errors > 0) {
    finding.evidence.push_back({fmt::format("{} calls on these files failed", format_exact(errors)),
                                "files:" + worst->path});
  }
  finding.threshold =
      "one transfer in a hundred, at least a hundred, not counting ends of files: a transfer that "
      "is not aligned to 512 bytes (4 KiB on some disks) fails, or goes through the page cache "
      "after all, one page at a time";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "align transfers: round offsets down and sizes up to 4096, and read into memory from "
              "mmap or posix_memalign; or drop O_DIRECT and call os.posix_fadvise(fd, 0, 0, "
              "os.POSIX_FADV_DONTNEED)")
          .tf_data(
              "align transfers in your own reader: round offsets down and sizes up to 4096 "
              "(tf.data itself reads through the page cache)")
          .hdf5("call H5Pset_fapl_direct(fapl, 4096, 4096, 16 << 20): it aligns transfers")
          .take();
  const Waiting waiting = waiting_of(profile);
  const uint64_t saved_ns = waiting.due_to(failed_time(profile));
  finding.gain = waiting.matters(saved_ns)
                     ? gain_of(waiting, saved_ns, "the waiting caused by transfers that failed")
                     : unknown_gain("it depends on how the file system handles such transfers");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
