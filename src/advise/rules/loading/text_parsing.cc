// text-parsing: text such as CSV or JSON is parsed in every epoch.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/text/phrases.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

// Parsing, with what has to be done before if the text is compressed.
uint64_t unpacking_and_parsing(const analyze::Loading& loading) {
  const bool unpacks_text = loading.parse_ns >= loading.decompress_ns;
  return loading.parse_ns + (unpacks_text ? loading.decompress_ns : 0);
}

// Text in another format, such as .gz or a database: known by the regions of parsers. A header that
// is parsed each time its file is opened is repeated-opens'.
bool parses_other(const analyze::Profile& profile) {
  const analyze::Loading& loading = profile.loading;
  return loading.parse_ns > 0 && 2 * unpacking_and_parsing(loading) >= loading.other_ns &&
         !opens_archive(profile);
}

const analyze::GroupStats* text_files(const analyze::Profile& profile, const DataFormat& format) {
  if (format.format != Format::kText && !parses_other(profile)) return nullptr;
  for (const analyze::GroupStats& group : profile.extensions) {
    if (group.name == format.extension) return &group;
  }
  return nullptr;
}

struct Parsing {
  uint64_t time_ns = 0;  // summed over threads and ranks
  uint64_t saved_ns = 0;
  bool is_measured = false;
};

Parsing parsing_of(const analyze::Profile& profile, const DataFormat& format,
                   const analyze::GroupStats& text) {
  // A fast single-threaded parser (pandas' C engine, simple JSON); Python's own are slower.
  constexpr uint64_t kParseBytesPerSecond = 200'000'000;
  const Waiting waiting = waiting_of(profile);
  const analyze::Loading& loading = profile.loading;
  Parsing parsing;
  if (waiting.work_ns > 0 && loading.reads > 0) {
    // Reading a sample is parsing it. A binary sample is a slice of an array.
    const uint64_t code_ns =
        format.format == Format::kText
            ? std::min(own_code_ns(loading) + loading.parse_ns, parsing_ns_max(profile, format))
            : unpacking_and_parsing(loading);
    const uint64_t all_ns = code_ns + loading.read_ns + loading.metadata_ns;
    parsing.time_ns = all_ns - std::min(all_ns, loading.samples * kSampleNs);
    parsing.saved_ns = waiting.due_to(parsing.time_ns);
    parsing.is_measured = true;
  }
  // A file that the training loop itself reads.
  uint64_t stall_ns = 0;
  for (const analyze::Stall& stall : profile.stalls) {
    if (stall.phase == kInTraining && is_reading(profile, stall.name)) stall_ns += stall.stall_ns;
  }
  parsing.time_ns += stall_ns;
  parsing.saved_ns += stall_ns / waiting.ranks;
  if (parsing.time_ns > 0) return parsing;
  parsing.time_ns = time_at(text.io.bytes_read, kParseBytesPerSecond);
  parsing.saved_ns = std::min(parsing.time_ns / waiting.ranks, waiting.data_ns);
  return parsing;
}

}  // namespace

Judged judge_text_parsing(const analyze::Profile& profile, const Machine& machine) {
  const Waiting waiting = waiting_of(profile);
  const DataFormat format = format_of(profile);
  const analyze::GroupStats* text = text_files(profile, format);
  if (text == nullptr || reread_file(profile) != nullptr) return {};
  // Most of it waits for storage: a binary file would be read as slowly.
  const analyze::Loading& loading = profile.loading;
  const bool is_slow = loading.reads > 0 && loading.read_ns / loading.reads > 10 * kCachedReadNs;
  if (is_slow && 2 * loading.read_ns > loading.work_ns) return {};
  const Parsing parsing = parsing_of(profile, format, *text);
  if (waiting.share(parsing.saved_ns) < kWaitShareMin) return {};

  Finding finding;
  finding.title = fmt::format("text parsing: {} is parsed every time it is read", format.extension);
  finding.evidence = {
      {fmt::format("{} were read from {} of {} in total", format_bytes(text->io.bytes_read),
                   counted(text->files, "text file", "text files"), format_bytes(text->size_bytes)),
       "extensions:" + format.extension},
      {parsing.is_measured
           ? fmt::format("reading and parsing them took {} of {} of loading",
                         duration(parsing.time_ns), duration(waiting.work_ns))
           : fmt::format("parsing them takes {} on one core", duration(parsing.time_ns)),
       parsing.is_measured ? "loading" : "extensions:" + format.extension}};
  finding.threshold =
      "5 % of training time: reading numbers as text costs a hundred times as much as copying them";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "convert once to a binary format: tables to .npy (np.load(..., mmap_mode='r')) or "
              "Parquet (pyarrow), JSON lines to a binary file with an index; if it fits in memory, "
              "parse it once in Dataset.__init__")
          .tf_data("convert once to TFRecord with tf.train.Example, or .cache() after parsing")
          .hdf5("convert once to a typed, chunked dataset instead of text files")
          .take();
  finding.gain = gain_of(waiting, parsing.saved_ns,
                         parsing.is_measured
                             ? "the waiting for samples that are read and parsed, minus 5 us for "
                               "each: slicing an array"
                             : "the time to parse at 200 MB/s, at most the waiting for data");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
