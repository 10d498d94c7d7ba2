// job-failed: the job did not end well, so that its figures may be of half a run.
#include <fmt/core.h>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/phrases.h"

namespace millrace::advise {

Judged judge_job_failed(const analyze::Profile& profile, const Machine& machine) {
  const analyze::Job& job = profile.job;
  if (job.failed_ranks == 0) return {};
  Finding finding;
  finding.severity = Severity::kProblem;
  finding.title = "the job failed";
  finding.evidence = {
      {job.ranks > 1
           ? fmt::format("{} of {} ended with another exit code than 0, the first with {}",
                         job.failed_ranks, counted(job.ranks, "rank", "ranks"), job.exit_code)
           : fmt::format("it ended with exit code {}", job.exit_code),
       "job.failed_ranks"}};
  finding.threshold = "every rank ends with exit code 0";
  finding.changes =
      Changes(profile, machine)
          .any("look first at what the job printed; judge its speed by a run that ends well")
          .take();
  finding.gain.how = "not known: the figures are of a run that failed";
  return finding;
}

}  // namespace millrace::advise
