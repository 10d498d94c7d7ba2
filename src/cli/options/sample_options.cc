#include "cli/options/sample_options.h"

#include <filesystem>

#include "base/io/input_file.h"
#include "base/text/text.h"
#include "base/text/units.h"

namespace millrace::cli {
namespace {

namespace fs = std::filesystem;

// Megatron's .bin has an .idx file next to it; raw's does not.
bool is_megatron(const fs::path& path) {
  std::error_code ignored;
  return path.extension() == ".bin" &&
         fs::is_regular_file(fs::path(path).replace_extension(".idx"), ignored);
}

}  // namespace

std::vector<Option> sample_options() {
  return {
      {.name = "format",
       .value = "FORMAT",
       .help = "format of the files; by default from their names",
       .choices = format::format_names()},
      size_option("record-bytes", "raw: length of each record"),
      {.name = "rows", .help = "npy: each row is a sample"},
      {.name = "header",
       .value = "WHICH",
       .help = "csv: whether the first row names the columns",
       .choices = {"yes", "no", "detect"}},
      count_option("window-tokens", "megatron: a sample is this number of tokens and the next")};
}

Result<format::FilesOptions> samples_of(const Arguments& arguments,
                                        const std::vector<std::string>& paths) {
  format::FilesOptions options;
  std::error_code ignored;
  if (paths.size() == 1 && fs::is_directory(paths.front(), ignored)) {
    options.directory = paths.front();
  } else {
    options.paths.assign(paths.begin(), paths.end());
  }
  for (const auto& path : options.paths) {
    if (!fs::is_fifo(path, ignored)) continue;  // some formats would wait for it
    RETURN_IF_ERROR(open_input(path));
  }
  options.format = arguments.value("format").value_or("");
  if (options.format.empty() && !options.paths.empty() && is_megatron(options.paths.front())) {
    options.format = "megatron";
  }
  format::FormatOptions& how = options.format_options;
  if (const auto size = arguments.value("record-bytes")) {
    ASSIGN_OR_RETURN(how.record_bytes, parse_bytes(*size));
  }
  how.rows = arguments.has("rows");
  how.window_tokens = count_of(arguments, "window-tokens", 0);
  const std::string header = arguments.value("header").value_or("detect");
  if (header == "yes") how.header = format::HeaderRow::kYes;
  if (header == "no") how.header = format::HeaderRow::kNo;
  return options;
}

}  // namespace millrace::cli
