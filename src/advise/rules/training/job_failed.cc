// job-failed: the job failed, so its numbers may cover only a part of the run.
#include <fmt/core.h>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "base/text/phrases.h"

namespace millrace::advise {
namespace {

Finding job_failed_text(const Case& given) {
  return {
      .kind = "the job failed",
      .evidence = {{given.job.ranks > 1
                        ? fmt::format("{} of {} ended with a nonzero exit code, the first with {}",
                                      given.job.failed_ranks,
                                      counted(given.job.ranks, "rank", "ranks"),
                                      given.job.exit_code)
                        : fmt::format("it ended with exit code {}", given.job.exit_code),
                    "job.failed_ranks"}},
      .threshold = "every rank ends with exit code 0",
      .changes = {{"any",
                   "read the output of the job first; judge its speed from a run that succeeds"}},
      .gain = {.how = "these are the numbers of a failed run"}};
}

}  // namespace

Judged judge_job_failed(const Case& given) {
  if (given.job.failed_ranks == 0) return {};
  Finding finding = job_failed_text(given);
  finding.severity = Severity::kProblem;
  return finding;
}

}  // namespace millrace::advise
