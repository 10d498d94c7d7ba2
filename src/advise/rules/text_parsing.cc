// text-parsing: text such as CSV or JSON is parsed in every epoch.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/text.h"
#include "base/units.h"

namespace millrace::advise {
namespace {

constexpr std::array<std::string_view, 9> kTextExtensions = {
    ".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".xml", ".libsvm", ".svm", ".yaml"};

struct Text {
  std::vector<std::string> extensions;
  uint64_t bytes = 0;
  uint64_t files = 0;
  uint64_t size_bytes = 0;
};

Text text_of(const analyze::Profile& profile) {
  Text text;
  for (const analyze::GroupStats& group : profile.extensions) {
    const bool is_text = std::find(kTextExtensions.begin(), kTextExtensions.end(), group.name) !=
                         kTextExtensions.end();
    if (!is_text || group.io.bytes_read == 0) continue;
    text.extensions.push_back(group.name);
    text.bytes += group.io.bytes_read;
    text.files += group.files;
    text.size_bytes += group.size_bytes;
  }
  return text;
}

}  // namespace

Judged judge_text_parsing(const analyze::Profile& profile, const Machine& machine) {
  // A fast single-threaded parser (pandas' C engine, simple JSON); Python's own are slower.
  constexpr uint64_t kParseBytesPerSecond = 200'000'000;
  const Waiting waiting = waiting_of(profile);
  const Text text = text_of(profile);
  const uint64_t parse_ns = time_at(text.bytes, kParseBytesPerSecond);
  if (!waiting.matters(parse_ns)) return {};
  const uint64_t parse_per_rank_ns = parse_ns / std::max<uint32_t>(profile.job.ranks, 1);
  if (waiting.share(parse_per_rank_ns) < kWaitShareMin) return {};

  Finding finding;
  finding.title =
      fmt::format("text parsing: {} is parsed every time it is read", join(text.extensions, ", "));
  finding.evidence = {
      {fmt::format("{} were read from {} text files of {} in total", format_bytes(text.bytes),
                   format_exact(text.files), format_bytes(text.size_bytes)),
       "extensions:" + text.extensions.front()},
      {fmt::format("parsing them takes {} on one core, {} of the wall time of a rank",
                   duration(parse_ns), format_percent(waiting.share(parse_per_rank_ns))),
       "extensions:" + text.extensions.front()}};
  finding.threshold =
      "5 % of the wall time at 200 MB/s, which is fast for a parser: reading numbers as text costs "
      "a hundred times as much as copying them";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "convert once to a binary format: tables to Parquet (pyarrow) or .npy (np.load(..., "
              "mmap_mode='r')), JSON lines to a file with an index")
          .tf_data("convert once to TFRecord with tf.train.Example, or .cache() after parsing")
          .hdf5("convert once to a typed, chunked dataset instead of text files")
          .take();
  finding.gain = gain_of(waiting, std::min(parse_per_rank_ns, waiting.data_ns),
                         "the time to parse at 200 MB/s, at most the waiting for data");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
