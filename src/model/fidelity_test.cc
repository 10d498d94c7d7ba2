#include "model/fidelity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::model {
namespace {

using testing::HasSubstr;

analyze::Profile job(uint64_t read_size, double wait_ns, double compute_ns) {
  analyze::Profile profile;
  profile.job.ranks = 1;
  profile.job.epochs = 1;
  profile.job.steps = 10;
  profile.job.dataset_bytes_read = 80 * read_size;
  profile.loading.batches = 10;
  profile.loading.samples = 80;
  profile.loading.threads = 2;
  profile.data_reads.counts.count = 80;
  profile.data_reads.sizes.add(read_size, 80);
  profile.steps.duration_ns.count = 10;
  profile.steps.wait_ns = {.count = 10, .mean = wait_ns};
  profile.steps.compute_ns = {.count = 10, .mean = compute_ns};
  profile.data.order = analyze::ReadOrder::kShuffled;
  return profile;
}

const Measure& measure(const Fidelity& fidelity, std::string_view name) {
  for (const Measure& each : fidelity.measures) {
    if (each.name == name) return each;
  }
  static const Measure kNone{.name = "missing"};
  return kNone;
}

TEST(Fidelity, AJobIsAPerfectModelOfItself) {
  const analyze::Profile profile = job(65536, 1e6, 30e6);
  const Fidelity fidelity = fidelity_of(profile, profile);
  EXPECT_EQ(fidelity.close_count(), fidelity.measures.size());
  EXPECT_GT(fidelity.measures.size(), 8u);
}

TEST(Fidelity, RatiosSayHowFarTheModelIs) {
  const Fidelity fidelity = fidelity_of(job(65536, 10e6, 30e6), job(131072, 10e6, 70e6));
  EXPECT_NEAR(*measure(fidelity, "size of a read, median").ratio(), 2, 1e-9);
  EXPECT_NEAR(*measure(fidelity, "time of a step, mean").ratio(), 2, 1e-9);
  EXPECT_NEAR(*measure(fidelity, "wait of a step, mean").ratio(), 1, 1e-9);
  EXPECT_NEAR(measure(fidelity, "share of waiting in steps").original, 0.25, 1e-9);
  EXPECT_NEAR(measure(fidelity, "share of waiting in steps").model, 0.125, 1e-9);
  EXPECT_FALSE(measure(fidelity, "share of waiting in steps").is_close());
  EXPECT_TRUE(measure(fidelity, "samples in a batch").is_close());
}

TEST(Fidelity, ComparesTheOrderAsText) {
  analyze::Profile model = job(65536, 1e6, 30e6);
  model.data.order = analyze::ReadOrder::kSequential;
  const Fidelity fidelity = fidelity_of(job(65536, 1e6, 30e6), model);
  const Measure& order = measure(fidelity, "order of the samples");
  EXPECT_EQ(order.original_text, "shuffled");
  EXPECT_EQ(order.model_text, "sequential");
  EXPECT_FALSE(order.is_close());
}

TEST(Fidelity, AValueThatTheOriginalLacksHasNoRatio) {
  const Measure wait{.name = "wait", .unit = Unit::kTime, .original = 0, .model = 5};
  EXPECT_EQ(wait.ratio(), std::nullopt);
  EXPECT_FALSE(wait.is_close());
}

TEST(Fidelity, EmptyProfilesCanBeCompared) {
  const Fidelity fidelity = fidelity_of({}, {});
  EXPECT_EQ(fidelity.measures.size(), 1u) << "the order";
}

TEST(Fidelity, TheTableHasOriginalModelAndRatio) {
  const Fidelity fidelity = fidelity_of(job(65536, 10e6, 30e6), job(131072, 10e6, 70e6));
  const std::string text = fidelity_text(fidelity, {.columns = 80});
  EXPECT_THAT(text, HasSubstr("original"));
  EXPECT_THAT(text, HasSubstr("2.00"));
  EXPECT_THAT(text, HasSubstr("measures are close"));
}

TEST(Fidelity, JsonHasTheSameMeasures) {
  JsonWriter json;
  json.begin_object();
  json.key("check");
  write_fidelity(json, fidelity_of(job(65536, 10e6, 30e6), job(131072, 10e6, 70e6)));
  json.end_object();
  const std::string text = std::move(json).finish();
  EXPECT_THAT(text, HasSubstr(R"("name": "time of a step, mean", "unit": "ns")"));
  EXPECT_THAT(text, HasSubstr(R"("original": "shuffled")"));
}

TEST(Quantile, IsInterpolatedWithinItsBin) {
  LogHistogram sizes;
  EXPECT_EQ(quantile_of(sizes, 0.5), 0);
  sizes.add(4096, 50);
  sizes.add(65536, 50);
  EXPECT_GE(quantile_of(sizes, 0.25), 4096);
  EXPECT_LT(quantile_of(sizes, 0.25), 8192);
  EXPECT_GE(quantile_of(sizes, 0.95), 65536);
}

}  // namespace
}  // namespace millrace::model
