// unaligned-direct: unaligned reads and writes with O_DIRECT.
#include <algorithm>
#include <utility>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "base/text/phrases.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

// In reads and writes that failed.
uint64_t failed_time(const Case& given) {
  uint64_t time_ns = 0;
  for (const analyze::FunctionStats& function : given.profile.functions) {
    const bool moves =
        function.kind == wire::CallKind::kRead || function.kind == wire::CallKind::kWrite;
    if (moves) time_ns += scaled(function.time_ns, ratio(function.errors, function.count));
  }
  return time_ns;
}

// What is transferred to and from files that are opened with O_DIRECT.
struct Transfers {
  const analyze::FileStats* worst = nullptr;
  uint64_t unaligned = 0;
  uint64_t count = 0;
  uint64_t errors = 0;
  uint64_t files = 0;  // with unaligned ones
};

Finding unaligned_direct_text(const Transfers& seen, bool is_known) {
  Finding text = {
      .kind = "unaligned O_DIRECT transfers",
      .evidence = {at(
          "files:" + seen.worst->path,
          "{} of {} transfers of files opened with O_DIRECT failed or are not multiples of 512 "
          "bytes, in {}",
          format_exact(seen.unaligned), format_exact(seen.count),
          counted(seen.files, "file", "files"))},
      .threshold =
          "one transfer in a hundred, at least a hundred, not counting ends of files: a transfer "
          "that is not aligned to 512 bytes (4 KiB on some disks) fails, or goes through the page "
          "cache after all, one page at a time",
      .changes =
          {{"pytorch",
            "align transfers: round offsets down and sizes up to 4096, and read into memory from "
            "mmap or posix_memalign; or drop O_DIRECT and call os.posix_fadvise(fd, 0, 0, "
            "os.POSIX_FADV_DONTNEED)"},
           {"tf.data",
            "align transfers in your own reader: round offsets down and sizes up to 4096 (tf.data "
            "itself reads through the page cache)"},
           {"hdf5", "call H5Pset_fapl_direct(fapl, 4096, 4096, 16 << 20): it aligns transfers"}},
      .gain = {.how = is_known ? "the waiting caused by transfers that failed"
                               : "it depends on how the file system handles such transfers"}};
  if (seen.errors > 0) {
    text.evidence.push_back(at("files:" + seen.worst->path, "{} calls on these files failed",
                               format_exact(seen.errors)));
  }
  return text;
}

}  // namespace

Judged judge_unaligned_direct(const Case& given) {
  constexpr uint64_t kCountMin = 100;
  constexpr double kShareMin = 0.01;
  Transfers seen;
  uint64_t most = 0;
  for (const analyze::FileStats& file : given.profile.files) {
    if (file.direct_opens == 0) continue;
    seen.count += file.io.reads + file.io.writes;
    // The end of a file need not be aligned: allow one unaligned transfer per open.
    // If the file was opened without O_DIRECT, too, only transfers that failed are known.
    const uint64_t known = std::max(file.unaligned_direct, file.io.errors);
    const uint64_t habit = minus(known, file.io.opens);
    if (habit == 0) continue;
    ++seen.files;
    seen.unaligned += habit;
    seen.errors += file.io.errors;
    if (habit > most) seen.worst = &file;
    most = std::max(most, habit);
  }
  if (seen.unaligned < kCountMin || ratio(seen.unaligned, seen.count) < kShareMin) return {};
  const uint64_t saved_ns = given.waiting.due_to(failed_time(given));
  const bool is_known = given.waiting.matters(saved_ns);
  Finding text = unaligned_direct_text(seen, is_known);
  return is_known ? less_waiting(given.waiting, saved_ns, std::move(text))
                  : less_by_unknown(std::move(text));
}

}  // namespace millrace::advise
