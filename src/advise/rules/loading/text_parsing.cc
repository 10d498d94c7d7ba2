// text-parsing: text such as CSV or JSON is parsed in every epoch.
#include <fmt/core.h>

#include <algorithm>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "base/text/phrases.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

// Parsing, with what has to be done before if the text is compressed.
uint64_t unpacking_and_parsing(const Case& given) {
  const bool unpacks_text = given.loading.parse_ns >= given.loading.decompress_ns;
  return given.loading.parse_ns + (unpacks_text ? given.loading.decompress_ns : 0);
}

// Text in another format, such as .gz or a database: known by the regions of parsers. A header that
// is parsed each time its file is opened is repeated-opens'.
bool parses_other(const Case& given) {
  return given.loading.parse_ns > 0 && 2 * unpacking_and_parsing(given) >= given.loading.other_ns &&
         !opens_archive(given);
}

const analyze::GroupStats* text_files(const Case& given) {
  if (given.format.format != Format::kText && !parses_other(given)) return nullptr;
  for (const analyze::GroupStats& group : given.profile.extensions) {
    if (group.name == given.format.extension) return &group;
  }
  return nullptr;
}

struct Parsing {
  uint64_t time_ns = 0;  // summed over threads and ranks
  uint64_t saved_ns = 0;
  bool is_measured = false;
};

Parsing parsing_of(const Case& given, const analyze::GroupStats& text) {
  // A fast single-threaded parser (pandas' C engine, simple JSON); Python's own are slower.
  constexpr uint64_t kParseBytesPerSecond = 200'000'000;
  Parsing parsing;
  if (given.waiting.work_ns > 0 && given.loading.reads > 0) {
    // Reading a sample is parsing it. A binary sample is a slice of an array.
    const uint64_t code_ns =
        given.format.format == Format::kText
            ? std::min(own_code_ns(given.loading) + given.loading.parse_ns, parsing_ns_max(given))
            : unpacking_and_parsing(given);
    const uint64_t all_ns = code_ns + given.loading.read_ns + given.loading.metadata_ns;
    parsing.time_ns = minus(all_ns, given.loading.samples * kSampleNs);
    parsing.saved_ns = given.waiting.due_to(parsing.time_ns);
    parsing.is_measured = true;
  }
  // A file that the training loop itself reads.
  uint64_t stall_ns = 0;
  for (const analyze::Stall& stall : given.profile.stalls) {
    if (stall.phase == kInTraining && is_reading(given.profile, stall.name))
      stall_ns += stall.stall_ns;
  }
  parsing.time_ns += stall_ns;
  parsing.saved_ns += stall_ns / given.ranks;
  if (parsing.time_ns > 0) return parsing;
  parsing.time_ns = time_at(text.io.bytes_read, kParseBytesPerSecond);
  parsing.saved_ns = std::min(parsing.time_ns / given.ranks, given.waiting.data_ns);
  return parsing;
}

Finding text_parsing_text(const Case& given, const analyze::GroupStats& text,
                          const Parsing& parsing) {
  return {
      .kind = "text parsing",
      .details = fmt::format("{} is parsed every time it is read", given.format.extension),
      .evidence = {at("extensions:" + given.format.extension, "{} were read from {} of {} in total",
                      format_bytes(text.io.bytes_read),
                      counted(text.files, "text file", "text files"),
                      format_bytes(text.size_bytes)),
                   {parsing.is_measured
                        ? fmt::format("reading and parsing them took {} of {} of loading",
                                      duration(parsing.time_ns), duration(given.waiting.work_ns))
                        : fmt::format("parsing them takes {} on one core",
                                      duration(parsing.time_ns)),
                    parsing.is_measured ? "loading" : "extensions:" + given.format.extension}},
      .threshold =
          "5 % of training time: reading numbers as text costs a hundred times as much as copying them",
      .changes =
          {{"pytorch",
            "convert once to a binary format: tables to .npy (np.load(..., mmap_mode='r')) or "
            "Parquet (pyarrow), JSON lines to a binary file with an index; if it fits in memory, "
            "parse it once in Dataset.__init__"},
           {"tf.data", "convert once to TFRecord with tf.train.Example, or .cache() after parsing"},
           {"hdf5", "convert once to a typed, chunked dataset instead of text files"}},
      .gain = {.how = parsing.is_measured
                          ? "the waiting for samples that are read and parsed, minus 5 us for "
                            "each: slicing an array"
                          : "the time to parse at 200 MB/s, at most the waiting for data"}};
}

}  // namespace

Judged judge_text_parsing(const Case& given) {
  const analyze::GroupStats* text = text_files(given);
  if (text == nullptr || reread_file(given) != nullptr) return {};
  // Most of it waits for storage: a binary file would be read as slowly.
  const bool is_slow =
      given.loading.reads > 0 && given.loading.read_ns / given.loading.reads > 10 * kCachedReadNs;
  if (is_slow && 2 * given.loading.read_ns > given.loading.work_ns) return {};
  const Parsing parsing = parsing_of(given, *text);
  if (given.waiting.share(parsing.saved_ns) < kWaitShareMin) return {};
  return less_waiting(given.waiting, parsing.saved_ns, text_parsing_text(given, *text, parsing));
}

}  // namespace millrace::advise
