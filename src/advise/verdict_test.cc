#include "advise/verdict.h"

#include <gtest/gtest.h>

namespace millrace::advise {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

// A job of 100 s whose ranks wait for `wait_s` of it.
analyze::Profile waiting_for(uint64_t wait_s) {
  analyze::Profile profile;
  profile.job.events = 1;
  profile.job.wall_ns = 100 * kSecond;
  profile.time.basis = analyze::WaitBasis::kRegions;
  profile.time.mean.wall_ns = profile.time.mean.training_ns = 100 * kSecond;
  profile.time.mean.wait_ns = wait_s * kSecond;
  profile.time.mean.wait_share = static_cast<double>(wait_s) / 100;
  return profile;
}

Finding finding(std::string rule, std::string kind, uint64_t saved_s,
                Severity severity = Severity::kProblem) {
  Finding made;
  made.rule = std::move(rule);
  made.kind = std::move(kind);
  made.details = "as far as is known: 16 KiB on average";
  made.severity = severity;
  made.gain = {.saved_ns = saved_s * kSecond, .share = static_cast<double>(saved_s) / 100};
  return made;
}

std::string sentence(const analyze::Profile& profile, const std::vector<Finding>& findings) {
  return verdict_of(profile, findings).sentence;
}

TEST(Verdict, IsNoWithoutFindings) {
  const Verdict verdict = verdict_of(waiting_for(2), {});
  EXPECT_EQ(verdict.answer, Answer::kNo);
  EXPECT_EQ(verdict.sentence, "no: training waits for data 2.0 % of its time");
}

TEST(Verdict, SaysThatNoRuleExplainsTheWaiting) {
  EXPECT_EQ(verdict_of(waiting_for(12), {}).answer, Answer::kNo);
  EXPECT_EQ(sentence(waiting_for(12), {}),
            "no: training waits for data 12.0 % of its time, and no rule found a cause");
  EXPECT_EQ(verdict_of(waiting_for(56), {}).answer, Answer::kUnknown);
  EXPECT_EQ(sentence(waiting_for(56), {}),
            "unknown: training waits for data 56.0 % of its time, and no rule found a cause");
}

TEST(Verdict, NotesDoNotChangeIt) {
  const Finding note = finding("small-reads", "small reads", 0, Severity::kNote);
  EXPECT_EQ(sentence(waiting_for(2), {note}), sentence(waiting_for(2), {}));
}

TEST(Verdict, IsYesWithTheWaitingAndTheFirstFinding) {
  const Verdict verdict =
      verdict_of(waiting_for(42), {finding("small-reads", "small reads", 31),
                                   finding("little-prefetch", "batches are not prefetched", 12)});
  EXPECT_EQ(verdict.answer, Answer::kYes);
  EXPECT_EQ(verdict.sentence, "yes: training waits for data 42.0 % of its time (small reads)");
}

TEST(Verdict, DecodingIsAKindOfWaiting) {
  Finding decoding = finding("decode-bound", "slow decoding", 21);
  decoding.mostly_for = "decoding and transforming";
  EXPECT_EQ(
      sentence(waiting_for(42), {decoding}),
      "yes: training waits for data 42.0 % of its time, mostly for decoding and transforming");
}

TEST(Verdict, NamesTimeThatIsLostOutsideOfWaiting) {
  const Finding stall = finding("checkpoint-stall", "checkpoint stall", 20);
  EXPECT_EQ(
      sentence(waiting_for(30), {stall}),
      "yes: training loses up to 20.0 % of its time (checkpoint stall), and waits for data 30.0 %");
  const Finding storm = finding("metadata-storm", "metadata storm", 40);
  EXPECT_EQ(
      sentence(waiting_for(30), {storm}),
      "yes: training loses up to 40.0 % of its time (metadata storm), and waits for data 30.0 %");
}

TEST(Verdict, TheBestOfSeveralWaysCounts) {
  Finding opens = finding("repeated-opens", "a file is opened often", 0);
  opens.also = {finding("metadata-storm", "metadata storm", 40)};
  EXPECT_EQ(sentence(waiting_for(1), {opens}),
            "yes: training loses up to 40.0 % of its time (a file is opened often), and waits for "
            "data 1.0 %");
}

TEST(Verdict, AWarningWithoutAGainIsAnotherProblem) {
  const Finding order = finding("no-shuffle", "no shuffle", 0, Severity::kWarning);
  const Verdict verdict = verdict_of(waiting_for(2), {order});
  EXPECT_EQ(verdict.answer, Answer::kNo);
  EXPECT_EQ(verdict.sentence,
            "no: training waits for data 2.0 % of its time; another problem: no shuffle");
}

TEST(Verdict, AGainThatCannotBeEstimatedIsStillYesIfTrainingWaits) {
  EXPECT_EQ(sentence(waiting_for(42), {finding("unaligned-direct", "unaligned transfers", 0)}),
            "yes: training waits for data 42.0 % of its time (unaligned transfers)");
}

TEST(Verdict, AFailureIsPartOfTheSentence) {
  analyze::Profile profile = waiting_for(2);
  profile.job.failed_ranks = 1;
  EXPECT_EQ(sentence(profile, {finding("job-failed", "the job failed", 0)}),
            "no: training waits for data 2.0 % of its time; the job failed");
}

TEST(Verdict, IsCarefulWithoutRegions) {
  analyze::Profile profile = waiting_for(42);
  profile.time.basis = analyze::WaitBasis::kIoTime;
  EXPECT_EQ(verdict_of(profile, {}).answer, Answer::kUnknown);
  EXPECT_EQ(sentence(profile, {}),
            "unknown: the main process spends 42.0 % of its time in I/O calls; mark regions to "
            "measure whether training waits for them");
  EXPECT_EQ(sentence(profile, {finding("small-reads", "small reads", 31)}),
            "probably: the main process spends 42.0 % of its time in I/O calls (small reads); mark "
            "regions to measure whether training waits for them");
  profile.time.mean.wait_share = 0.02;
  EXPECT_TRUE(sentence(profile, {}).starts_with("probably not: the main process spends 2.0 %"));
}

TEST(Verdict, SaysThatNothingWasRecorded) {
  analyze::Profile profile;
  EXPECT_EQ(sentence(profile, {}), "nothing was recorded");
  profile.problems = {"t/a.mrt is empty"};
  EXPECT_EQ(verdict_of(profile, {}).answer, Answer::kUnknown);
  EXPECT_EQ(sentence(profile, {}), "nothing was recorded: t/a.mrt is empty");
  profile.job.events = 1;
  EXPECT_EQ(sentence(profile, {}), "no: there was no I/O to wait for");
}

}  // namespace
}  // namespace millrace::advise
