#include "model/model.h"

#include <algorithm>
#include <cctype>

#include "base/text/phrases.h"
#include "base/text/text.h"
#include "model/counts.h"
#include "model/derive.h"
#include "model/sheet.h"

namespace millrace::model {
namespace {

using analyze::Profile;

// "train" for "python3 -u jobs/train.py --epochs 3"; "job" if there is no such word.
std::string name_of_command(const std::string& command) {
  constexpr std::string_view kPython = ".py";
  size_t begin = 0;
  std::string chosen;
  while (begin < command.size()) {
    const size_t end = std::min(command.find(' ', begin), command.size());
    const std::string word = command.substr(begin, end - begin);
    const bool is_script = word.ends_with(kPython);
    if (is_script || chosen.empty()) chosen = word;
    if (is_script) break;
    begin = end + 1;
  }
  const size_t slash = chosen.rfind('/');
  if (slash != std::string::npos) chosen = chosen.substr(slash + 1);
  if (chosen.ends_with(kPython)) chosen.resize(chosen.size() - kPython.size());
  return chosen;
}

std::string cleaned(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const bool is_kept = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
    out += is_kept ? c : '_';
  }
  return out.empty() ? "job" : out;
}

void set_name(const Profile& profile, const ModelOptions& options, Sheet& sheet) {
  bench::Workload& workload = sheet.workload();
  workload.name =
      cleaned(options.name.empty() ? name_of_command(profile.job.command) : options.name);
  workload.description =
      fmt::format("{}: the I/O of `{}`", workload.name, printable(profile.job.command));
  sheet.set("model.name", workload.model.name, workload.name, "the command of the job");
}

void set_framework(const Profile& profile, Sheet& sheet) {
  if (const auto framework = bench::named<bench::Framework>(profile.job.framework)) {
    sheet.set("framework", sheet.workload().framework, *framework, "libraries that the job loaded");
  } else {
    sheet.assume("framework", sheet.workload().framework, bench::Framework::kPytorch,
                 "no framework was found");
  }
}

void set_workflow(const Evidence& evidence, size_t checkpoints, Sheet& sheet) {
  bench::WorkflowConfig& workflow = sheet.workload().workflow;
  sheet.set("workflow.train", workflow.train, true, "");
  if (evidence.counts.eval_passes > 0 && sheet.workload().dataset.num_files_eval > 0) {
    sheet.set("workflow.evaluation", workflow.evaluation, true,
              counted(evidence.counts.eval_passes, "evaluation", "evaluations"));
  }
  if (checkpoints > 0) {
    sheet.set("workflow.checkpoint", workflow.checkpoint, true,
              counted(checkpoints, "checkpoint", "checkpoints"));
  }
}

void set_ranks(const Evidence& evidence, Sheet& sheet) {
  const analyze::Job& job = evidence.profile.job;
  sheet.set_ranks(evidence.counts.ranks);
  if (job.lost_events > 0) {
    sheet.missing(
        fmt::format("{} could not be recorded.", counted(job.lost_events, "event", "events")));
  }
  if (job.failed_ranks > 0) sheet.missing("The job failed: the trace may end early.");
  if (evidence.counts.eval_passes > 0 && sheet.workload().dataset.num_files_eval == 0) {
    sheet.missing(fmt::format("{}: the trace does not show on which files.",
                              counted(evidence.counts.eval_passes, "evaluation", "evaluations")));
  }
}

}  // namespace

Result<Modelled> model_of(const Profile& profile, const ModelOptions& options) {
  const Counts counts = counts_of(profile);
  const DataFiles files = data_files_of(profile, counts);
  if (files.empty() && counts.steps == 0 && profile.checkpoints.empty()) {
    return fail(Errc::kInvalidArgument,
                "the job read no data files, made no steps and wrote no checkpoints: there is "
                "nothing to model");
  }
  const Evidence evidence{.profile = profile, .counts = counts, .files = files};
  Sheet sheet;
  set_name(profile, options, sheet);
  set_framework(profile, sheet);
  derive_dataset(evidence, sheet);
  derive_reader(evidence, sheet);
  derive_training(evidence, sheet);
  if (sheet.workload().dataset.num_files_eval > 0) derive_evaluation(evidence, sheet);
  set_workflow(evidence, derive_checkpoints(evidence, sheet), sheet);
  set_ranks(evidence, sheet);
  return sheet.take();
}

}  // namespace millrace::model
