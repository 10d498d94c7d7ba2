// job-failed: the job failed, so its numbers may cover only a part of the run.
#include <fmt/core.h>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/text/phrases.h"

namespace millrace::advise {

Judged judge_job_failed(const analyze::Profile& profile, const Machine& machine) {
  const analyze::Job& job = profile.job;
  if (job.failed_ranks == 0) return {};
  Finding finding;
  finding.severity = Severity::kProblem;
  finding.title = "the job failed";
  finding.evidence = {
      {job.ranks > 1
           ? fmt::format("{} of {} ended with a nonzero exit code, the first with {}",
                         job.failed_ranks, counted(job.ranks, "rank", "ranks"), job.exit_code)
           : fmt::format("it ended with exit code {}", job.exit_code),
       "job.failed_ranks"}};
  finding.threshold = "every rank ends with exit code 0";
  finding.changes =
      Changes(profile, machine)
          .any("read the output of the job first; judge its speed from a run that succeeds")
          .take();
  finding.gain.how = "these are the numbers of a failed run";
  return finding;
}

}  // namespace millrace::advise
