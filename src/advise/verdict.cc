#include "advise/verdict.h"

#include <fmt/core.h>

#include <algorithm>

#include "advise/loop_loading.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

using analyze::Profile;
using analyze::TimeSplit;

// A share of training time. Less waiting is within the variation between runs.
constexpr double kWaitingShare = 0.05;
// A short job without problems waits up to this for its first batches. More has a cause, even if no
// rule knows it.
constexpr double kMuchWaitingShare = 0.15;

// Says that the time of waiting is the accelerator's idle time, where that is known.
std::string_view with_idle_device(const Profile& profile) {
  return profile.time.compute_basis == analyze::ComputeBasis::kRegions ? "" : ", with the GPU idle";
}

constexpr std::string_view kMarkRegions =
    "; mark regions to measure whether training waits for them";

Seconds seconds_of(const Finding& finding) {
  for (const Rule& rule : rules()) {
    if (rule.name == finding.rule) return rule.seconds;
  }
  return kOfLoading;
}

// The first finding that asks for a change.
const Finding* first_of(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    if (finding.severity != Severity::kNote && finding.rule != "job-failed") return &finding;
  }
  return nullptr;
}

// The largest gain of the finding and of other ways to save the same seconds.
const Gain& largest_gain(const Finding& finding) {
  const bool other =
      !finding.also.empty() && finding.also.front().gain.saved_ns > finding.gain.saved_ns;
  return other ? finding.also.front().gain : finding.gain;
}

// What is known about the job apart from its findings.
struct Measured {
  Answer without;        // the answer if no finding can save time
  std::string sentence;  // its sentence
  bool waits = false;    // training was seen to wait
};

Measured measure(const Profile& profile) {
  const TimeSplit& mean = profile.time.mean;
  const double waiting = mean.wait_share;
  switch (profile.time.basis) {
    case analyze::WaitBasis::kRegions: {
      const bool much = waiting >= kMuchWaitingShare;
      return {.without = much ? Answer::kUnknown : Answer::kNo,
              .sentence = fmt::format("{}: training waits for data {} of its time{}{}",
                                      much ? "unknown" : "no", format_percent(waiting),
                                      with_idle_device(profile),
                                      waiting < kWaitingShare ? "" : ", and no rule found a cause"),
              .waits = waiting >= kWaitingShare};
    }
    case analyze::WaitBasis::kIoTime: {
      const bool little = waiting < kWaitingShare;
      return {.without = little ? Answer::kNo : Answer::kUnknown,
              .sentence = fmt::format("{}: the main process spends {} of its time in I/O calls{}",
                                      little ? "probably not" : "unknown", format_percent(waiting),
                                      kMarkRegions),
              .waits = !little};
    }
    case analyze::WaitBasis::kNone:
      break;
  }
  if (profile.job.events == 0) {
    const std::string why = profile.problems.empty() ? "" : ": " + profile.problems.front();
    return {.without = Answer::kUnknown, .sentence = "nothing was recorded" + why};
  }
  if (mean.io_ns == 0)
    return {.without = Answer::kNo, .sentence = "no: there was no I/O to wait for"};
  return {.without = Answer::kUnknown,
          .sentence = "unknown: the trace does not show when training waits; mark regions"};
}

// The sentence for a finding that costs time.
std::string yes(const Profile& profile, const Finding& finding, const Measured& measured) {
  const TimeSplit& mean = profile.time.mean;
  const std::string waiting = format_percent(mean.wait_share);
  const Gain& most = largest_gain(finding);
  const Seconds seconds = seconds_of(finding);
  const bool is_waiting =
      measured.waits && (seconds & kOfLoading) != 0 && most.saved_ns <= mean.wait_ns;
  switch (profile.time.basis) {
    case analyze::WaitBasis::kRegions:
      if (!is_waiting) {
        return fmt::format("yes: training loses up to {} of its time ({}), and waits for data {}",
                           format_percent(most.share), finding.kind, waiting);
      }
      return fmt::format("yes: training waits for data {} of its time{}{}", waiting,
                         with_idle_device(profile),
                         finding.mostly_for.empty() ? " (" + finding.kind + ")"
                                                    : ", mostly for " + finding.mostly_for);
    case analyze::WaitBasis::kIoTime:
      return fmt::format("probably: the main process spends {} of its time in I/O calls ({}){}",
                         waiting, finding.kind, kMarkRegions);
    case analyze::WaitBasis::kNone:
      break;
  }
  return fmt::format("probably: the job loses up to {} of its time ({})",
                     format_percent(most.share), finding.kind);
}

bool costs_time(const Finding& finding, const Measured& measured) {
  if (largest_gain(finding).saved_ns > 0) return true;
  // The gain is not known, but the waiting is.
  return measured.waits && (seconds_of(finding) & kOfLoading) != 0;
}

}  // namespace

Verdict verdict_of(const Profile& recorded, const std::vector<Finding>& findings) {
  const Profile profile = with_loop_loading(recorded);
  const Measured measured = measure(profile);
  Verdict verdict{.answer = measured.without, .sentence = measured.sentence};
  if (const Finding* first = first_of(findings); first != nullptr) {
    if (costs_time(*first, measured)) {
      verdict = {.answer = Answer::kYes, .sentence = yes(profile, *first, measured)};
    } else {
      verdict.sentence += "; another problem: " + first->kind;
    }
  }
  if (profile.job.failed_ranks > 0) verdict.sentence += "; the job failed";
  return verdict;
}

}  // namespace millrace::advise
