#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/shared_jobs.h"
#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(FitsLocalDisk, IsReportedIfReadOverTheNetworkEveryEpoch) {
  const Machine machine{.local_disk_bytes = kGiB, .data_storage = Storage::kNetwork};
  EXPECT_THAT(rules_found(two_epochs(20ms), machine), ElementsAre("fits-local-disk"));
}

TEST(FitsLocalDisk, IsNotReportedWithoutRoom) {
  const Machine machine{.local_disk_bytes = 400 * kMiB, .data_storage = Storage::kNetwork};
  EXPECT_THAT(rules_found(two_epochs(20ms), machine), IsEmpty());
}

TEST(FitsLocalDisk, IsNotReportedIfReadFromALocalDisk) {
  const Machine machine{.local_disk_bytes = 8 * kGiB, .data_storage = Storage::kLocal};
  EXPECT_THAT(rules_found(two_epochs(20ms), machine), IsEmpty());
}

}  // namespace
}  // namespace millrace::advise
