#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/waiting_job.h"
#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using analyze::Profile;
using testing::Contains;
using testing::Not;

Profile hdf5_job(uint64_t read_ns) {
  Profile profile = waiting_job(".h5");
  profile.loading.library_reads = 4000;
  profile.loading.library_bytes = 4000 * 4 * kKiB;
  profile.loading.library_ns = 4000 * read_ns;
  profile.loading.other_ns = 8 * kSecondNs - profile.loading.library_ns;
  analyze::FunctionStats read = function("H5Dread", wire::CallKind::kRead);
  read.layer = analyze::Layer::kFormat;
  read.count = 4000;
  read.time_ns = profile.loading.library_ns;
  profile.functions = {read};
  return profile;
}

TEST(Hdf5Chunks, AMillisecondForARowIsAChunk) {
  const Finding finding = first(hdf5_job(1'000'000));
  EXPECT_EQ(finding.rule, "hdf5-chunks");
  // 4 s, without 20 us for each read.
  EXPECT_NEAR(saved_s(finding), 3.92, 0.01);
}

TEST(Hdf5Chunks, AFewMicrosecondsAreARow) {
  EXPECT_THAT(rules_found(hdf5_job(30'000)), Not(Contains("hdf5-chunks")));
}

}  // namespace
}  // namespace millrace::advise
