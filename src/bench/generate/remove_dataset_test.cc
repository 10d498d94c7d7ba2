#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "base/io/temporary_directory.h"
#include "bench/generate/generate.h"
#include "bench/generate/manifest.h"
#include "comm/single.h"

namespace millrace::bench {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class RemoveDataset : public testing::Test {
 protected:
  Workload generated(std::string_view format) const {
    Workload made;
    made.dataset.format = *named<DatasetFormat>(format);
    made.dataset.num_files_train = 6;
    made.dataset.num_files_eval = 2;
    made.dataset.num_subfolders_train = 3;
    made.dataset.record_length_bytes = 400;
    made.dataset.data_folder = folder();
    if (format == "megatron") made.dataset.record_element_type = data::ElementType::kU16;
    const auto comm = comm::single();
    const auto report = generate(made, *comm, {});
    EXPECT_TRUE(report.ok()) << report.error().message();
    return made;
  }
  fs::path folder() const { return directory_.path() / "data"; }

  TemporaryDirectory directory_ = *TemporaryDirectory::create();
};

TEST_F(RemoveDataset, LeavesNothingOfADatasetOfAnyFormat) {
  for (const char* format : {"npz", "indexed_binary", "megatron", "csv"}) {
    const Workload workload = generated(format);
    ASSERT_TRUE(check_removable(workload).ok());
    const auto removed = remove_dataset(workload);
    ASSERT_TRUE(removed.ok()) << removed.error().message();
    EXPECT_GE(removed->file_count, 9);
    EXPECT_THAT(removed->changed, testing::IsEmpty());
    EXPECT_FALSE(fs::exists(folder())) << format;
  }
}

TEST_F(RemoveDataset, KeepsFilesThatWereNotGenerated) {
  const Workload workload = generated("npz");
  std::ofstream(folder() / "train" / "1" / "mine.txt") << "x";
  ASSERT_TRUE(remove_dataset(workload).ok());
  EXPECT_TRUE(fs::exists(folder() / "train" / "1" / "mine.txt"));
  EXPECT_FALSE(fs::exists(folder() / "train" / "0"));
  EXPECT_FALSE(fs::exists(folder() / kManifestName));
}

TEST_F(RemoveDataset, KeepsFoldersThatWereThere) {
  fs::create_directories(folder() / "train");
  const Workload workload = generated("npz");
  ASSERT_TRUE(generate(workload, *comm::single(), {}).ok());
  ASSERT_TRUE(remove_dataset(workload).ok());
  EXPECT_TRUE(fs::is_empty(folder() / "train"));
  EXPECT_FALSE(fs::exists(folder() / "valid"));
}

TEST_F(RemoveDataset, KeepsFilesThatWereChanged) {
  const Workload workload = generated("npz");
  const fs::path longer = folder() / "train" / "0" / "img_0_of_6.npz";
  const fs::path later = folder() / "train" / "1" / "img_1_of_6.npz";
  const fs::path moved = folder() / "train" / "2" / "img_2_of_6.npz";
  std::ofstream(longer, std::ios::app) << "mine";
  const std::string content(fs::file_size(later), 'x');
  std::ofstream(later) << content;
  fs::last_write_time(later, fs::file_time_type::clock::now() + std::chrono::seconds(1));
  fs::remove(moved);
  fs::create_symlink(later, moved);
  const auto removed = remove_dataset(workload);
  ASSERT_TRUE(removed.ok()) << removed.error().message();
  EXPECT_THAT(removed->changed, testing::ElementsAre(longer, later, moved));
  for (const fs::path& path : {longer, later, moved}) EXPECT_TRUE(fs::exists(path)) << path;
  EXPECT_FALSE(fs::exists(folder() / "valid"));
}

TEST_F(RemoveDataset, RefusesAnotherDatasetAndOneWithoutManifest) {
  Workload workload = generated("npz");
  workload.dataset.seed = 7;
  EXPECT_THAT(check_removable(workload).error().message(), HasSubstr("dataset.seed"));
  EXPECT_FALSE(remove_dataset(workload).ok());
  workload.dataset.seed = 0;
  fs::remove(folder() / kManifestName);
  EXPECT_THAT(remove_dataset(workload).error().message(), HasSubstr("did not generate"));
  EXPECT_TRUE(fs::exists(folder() / "train" / "0" / "img_0_of_6.npz"));
}

}  // namespace
}  // namespace millrace::bench
