#include "interop/inputs.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/io/file.h"
#include "base/io/input_file.h"
#include "base/text/text.h"
#include "interop/interop.h"

namespace millrace::interop {
namespace {

namespace fs = std::filesystem;

bool is_pfw(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.ends_with(".pfw") || name.ends_with(".pfw.gz");
}

bool has_own_traces(const std::string& directory) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".mrt" || entry.is_directory(error)) return true;
  }
  return false;
}

}  // namespace

Result<std::vector<std::string>> pfw_in(const std::string& directory) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (is_pfw(entry.path())) found.push_back(entry.path().string());
  }
  if (error) return fail_os(error.value(), "cannot list").within(printable(directory));
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<JobPaths> jobs_of(const std::vector<std::string>& paths, bool one_job) {
  std::vector<JobPaths> jobs;
  JobPaths files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!one_job && fs::is_directory(path, error)) {
      jobs.push_back({.title = path, .paths = {path}});
    } else {
      files.paths.push_back(path);
    }
  }
  if (!files.paths.empty()) {
    files.title = files.paths.front();
    if (files.paths.size() > 1) files.title += fmt::format(" and {} more", files.paths.size() - 1);
    jobs.push_back(std::move(files));
  }
  return jobs;
}

JobFiles files_of(const JobPaths& job) {
  JobFiles files;
  for (const std::string& path : job.paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      (is_pfw(path) ? files.pfw : files.traces).push_back(path);
      continue;
    }
    // A directory that cannot be listed is reported when it is opened as a trace.
    auto listed = pfw_in(path);
    const auto found = listed.ok() ? *std::move(listed) : std::vector<std::string>();
    files.pfw.insert(files.pfw.end(), found.begin(), found.end());
    // A directory with only DFTracer's files is not a trace of ours, but not an error.
    if (found.empty() || has_own_traces(path)) files.traces.push_back(path);
  }
  return files;
}

Result<std::string> import_job(const std::vector<std::string>& pfw, const std::string& directory,
                               std::vector<std::string>& problems) {
  std::vector<std::string> usable;
  for (const std::string& path : pfw) {
    // A file that cannot be opened would fail the whole import.
    if (const auto file = open_input(path); !file.ok()) {
      problems.push_back(file.error().message());
    } else {
      usable.push_back(path);
    }
  }
  const std::string packed = directory + "/imported.mrt";
  auto report = import_pfw(usable, packed);
  if (report.ok()) {
    for (std::string& warning : report->warnings) problems.push_back(std::move(warning));
    return packed;
  }
  problems.push_back(report.error().message());
  return fail(Errc::kCorrupt, "{}", fmt::join(problems, "; "));
}

Result<OpenedJob> open_job(const JobPaths& job) {
  JobFiles files = files_of(job);
  std::vector<std::string> problems = std::move(files.problems);
  std::optional<TemporaryDirectory> imported;
  if (!files.pfw.empty()) {
    ASSIGN_OR_RETURN(imported, TemporaryDirectory::create());
    auto packed = import_job(files.pfw, imported->path().string(), problems);
    if (packed.ok()) files.traces.push_back(*std::move(packed));
    if (!packed.ok() && files.traces.empty()) return std::move(packed).error();
  }
  ASSIGN_OR_RETURN(trace::Trace trace, trace::Trace::open_all(files.traces));
  return OpenedJob{.title = job.title,
                   .trace = std::move(trace),
                   .problems = std::move(problems),
                   .imported = std::move(imported)};
}

}  // namespace millrace::interop
