// line-reads: data is read by line, word or character.
#include <algorithm>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

constexpr std::string_view kLineCalls[] = {"fgets",  "fgetc",  "getline", "getdelim",
                                           "fscanf", "fgetws", "fgetwc"};

struct LineReads {
  uint64_t calls = 0;
  uint64_t time_ns = 0;
  uint64_t bytes = 0;
  std::string_view most;  // the call with most time
};

Finding line_reads_text(const Case& given, const LineReads& lines) {
  return {
      .kind = "data is read line by line",
      .evidence = {at("functions", "{} of {} data reads are calls like {}, of {} on average",
                      format_exact(given.profile.data_reads.counts.lines),
                      format_exact(given.profile.data_reads.counts.count), lines.most,
                      format_bytes(lines.bytes / std::max<uint64_t>(lines.calls, 1))),
                   at("functions", "they took {}", duration(lines.time_ns))},
      .threshold =
          "half of the data reads, and 3 % of the wall time: a call per line costs more than its bytes",
      .changes =
          {{"pytorch",
            "read blocks of 1 MiB and split them, or use a parser that does (pandas.read_csv, "
            "pyarrow.csv); better: convert once to a binary format"},
           {"tf.data",
            "read large blocks: tf.data.TextLineDataset(files, buffer_size=1 << 20, "
            "num_parallel_reads=4); better: convert once to TFRecord"},
           {"any",
            "in C: call setvbuf(file, NULL, _IOFBF, 1 << 20), fread() whole blocks, and parse "
            "numbers with from_chars or strtod from the block"}},
      .gain = {
          .how =
              "the time of these calls that does not overlap with compute, minus copying the bytes"}};
}

}  // namespace

Judged judge_line_reads(const Case& given) {
  const Waiting waiting = given.waiting.with_startup();
  const analyze::AccessCounts& counts = given.profile.data_reads.counts;
  if (counts.lines < kCallsMin || 2 * counts.lines < counts.count) return {};
  LineReads lines;
  for (const analyze::FunctionStats& function : given.profile.functions) {
    if (std::find(std::begin(kLineCalls), std::end(kLineCalls), function.name) ==
        std::end(kLineCalls)) {
      continue;
    }
    if (lines.calls == 0) lines.most = function.name;  // sorted by time
    lines.calls += function.count;
    lines.time_ns += function.time_ns;
    lines.bytes += function.bytes;
  }
  // Some of these calls may read files other than data.
  lines.time_ns = scaled(lines.time_ns, ratio(counts.lines, lines.calls));
  const uint64_t left_ns = time_at(lines.bytes, kCacheBytesPerSecond);
  const uint64_t saved_ns = waiting.exposed_due_to(minus(lines.time_ns, left_ns));
  if (!waiting.matters(saved_ns)) return {};
  return less_time(waiting, saved_ns, line_reads_text(given, lines));
}

}  // namespace millrace::advise
