#include "report/scaling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/text/json.h"
#include "base/text/text.h"

namespace millrace::report {
namespace {

using analyze::Profile;
using testing::HasSubstr;

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kGigabyte = 1'000'000'000;

struct Spec {
  uint32_t ranks = 1;
  uint64_t hosts = 1;
  uint64_t epoch_s = 0;
  uint64_t dataset_gigabytes = 0;
};

// One epoch: half of it I/O, a quarter I/O that does not overlap, a tenth waiting.
Profile job(const Spec& spec) {
  Profile profile;
  profile.job.traces = {"job" + std::to_string(spec.ranks)};
  profile.job.hosts.resize(spec.hosts);
  profile.job.ranks = spec.ranks;
  profile.job.wall_ns = spec.epoch_s * kSecond;
  profile.job.dataset_bytes = spec.dataset_gigabytes * kGigabyte;
  profile.job.dataset_bytes_read = profile.job.bytes_read = profile.job.dataset_bytes;
  profile.time.mean.wall_ns = profile.job.wall_ns;
  profile.time.mean.io_ns = profile.job.wall_ns / 2;
  profile.time.mean.io_exposed_ns = profile.job.wall_ns / 4;
  profile.time.mean.wait_share = 0.1;
  profile.epochs = {{.begin_ns = 0, .end_ns = profile.job.wall_ns}};
  return profile;
}

TEST(Scaling, TheSameWorkForAllIsStrongScaling) {
  const Profile jobs[] = {job({.ranks = 8, .hosts = 2, .epoch_s = 20, .dataset_gigabytes = 80}),
                          job({.ranks = 4, .hosts = 1, .epoch_s = 32, .dataset_gigabytes = 80}),
                          job({.ranks = 16, .hosts = 4, .epoch_s = 16, .dataset_gigabytes = 80})};
  const Scaling scaling = scaling_of(jobs);
  EXPECT_EQ(scaling.kind, ScalingKind::kStrong);
  EXPECT_EQ(scaling.per, Per::kEpoch);
  ASSERT_EQ(scaling.rows.size(), 3u);
  EXPECT_EQ(scaling.rows[0].ranks, 4u);
  EXPECT_DOUBLE_EQ(scaling.rows[0].speed_up, 1);
  EXPECT_DOUBLE_EQ(scaling.rows[0].efficiency, 1);
  EXPECT_DOUBLE_EQ(scaling.rows[1].speed_up, 1.6);
  EXPECT_DOUBLE_EQ(scaling.rows[1].efficiency, 0.8);
  EXPECT_DOUBLE_EQ(scaling.rows[2].speed_up, 2);
  EXPECT_DOUBLE_EQ(scaling.rows[2].efficiency, 0.5);
  EXPECT_DOUBLE_EQ(scaling.rows[2].read_bandwidth, 5e9);
  EXPECT_DOUBLE_EQ(scaling.rows[2].gigabyte_ns, 0.2e9);
  EXPECT_DOUBLE_EQ(scaling.rows[2].io_share, 0.5);
  EXPECT_DOUBLE_EQ(scaling.rows[2].io_exposed_share, 0.25);
  EXPECT_DOUBLE_EQ(scaling.rows[2].wait_share, 0.1);
}

TEST(Scaling, WorkThatGrowsWithTheRanksIsWeakScaling) {
  const Profile jobs[] = {job({.ranks = 2, .epoch_s = 10, .dataset_gigabytes = 20}),
                          job({.ranks = 8, .epoch_s = 16, .dataset_gigabytes = 80})};
  const Scaling scaling = scaling_of(jobs);
  EXPECT_EQ(scaling.kind, ScalingKind::kWeak);
  EXPECT_DOUBLE_EQ(scaling.rows[1].efficiency, 0.625);
  EXPECT_DOUBLE_EQ(scaling.rows[1].speed_up, 2.5);
}

TEST(Scaling, MixedScalingUsesTheDatasetSizeAsWork) {
  const Profile jobs[] = {job({.ranks = 1, .epoch_s = 10, .dataset_gigabytes = 10}),
                          job({.ranks = 2, .epoch_s = 10, .dataset_gigabytes = 15}),
                          job({.ranks = 4, .epoch_s = 10, .dataset_gigabytes = 80})};
  const Scaling scaling = scaling_of(jobs);
  EXPECT_EQ(scaling.kind, ScalingKind::kMixed);
  EXPECT_DOUBLE_EQ(scaling.rows[1].speed_up, 1.5);
  EXPECT_DOUBLE_EQ(scaling.rows[1].efficiency, 0.75);
  EXPECT_DOUBLE_EQ(scaling.rows[2].speed_up, 8);
}

TEST(Scaling, SmallDifferencesInSizeCountAsTheSameWork) {
  const Profile jobs[] = {job({.ranks = 1, .epoch_s = 10, .dataset_gigabytes = 100}),
                          job({.ranks = 2, .epoch_s = 5, .dataset_gigabytes = 105})};
  const Scaling scaling = scaling_of(jobs);
  EXPECT_EQ(scaling.kind, ScalingKind::kStrong);
  EXPECT_DOUBLE_EQ(scaling.rows[1].efficiency, 1);
}

TEST(Scaling, UsesStepsWithoutEpochsAndElseTheWallTime) {
  Profile small = job({.ranks = 1, .epoch_s = 10, .dataset_gigabytes = 10});
  Profile large = job({.ranks = 4, .epoch_s = 20, .dataset_gigabytes = 10});
  small.epochs.clear();
  small.steps.duration_ns.mean = 100;
  large.steps.duration_ns.mean = 125;
  const Profile by_step[] = {small, large};
  Scaling scaling = scaling_of(by_step);
  EXPECT_EQ(scaling.per, Per::kStep);
  EXPECT_EQ(scaling.kind, ScalingKind::kWeak);
  EXPECT_DOUBLE_EQ(scaling.rows[1].efficiency, 0.8);
  EXPECT_DOUBLE_EQ(scaling.rows[1].speed_up, 3.2);

  small.steps = {};
  const Profile by_wall[] = {small, large};
  scaling = scaling_of(by_wall);
  EXPECT_EQ(scaling.per, Per::kJob);
  EXPECT_EQ(scaling.kind, ScalingKind::kStrong);
  EXPECT_DOUBLE_EQ(scaling.rows[1].speed_up, 0.5);
}

TEST(Scaling, TheSameRanksOnMoreHostsScaleByHosts) {
  const Profile jobs[] = {job({.ranks = 4, .hosts = 4, .epoch_s = 10, .dataset_gigabytes = 10}),
                          job({.ranks = 4, .hosts = 1, .epoch_s = 20, .dataset_gigabytes = 10})};
  const Scaling scaling = scaling_of(jobs);
  EXPECT_TRUE(scaling.against_hosts);
  EXPECT_EQ(scaling.rows[0].hosts, 1u);
  EXPECT_DOUBLE_EQ(scaling.rows[1].speed_up, 2);
  EXPECT_DOUBLE_EQ(scaling.rows[1].efficiency, 0.5);
}

TEST(Scaling, JobsOfOneSizeDoNotScale) {
  const Profile jobs[] = {job({.ranks = 4, .epoch_s = 10}), job({.ranks = 4, .epoch_s = 20})};
  const Scaling scaling = scaling_of(jobs);
  EXPECT_EQ(scaling.kind, ScalingKind::kNone);
  EXPECT_DOUBLE_EQ(scaling.rows[1].speed_up, 0.5);
}

TEST(Scaling, EmptyProfilesHaveNoSpeedUp) {
  EXPECT_TRUE(scaling_of({}).rows.empty());
  EXPECT_EQ(scaling_text(scaling_of({}), Terminal()), "");
  Profile four;
  four.job.ranks = 4;
  const Profile jobs[] = {Profile(), four};
  const Scaling scaling = scaling_of(jobs);
  EXPECT_EQ(scaling.rows[1].speed_up, 0);
  EXPECT_EQ(scaling.rows[0].ranks, 1u);
  EXPECT_THAT(scaling_text(scaling, Terminal()), HasSubstr(" - "));
}

TEST(Scaling, TheTextFitsEightyColumns) {
  Profile large = job({.ranks = 1024, .hosts = 128, .epoch_s = 100'000, .dataset_gigabytes = 9000});
  large.job.traces = {std::string(100, 'x')};
  const Profile jobs[] = {job({.ranks = 4, .epoch_s = 900'000, .dataset_gigabytes = 9000}), large};
  const std::string text = scaling_text(scaling_of(jobs), Terminal());
  EXPECT_THAT(text, HasSubstr("Strong scaling: the same total work, compared by the time of one "
                              "epoch.\n"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), 80u) << line;
}

TEST(Scaling, TheJsonHasARowPerJob) {
  const Profile jobs[] = {job({.ranks = 1, .epoch_s = 10, .dataset_gigabytes = 10}),
                          job({.ranks = 2, .epoch_s = 8, .dataset_gigabytes = 10})};
  JsonWriter json;
  json.begin_object();
  write_scaling(json, scaling_of(jobs));
  json.end_object();
  const auto document = parse_json(std::move(json).finish(), "json");
  ASSERT_TRUE(document.ok()) << document.error().message();
  EXPECT_EQ(document->root.find("scaling_kind")->text(), "strong");
  const auto& rows = document->root.find("scaling")->items();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(*rows[1].find("efficiency")->as_double(), 0.625);
}

}  // namespace
}  // namespace millrace::report
