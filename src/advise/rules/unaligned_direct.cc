// unaligned-direct: transfers of files opened with O_DIRECT that are not aligned.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/units.h"

namespace millrace::advise {

Judged judge_unaligned_direct(const analyze::Profile& profile, const Machine& machine) {
  constexpr uint64_t kCountMin = 100;
  constexpr double kShareMin = 0.01;
  const analyze::FileStats* worst = nullptr;
  uint64_t unaligned = 0;
  uint64_t transfers = 0;
  uint64_t errors = 0;
  uint64_t files = 0;
  for (const analyze::FileStats& file : profile.files) {
    if (file.direct_opens == 0) continue;
    transfers += file.io.reads + file.io.writes;
    // The end of a file need not be aligned: one transfer of each opening is let pass.
    const uint64_t habit = file.unaligned_direct - std::min(file.unaligned_direct, file.io.opens);
    if (habit == 0) continue;
    ++files;
    unaligned += habit;
    errors += file.io.errors;
    if (worst == nullptr || file.unaligned_direct > worst->unaligned_direct) worst = &file;
  }
  if (unaligned < kCountMin || ratio(unaligned, transfers) < kShareMin) return {};

  Finding finding;
  finding.title = "O_DIRECT with transfers that are not aligned";
  finding.evidence = {
      {fmt::format(
           "{} of {} transfers of files opened with O_DIRECT are not multiples of 512 bytes, in {} "
           "{}",
           format_exact(unaligned), format_exact(transfers), files, files == 1 ? "file" : "files"),
       "files:" + worst->path}};
  if (errors > 0) {
    finding.evidence.push_back({fmt::format("{} calls on these files failed", format_exact(errors)),
                                "files:" + worst->path});
  }
  finding.threshold =
      "one in a hundred, a hundred at least, ends of files left out: what "
      "is not aligned to 512 bytes (4 KiB on some disks) fails, or goes through the page "
      "cache after all, a page at a time";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "round offsets down and sizes up to 4096, into memory from mmap or "
              "posix_memalign; or leave O_DIRECT away and call os.posix_fadvise(fd, 0, 0, "
              "os.POSIX_FADV_DONTNEED)")
          .tf_data(
              "tf.data reads through the page cache; what opens with O_DIRECT here is your own reader: "
              "round offsets down and sizes up to 4096")
          .hdf5("H5Pset_fapl_direct(fapl, 4096, 4096, 16 << 20) aligns for you")
          .take();
  finding.gain.how = "not estimated: it depends on what this file system does with such transfers";
  finding.severity = Severity::kWarning;
  return finding;
}

}  // namespace millrace::advise
