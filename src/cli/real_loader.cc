#include "cli/real_loader.h"

#include <fmt/core.h>

#include <cstdlib>

#include "base/io/atomic_file.h"
#include "base/io/temporary_directory.h"
#include "base/system/own_library.h"
#include "base/system/subprocess.h"
#include "base/text/json.h"
#include "base/text/json_writer.h"
#include "base/text/table.h"
#include "base/text/units.h"
#include "bench/generate/layout.h"
#include "cli/options/command.h"

namespace millrace::cli {
namespace {

using bench::Layout;
using bench::Split;
using bench::Workload;

std::string job_json(const Workload& workload, const Layout& layout) {
  JsonWriter json;
  json.begin_object();
  json.field("format", name_of(workload.dataset.format));
  json.field("samples_per_file", layout.samples_per_file());
  const bool are_equal = layout.has_equal_files() && layout.file_count(Split::kTrain) > 0;
  json.field("file_bytes", are_equal ? layout.payload_bytes({Split::kTrain, 0}) : 0);
  json.field("batch_size", workload.reader.batch_size);
  json.field("read_threads", workload.reader.read_threads);
  json.field("prefetch_size", workload.reader.prefetch_size);
  json.field("shuffle", workload.reader.sample_shuffle != bench::Shuffle::kOff ||
                            workload.reader.file_shuffle != bench::Shuffle::kOff);
  json.field("seed", workload.train.seed);
  json.field("epochs", workload.train.epochs);
  json.field("steps", workload.train.total_training_steps);
  json.field("compute_seconds", workload.train.computation_time.first);
  json.field("exclude_start_steps", workload.output.exclude_start_steps);
  json.key("paths");
  json.begin_list();
  for (uint64_t i = 0; i < layout.file_count(Split::kTrain); ++i) {
    json.value(layout.path({Split::kTrain, i}));
  }
  json.end_list();
  json.end_object();
  return std::move(json).finish();
}

// The package of the build tree goes before an installed one, as the program does.
std::string python_path() {
  const char* const others = std::getenv("PYTHONPATH");
  const std::string own = (own_folder() / "../python").lexically_normal().string();
  return others == nullptr ? own : fmt::format("{}:{}", own, others);
}

// The last line, which is the result; libraries may print before it.
std::string_view last_line(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  const size_t newline = text.rfind('\n');
  return newline == std::string_view::npos ? text : text.substr(newline + 1);
}

double number(const Node& object, std::string_view name) {
  const Node* const node = object.find(name);
  if (node == nullptr) return 0;
  const auto value = node->as_double();
  return value.ok() ? *value : 0;
}

std::string passes_text(const Node& root, const Terminal& terminal) {
  using enum Table::Align;
  Table table({{"epoch"},
               {"steps", kRight},
               {"utilisation", kRight},
               {"samples/s", kRight},
               {"first batch", kRight},
               {"time", kRight}});
  for (const Node& pass : root.find("passes")->items()) {
    const auto first =
        std::chrono::nanoseconds(static_cast<int64_t>(number(pass, "first_batch_seconds") * 1e9));
    table.add_row({fmt::format("{:.0f}", number(pass, "epoch")),
                   format_exact(static_cast<uint64_t>(number(pass, "steps"))),
                   fmt::format("{:.1f} %", number(pass, "au") * 100),
                   format_count(number(pass, "samples_per_second")), format_duration(first),
                   fmt::format("{:.1f} s", number(pass, "seconds"))});
  }
  return table.render(terminal);
}

}  // namespace

Result<int> run_real_loader(const Workload& workload, bool as_json, Output& output) {
  ASSIGN_OR_RETURN(const Layout layout, Layout::of(workload));
  ASSIGN_OR_RETURN(const TemporaryDirectory folder, TemporaryDirectory::create());
  const std::filesystem::path job = folder.path() / "job.json";
  RETURN_IF_ERROR(write_file_atomically(job, bytes_of(job_json(workload, layout)), 0600));
  const char* const chosen = std::getenv("MILLRACE_PYTHON");
  ASSIGN_OR_RETURN(const auto result,
                   run_subprocess({chosen != nullptr ? chosen : "python3", "-m",
                                   "millrace.bench.torch_loader", job.string()},
                                  {.timeout = std::chrono::hours(24),
                                   .output_limit_bytes = size_t{16} << 20,
                                   .environment = {{"PYTHONPATH", python_path()}}}));
  if (result.exit_code != 0) {
    return fail(Errc::kIo, "PyTorch's loader failed:\n{}", result.output);
  }
  ASSIGN_OR_RETURN(const Document document,
                   parse_json(last_line(result.output), "the result of PyTorch's loader"));
  const Node* const loader = document.root.find("loader");
  if (loader == nullptr || document.root.find("passes") == nullptr) {
    return fail(Errc::kCorrupt, "PyTorch's loader printed no result:\n{}", result.output);
  }
  output.print(as_json ? std::string(last_line(result.output)) + "\n"
                       : fmt::format("{}: {}\n\n{}", workload.name, loader->text(),
                                     passes_text(document.root, output.terminal())));
  return kExitSuccess;
}

}  // namespace millrace::cli
