#include "bench/generate/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/io/atomic_file.h"
#include "base/io/temporary_directory.h"

namespace millrace::bench {
namespace {

using testing::HasSubstr;

Workload small_workload(const std::filesystem::path& folder) {
  Workload workload;
  workload.name = "small";
  workload.dataset.data_folder = folder;
  workload.dataset.num_files_train = 3;
  workload.dataset.record_length_bytes = 1000.5;
  return workload;
}

TEST(Manifest, IsReadAsItWasWritten) {
  const auto directory = *TemporaryDirectory::create();
  Workload workload = small_workload(directory.path());
  workload.dataset.columns = {{.name = "a", .dtype = "int64", .size = 2}};
  workload.dataset.fields = {{.name = "b", .dims = {1, 2}}};
  Manifest manifest = *manifest_of(workload);
  manifest.is_complete = true;
  manifest.size_bytes = 12345;
  ASSERT_TRUE(write_manifest(directory.path(), manifest).ok());
  const auto found = *read_manifest(directory.path());
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->keys, manifest.keys);
  EXPECT_EQ(found->workload, "small");
  EXPECT_EQ(found->file_count, 3u);
  EXPECT_EQ(found->payload_bytes, 3u * 31 * 31);
  EXPECT_EQ(found->size_bytes, 12345u);
  EXPECT_TRUE(check_dataset(workload).ok());
}

TEST(Manifest, NamesTheKeyThatDiffers) {
  const auto directory = *TemporaryDirectory::create();
  Workload workload = small_workload(directory.path());
  Manifest manifest = *manifest_of(workload);
  manifest.is_complete = true;
  ASSERT_TRUE(write_manifest(directory.path(), manifest).ok());
  workload.dataset.num_samples_per_file = 4;
  const auto checked = check_dataset(workload);
  ASSERT_FALSE(checked.ok());
  EXPECT_THAT(checked.error().message(),
              HasSubstr("was generated with dataset.num_samples_per_file=1, but the workload says "
                        "4; set the key to 1, or"));
}

TEST(Manifest, IgnoresKeysThatDoNotChangeTheFiles) {
  const auto directory = *TemporaryDirectory::create();
  Workload workload = small_workload(directory.path());
  Manifest manifest = *manifest_of(workload);
  manifest.is_complete = true;
  ASSERT_TRUE(write_manifest(directory.path(), manifest).ok());
  workload.reader.batch_size = 7;
  workload.dataset.record_length_bytes_resize = 100;
  workload.name = "other";
  EXPECT_TRUE(check_dataset(workload).ok());
}

TEST(Manifest, OfAnInterruptedGenerationIsIncomplete) {
  const auto directory = *TemporaryDirectory::create();
  const Workload workload = small_workload(directory.path());
  ASSERT_TRUE(write_manifest(directory.path(), *manifest_of(workload)).ok());
  const auto checked = check_dataset(workload);
  ASSERT_FALSE(checked.ok());
  EXPECT_THAT(checked.error().message(), HasSubstr("incomplete"));
}

TEST(Manifest, IsMissingInADatasetOfAnotherTool) {
  const auto directory = *TemporaryDirectory::create();
  EXPECT_FALSE((*check_dataset(small_workload(directory.path()))).has_value());
}

TEST(Manifest, OfTheFutureIsRefused) {
  const auto directory = *TemporaryDirectory::create();
  ASSERT_TRUE(write_file_atomically(directory.path() / kManifestName,
                                    bytes_of("{\"kind\": \"millrace dataset\", \"version\": 2}"))
                  .ok());
  const auto found = read_manifest(directory.path());
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.error().message(), HasSubstr("this build reads up to 1"));
}

}  // namespace
}  // namespace millrace::bench
