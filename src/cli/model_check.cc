#include "cli/model_check.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/io/atomic_file.h"
#include "base/io/temporary_directory.h"
#include "base/system/subprocess.h"
#include "base/text/text.h"
#include "cli/options/inputs.h"
#include "comm/single.h"

namespace millrace::cli {
namespace {

constexpr std::chrono::hours kGenerationMax{12};
constexpr std::chrono::minutes kRunMin{10};
constexpr int kSlowerMax = 20;  // than the job; more is a hang

std::string last_line(std::string_view text) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  const size_t newline = text.rfind('\n');
  return printable(newline == std::string_view::npos ? text : text.substr(newline + 1));
}

Status run_program(const std::vector<std::string>& words, std::chrono::milliseconds timeout) {
  ASSIGN_OR_RETURN(const SubprocessResult result,
                   run_subprocess(words, {.timeout = timeout}).within("the run of the model"));
  if (result.exit_code == 0) return {};
  return fail(Errc::kIo, "`millrace bench` failed with exit code {}: {}", result.exit_code,
              last_line(result.output));
}

// The command `bench`, with folders of its own.
std::vector<std::string> bench_words(const ModelRun& run, const std::string& program,
                                     const std::filesystem::path& folder) {
  std::vector<std::string> words = {
      program,
      "bench",
      (folder / "workload.yaml").string(),
      "--output",
      (folder / "results").string(),
      fmt::format("dataset.data_folder={}", (folder / "data").string()),
      fmt::format("checkpoint.checkpoint_folder={}", (folder / "checkpoints").string())};
  if (!run.scale.empty()) words.insert(words.end(), {"--scale", run.scale});
  if (run.ranks > 1) words.insert(words.end(), {"--accelerators", std::to_string(run.ranks)});
  return words;
}

}  // namespace

Result<analyze::Profile> profile_of_model(const ModelRun& run) {
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return fail_os(error.value(), "cannot find this program");
  ASSIGN_OR_RETURN(const TemporaryDirectory folder,
                   TemporaryDirectory::create(run.parent, "millrace-model-"));
  RETURN_IF_ERROR(
      write_file_atomically(folder.path() / "workload.yaml", bytes_of(std::string_view(run.yaml))));
  std::vector<std::string> generate = bench_words(run, program, folder.path());
  generate.insert(generate.end(), {"--generate", "workflow.train=false",
                                   "workflow.evaluation=false", "workflow.checkpoint=false"});
  RETURN_IF_ERROR(run_program(generate, kGenerationMax));
  const std::string trace = (folder.path() / "trace").string();
  std::vector<std::string> words = {program, "trace", "-o", trace, "--"};
  const std::vector<std::string> bench = bench_words(run, program, folder.path());
  words.insert(words.end(), bench.begin(), bench.end());
  const auto job = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::nanoseconds(static_cast<int64_t>(run.wall_ns)));
  RETURN_IF_ERROR(
      run_program(words, std::max<std::chrono::milliseconds>(kSlowerMax * job, kRunMin)));
  // Under mpirun, the other ranks are done by now.
  return profile_at(trace, Arguments(), *comm::single(), {.all_steps = true});
}

}  // namespace millrace::cli
