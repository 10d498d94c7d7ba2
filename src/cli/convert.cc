// The verb `convert`: writes files of samples in another format.
#include "format/convert.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "base/system/progress.h"
#include "base/text/phrases.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "cli/options/sample_options.h"
#include "cli/verbs.h"

namespace millrace::cli {
namespace {

std::vector<std::string> words_of(const std::vector<std::string>& lists) {
  std::vector<std::string> words;
  for (const std::string& list : lists) {
    for (size_t from = 0; from <= list.size();) {
      const size_t end = std::min(list.find(',', from), list.size());
      if (end > from) words.push_back(list.substr(from, end - from));
      from = end + 1;
    }
  }
  return words;
}

Result<int> run_convert(const Arguments& arguments, Output& output) {
  const std::vector<std::string>& paths = arguments.positionals();
  format::ConvertOptions options;
  ASSIGN_OR_RETURN(options.from, samples_of(arguments, {paths.begin(), paths.end() - 1}));
  options.to = *arguments.value("to");
  options.destination = paths.back();
  options.samples_per_file = count_of(arguments, "samples-per-file", 0);
  options.fields = words_of(arguments.values("fields"));
  options.verify = arguments.has("verify");
  options.thread_count = count_of(arguments, "threads", 0);
  // No digit of a number in text is lost on its way to another format, but TFRecord has no float64.
  const bool has_doubles = !options.to.starts_with("tfrecord");
  options.from.format_options.text_float =
      has_doubles ? data::ElementType::kF64 : data::ElementType::kF32;
  options.to_options.text_float = data::ElementType::kF64;
  options.to_options.rows = true;
  if (const auto size = arguments.value("to-record-bytes")) {
    ASSIGN_OR_RETURN(options.to_options.record_bytes, parse_bytes(*size));
  }
  std::optional<Progress> progress;
  options.begin = [&](uint64_t count) {
    progress.emplace(Progress::Options{.label = "converting", .total = count});
  };
  options.done_sample = [&] { progress->add(1); };
  ASSIGN_OR_RETURN(const format::ConvertReport report, format::convert_files(options));
  progress.reset();
  output.print(fmt::format("{}: {} in {} of {}, {}{}\n", printable(options.destination.string()),
                           counted(report.sample_count, "sample", "samples"),
                           counted(report.files.size(), "file", "files"), options.to,
                           format_bytes(report.size_bytes),
                           options.verify ? ", read back and equal" : ""));
  return kExitSuccess;
}

}  // namespace

Command convert_command() {
  const std::vector<Option> options = {
      {.name = "to",
       .value = "FORMAT",
       .help = "format of the new files",
       .choices = format::format_names(),
       .required = true},
      {.name = "fields",
       .value = "NAMES",
       .help = "only these fields, separated by commas",
       .repeatable = true},
      count_option("samples-per-file", "put this number of samples into each new file"),
      {.name = "verify", .help = "read the new files back and compare all samples"},
      size_option("to-record-bytes", "raw: length of each new record"),
      count_option("threads", "files written at once; by default one per CPU")};
  return {
      .name = "convert",
      .summary = "write files of samples in another format",
      .description =
          "Reads samples of any format that the loader reads, and writes them in another. If DST "
          "has an extension of the new format, it is one file. Otherwise it is a directory with "
          "one new file per source file, or with files of --samples-per-file samples.\n\n"
          "Numbers and text keep their values. A format without types (raw, indexed) keeps the "
          "bytes of one field; choose it with --fields. In a tar, arrays become npy members. "
          "Files appear only when all of them are complete, and existing files are never replaced. "
          "docs/guide/formats.md lists what each format can hold.",
      .options = joined({options, sample_options()}),
      .positionals = {{.name = "SRC",
                       .help = "files of one format, or a directory of them",
                       .kind = ValueKind::kFile,
                       .repeatable = true},
                      {.name = "DST",
                       .help = "the new file or directory",
                       .kind = ValueKind::kFile}},
      .examples =
          {{"millrace convert train.csv train.tfrecord --to tfrecord --verify",
            "one file, compared with its source"},
           {"millrace convert shards/ fast/ --format tar --to indexed --fields jpg",
            "only the images of all shards"},
           {"millrace convert arrays/ shards/ --format npz --to tar --samples-per-file 1000",
            "many small files into a few large ones"}},
      .run = run_convert,
  };
}

}  // namespace millrace::cli
