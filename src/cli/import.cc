// The verb `import`: converts a trace of another tool.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/io/directory.h"
#include "base/text/phrases.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "cli/verbs.h"
#include "interop/inputs.h"
#include "interop/interop.h"

namespace millrace::cli {
namespace {

// The given files, and the files in the given directories.
Result<std::vector<std::string>> files_of(const std::vector<std::string>& arguments) {
  std::vector<std::string> files;
  for (const std::string& argument : arguments) {
    std::error_code error;
    if (!std::filesystem::is_directory(argument, error)) {
      files.push_back(argument);
      continue;
    }
    ASSIGN_OR_RETURN(const std::vector<std::string> found, interop::pfw_in(argument));
    if (found.empty()) {
      return fail(Errc::kNotFound, "{}: no .pfw or .pfw.gz files in this directory; give the files",
                  printable(argument));
    }
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

bool is_kineto(const std::string& path) {
  return path.ends_with(".json") || path.ends_with(".json.gz");
}

// Files of torch.profiler, or none of them. Fails for a mixture.
Result<bool> are_kineto(const std::vector<std::string>& files) {
  const auto count = std::count_if(files.begin(), files.end(), is_kineto);
  if (count != 0 && static_cast<size_t>(count) != files.size()) {
    return fail(Errc::kInvalidArgument,
                "{} of {} files are traces of torch.profiler (.json); import them on their own",
                count, files.size());
  }
  return count > 0;
}

// The host of a process in the trace that the directory holds already, if there is any.
interop::HostOfProcess host_in(const std::string& directory) {
  auto opened = interop::open_job({.title = directory, .paths = {directory}});
  if (!opened.ok()) return {};
  std::map<uint32_t, std::string> hosts;
  for (const trace::Process& process : opened->trace.processes()) {
    hosts[process.pid] = opened->trace.sessions()[process.session].host;
  }
  return [hosts](uint32_t pid) {
    const auto found = hosts.find(pid);
    return found == hosts.end() ? std::string() : found->second;
  };
}

// "t/log-1.pfw.gz" becomes "log-1.mrt" in the directory.
std::filesystem::path packed_path(const std::string& directory, const std::string& first) {
  std::string name = std::filesystem::path(first).filename().string();
  for (const std::string_view ending : {".gz", ".pfw", ".json"}) {
    if (name.ends_with(ending)) name.resize(name.size() - ending.size());
  }
  return std::filesystem::path(directory) / ((name.empty() ? "imported" : name) + ".mrt");
}

Result<int> run_import(const Arguments& arguments, Output& output) {
  const auto directory = arguments.value("output");
  ASSIGN_OR_RETURN(const std::vector<std::string> files, files_of(arguments.positionals()));
  RETURN_IF_ERROR(make_directories(*directory));
  std::error_code error;
  const std::filesystem::path path = packed_path(*directory, files.front());
  if (std::filesystem::exists(path, error)) {
    return fail(Errc::kAlreadyExists, "{} already exists; remove it, or choose another directory",
                printable(path.string()));
  }
  ASSIGN_OR_RETURN(const bool kineto, are_kineto(files));
  ASSIGN_OR_RETURN(const interop::ImportReport report,
                   kineto ? interop::import_kineto(files, path.string(), host_in(*directory))
                          : interop::import_pfw(files, path.string()));
  for (const std::string& warning : report.warnings) {
    fmt::print(stderr, "millrace: warning: {}\n", printable(warning));
  }
  output.print(fmt::format("{}: {} of {}, from {} of {} of text\n", printable(path.string()),
                           counted(report.event_count, "event", "events"),
                           counted(report.process_count, "process", "processes"),
                           counted(report.file_count, "file", "files"),
                           format_bytes(report.text_bytes)));
  return kExitSuccess;
}

}  // namespace

Command import_command() {
  return {
      .name = "import",
      .summary = "convert traces of DFTracer (.pfw) and torch.profiler (.json)",
      .description =
          "Reads traces written by DFTracer, of both generations (ph \"X\", and 2.x), plain or "
          "compressed, and writes one *.mrt file into a directory, which all other verbs accept. "
          "Give all files of a job at once, or their directory: files of child processes refer to "
          "names in the files of their parents.\n\n"
          "A file truncated by a kill or a full disk is read up to that point, with a warning. "
          "Calls that Millrace does not know are kept as regions, tagged with their category; "
          "arguments without a column are kept as tags.\n\n"
          "A trace of torch.profiler (export_chrome_trace: .json, .json.gz) adds what the GPU did, "
          "kernels and copies, to the trace of the same process: give its directory as the output.",
      .options = {required(
          output_option(ValueKind::kDirectory, "directory for the trace; created if missing"))},
      .positionals = {{.name = "FILE",
                       .help =
                           ".pfw and .pfw.gz files, or directories of them; or .json and .json.gz "
                           "files of torch.profiler",
                       .kind = ValueKind::kFile,
                       .repeatable = true}},
      .examples = {{"millrace import logs/*.pfw.gz -o t", "one trace from the files of a job"},
                   {"millrace import logs -o t && millrace export t --to perfetto -o "
                    "t.perfetto-trace",
                    "from DFTracer to Perfetto"},
                   {"millrace import profile.json.gz -o t",
                    "add the GPU's kernels to the trace t"}},
      .run = run_import,
  };
}

}  // namespace millrace::cli
