#include "advise/trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/findings_json.h"
#include "advise/findings_text.h"

namespace millrace::advise {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr uint64_t kMs = 1'000'000;

Trial some_trial() {
  return {.directory = "/data",
          .file_count = 100,
          .dataset_count = 5000,
          .size_bytes = 1 << 20,
          .call_count = 300,
          .recorded_ns = 90 * kMs,
          .files = {.cold_ns = 100 * kMs, .hot_ns = 20 * kMs},
          .store = {.cold_ns = 40 * kMs, .hot_ns = 10 * kMs},
          .notes = {"names stay"},
          .gain = {.saved_ns = 2000 * kMs, .share = 0.25, .how = "measured"}};
}

TEST(Trial, TheJobWasColdIfItsCallsTookAsLong) {
  Trial trial = some_trial();
  EXPECT_TRUE(was_cold(trial));
  trial.recorded_ns = 15 * kMs;
  EXPECT_FALSE(was_cold(trial));
  trial.recorded_ns = 90 * kMs;
  trial.files.cold_ns = 0;  // the files are in memory
  EXPECT_FALSE(was_cold(trial));
}

TEST(Trial, AStoreThatIsSlowerSavesNothing) {
  Trial trial = some_trial();
  trial.store = {.cold_ns = 500 * kMs, .hot_ns = 500 * kMs};
  EXPECT_EQ(measured_gain(analyze::Profile(), trial).saved_ns, 0u);
  trial.gain = {};
  EXPECT_THAT(trial_text(trial, {}), HasSubstr("would save nothing"));
}

TEST(Trial, OnlyFindingsThatTheStoreCuresGetTheGain) {
  std::vector<Finding> findings(2);
  findings[0].rule = "other";
  findings[1].rule = "cured";
  findings[1].changes = {{"pytorch", "something"}, {"store", "millrace store pack"}};
  findings[1].also.resize(1);
  findings[1].also[0].changes = {{"store", "millrace store pack"}};
  EXPECT_EQ(add_trial(some_trial(), findings), 2u);
  EXPECT_FALSE(findings[0].tried);
  ASSERT_TRUE(findings[1].tried);
  EXPECT_EQ(findings[1].tried->saved_ns, 2000 * kMs);
  EXPECT_TRUE(findings[1].also[0].tried);
  EXPECT_THAT(
      findings_text({}, findings, {}, {}),
      HasSubstr("tried   millrace store would save 2 s, 25.0 % of the wall time: measured"));
}

TEST(Trial, TextAndJsonHaveWhatWasMeasured) {
  Trial trial = some_trial();
  const Terminal wide{.columns = 200};
  const std::string text = trial_text(trial, wide);
  EXPECT_THAT(text,
              HasSubstr("tried     100 files of 1 MiB in /data, of 5,000 that the job read: 300 "
                        "calls, which took 90 ms in the job\n"));
  EXPECT_THAT(text, HasSubstr("cold: 100 ms from the files, 40 ms from the store: 2.5 times"));
  EXPECT_THAT(text, HasSubstr("hot: 20 ms from the files, 10 ms from the store: 2 times"));
  EXPECT_THAT(text, HasSubstr("names stay\n"));
  EXPECT_THAT(findings_json({}, {}, {}, &trial), HasSubstr(R"("job_was": "cold")"));
  EXPECT_THAT(findings_json({}, {}, {}), Not(HasSubstr("tried")));
  trial.files.cold_ns = 0;
  EXPECT_THAT(trial_text(trial, wide), Not(HasSubstr("cold:")));
}

}  // namespace
}  // namespace millrace::advise
