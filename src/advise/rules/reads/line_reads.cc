// line-reads: data is read by line, word or character.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

constexpr std::string_view kLineCalls[] = {"fgets",  "fgetc",  "getline", "getdelim",
                                           "fscanf", "fgetws", "fgetwc"};

}  // namespace

Judged judge_line_reads(const analyze::Profile& profile, const Machine& machine) {
  const Waiting waiting = waiting_of(profile).with_startup();
  const analyze::AccessCounts& counts = profile.data_reads.counts;
  if (counts.lines < kCallsMin || 2 * counts.lines < counts.count) return {};
  uint64_t calls = 0;
  uint64_t time_ns = 0;
  uint64_t bytes = 0;
  std::string most;
  for (const analyze::FunctionStats& function : profile.functions) {
    if (std::find(std::begin(kLineCalls), std::end(kLineCalls), function.name) ==
        std::end(kLineCalls)) {
      continue;
    }
    if (calls == 0) most = function.name;  // sorted by time
    calls += function.count;
    time_ns += function.time_ns;
    bytes += function.bytes;
  }
  // Some of these calls may read files other than data.
  time_ns = scaled(time_ns, ratio(counts.lines, calls));
  const uint64_t left_ns = time_at(bytes, kCacheBytesPerSecond);
  const uint64_t saved_ns = waiting.exposed_due_to(time_ns - std::min(time_ns, left_ns));
  if (!waiting.matters(saved_ns)) return {};

  Finding finding;
  finding.title = "data is read line by line";
  finding.evidence = {{fmt::format("{} of {} data reads are calls like {}, of {} on average",
                                   format_exact(counts.lines), format_exact(counts.count), most,
                                   format_bytes(bytes / std::max<uint64_t>(calls, 1))),
                       "functions"},
                      {fmt::format("they took {}", duration(time_ns)), "functions"}};
  finding.threshold =
      "half of the data reads, and 3 % of the wall time: a call per line costs more than its bytes";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "read blocks of 1 MiB and split them, or use a parser that does (pandas.read_csv, "
              "pyarrow.csv); better: convert once to a binary format")
          .tf_data(
              "read large blocks: tf.data.TextLineDataset(files, buffer_size=1 << 20, "
              "num_parallel_reads=4); better: convert once to TFRecord")
          .any(
              "in C: call setvbuf(file, NULL, _IOFBF, 1 << 20), fread() whole blocks, and parse "
              "numbers with from_chars or strtod from the block")
          .take();
  finding.gain = gain_of(
      waiting, saved_ns,
      "the time of these calls that does not overlap with compute, minus copying the bytes");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
