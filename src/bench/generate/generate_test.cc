#include "bench/generate/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <set>
#include <thread>

#include "base/io/file.h"
#include "base/io/temporary_directory.h"
#include "bench/generate/file_job.h"
#include "bench/generate/manifest.h"
#include "bench/generate/verify.h"
#include "comm/single.h"
#include "comm/testing/threads.h"
#include "format/file_source.h"
#include "format/images/jpeg.h"
#include "format/images/png.h"

namespace millrace::bench {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Generate : public testing::Test {
 protected:
  Workload workload(std::string_view format, uint64_t files, uint64_t samples) const {
    Workload made;
    made.name = "test";
    made.dataset.format = *named<DatasetFormat>(format);
    made.dataset.num_files_train = files;
    made.dataset.num_samples_per_file = samples;
    made.dataset.record_length_bytes = 90'000;
    made.dataset.data_folder = folder();
    return made;
  }
  fs::path folder() const { return directory_.path() / "data"; }

  static Result<GenerateReport> run(const Workload& workload, const GenerateOptions& options = {}) {
    const auto comm = comm::single();
    return generate(workload, *comm, options);
  }

  // The names of all files below the data folder.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder())) {
      if (!entry.is_directory()) names.push_back(fs::relative(entry.path(), folder()));
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  int64_t partial_folders() const {
    return std::ranges::count_if(fs::directory_iterator(folder()), [](const auto& entry) {
      return entry.path().filename().native().starts_with(".millrace-partial");
    });
  }

  TemporaryDirectory directory_ = *TemporaryDirectory::create();
};

// Reads all samples of a split through their format and verifies them.
Status verify_dataset(const Workload& workload, Split split) {
  ASSIGN_OR_RETURN(const Verifier verifier, Verifier::of(workload));
  const Layout& layout = verifier.layout();
  format::FilesOptions options{.format = std::string(name_of(workload.dataset.format))};
  if (options.format == "raw")
    options.format_options.record_bytes = layout.record_bytes({split, 0});
  for (uint64_t i = 0; i < layout.file_count(split); ++i) {
    options.paths.emplace_back(layout.path({split, i}));
  }
  ASSIGN_OR_RETURN(const auto samples, format::open_samples(options));
  const uint64_t per_file = samples.source->sample_count() / layout.file_count(split);
  data::Buffer room;
  format::SampleFields fields;
  for (uint64_t i = 0; i < samples.source->sample_count(); ++i) {
    ASSIGN_OR_RETURN(const ByteView bytes, samples.source->read(data::SampleId{i}, room));
    RETURN_IF_ERROR(samples.format->split(bytes, fields));
    RETURN_IF_ERROR(verifier.verify({{split, i / per_file}, i % per_file}, fields.list()));
  }
  return {};
}

// Empty if there is none.
std::string problem_of(const Status& status) { return status.ok() ? "" : status.error().message(); }

struct FormatCase {
  std::string format;
  uint64_t samples;
};

class GenerateFormats : public Generate, public testing::WithParamInterface<FormatCase> {};

TEST_P(GenerateFormats, AreReadBackAndVerified) {
  Workload made = workload(GetParam().format, 5, GetParam().samples);
  made.dataset.num_files_eval = 2;
  made.dataset.num_subfolders_train = 2;
  const auto report = run(made, {.thread_count = 3});
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(report->files_written, 7u);
  EXPECT_EQ(problem_of(verify_dataset(made, Split::kTrain)), "");
  EXPECT_EQ(problem_of(verify_dataset(made, Split::kEval)), "");
  const auto manifest = check_dataset(made);
  ASSERT_TRUE(manifest.ok());
  EXPECT_EQ((*manifest)->size_bytes, report->dataset_bytes);
  EXPECT_EQ(partial_folders(), 0);
}

TEST_P(GenerateFormats, OfFloatsAreVerifiedToo) {
  Workload made = workload(GetParam().format, 2, GetParam().samples);
  made.dataset.record_dims = {7, 11, 13};
  made.dataset.record_element_type = data::ElementType::kF32;
  made.dataset.content = ContentKind::kPhysics;
  ASSERT_TRUE(run(made).ok());
  EXPECT_EQ(problem_of(verify_dataset(made, Split::kTrain)), "");
}

TEST_P(GenerateFormats, OfDifferentLengthsAreVerifiedToo) {
  if (GetParam().format == "raw") return;  // its records have one length
  Workload made = workload(GetParam().format, 4, GetParam().samples);
  made.dataset.record_length_bytes_stdev = 30'000;
  const auto report = run(made);
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(problem_of(verify_dataset(made, Split::kTrain)), "");
}

INSTANTIATE_TEST_SUITE_P(All, GenerateFormats,
                         testing::Values(FormatCase{"npz", 1}, FormatCase{"npz", 3},
                                         FormatCase{"npz", 70}, FormatCase{"parquet", 3},
                                         FormatCase{"csv", 3}, FormatCase{"jsonl", 3},
                                         FormatCase{"npy", 1}, FormatCase{"npy", 5},
                                         FormatCase{"tfrecord", 1}, FormatCase{"tfrecord", 4},
                                         FormatCase{"raw", 1}, FormatCase{"raw", 3}),
                         [](const auto& tried) {
                           return fmt::format("{}_{}", tried.param.format, tried.param.samples);
                         });

TEST_F(Generate, KnowsTheLengthOfStreamedFiles) {
  for (const std::string_view format :
       {"npz", "npy", "tfrecord", "raw", "indexed_binary", "synthetic"}) {
    Workload made = workload(format, 11, 3);
    made.dataset.data_folder = folder() / format;
    made.dataset.record_length_bytes_stdev = 20'000;
    ASSERT_TRUE(run(made).ok());
    const auto plan = *DatasetPlan::of(made);
    for (uint64_t i = 0; i < 11; ++i) {
      const FileId file{.index = i};
      EXPECT_EQ(known_file_bytes(plan, file), fs::file_size(plan.layout.path(file))) << format;
    }
  }
}

TEST_F(Generate, WritesHdf5AroundAnOutline) {
  for (const uint64_t parts : {1, 2}) {
    Workload made = workload("hdf5", 3, 5);
    made.dataset.data_folder = folder() / std::to_string(parts);
    made.dataset.record_dims = {6, 7};
    made.dataset.record_element_type = data::ElementType::kF32;
    made.dataset.num_dset_per_record = parts;
    made.dataset.fields.push_back(
        {.name = "weights", .dims = {1000}, .type = data::ElementType::kI16});
    const auto plan = DatasetPlan::of(made);
    if (!plan.ok() && plan.error().code() == Errc::kUnsupported) GTEST_SKIP();
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    ASSERT_TRUE(plan->hdf5_outline.has_value());
    const auto report = run(made);
    ASSERT_TRUE(report.ok()) << report.error().message();
    EXPECT_EQ(report->dataset_bytes, 3 * *plan->equal_file_bytes);
    EXPECT_EQ(problem_of(verify_dataset(made, Split::kTrain)), "");
  }
}

TEST_F(Generate, LeavesChunksOfHdf5ToItsLibrary) {
  Workload made = workload("hdf5", 2, 4);
  made.dataset.enable_chunking = true;
  made.dataset.chunk_size = 180'000;
  const auto report = run(made);
  if (!report.ok() && report.error().code() == Errc::kUnsupported) GTEST_SKIP();
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_FALSE(DatasetPlan::of(made)->hdf5_outline.has_value());
  EXPECT_EQ(problem_of(verify_dataset(made, Split::kTrain)), "");
}

TEST_F(Generate, AddsArraysToNpzAndTfrecord) {
  for (const std::string_view format : {"npz", "tfrecord"}) {
    Workload made = workload(format, 2, format == "npz" ? 1 : 3);
    made.dataset.data_folder = folder() / format;
    made.dataset.fields = {{.name = "mask", .dims = {16, 16}, .type = data::ElementType::kU8},
                           {.name = "energy", .dims = {5}, .type = data::ElementType::kF32}};
    const auto report = run(made);
    ASSERT_TRUE(report.ok()) << report.error().message();
    EXPECT_EQ(problem_of(verify_dataset(made, Split::kTrain)), "");
  }
}

TEST_F(Generate, WritesTheIndexOfIndexedBinary) {
  Workload made = workload("indexed_binary", 1, 3);
  made.dataset.record_length_bytes = 100;
  ASSERT_TRUE(run(made).ok());
  EXPECT_THAT(files(),
              testing::ElementsAre("millrace-manifest.json", "train/img_0_of_1.indexed_binary",
                                   "train/img_0_of_1.indexed_binary.off.idx",
                                   "train/img_0_of_1.indexed_binary.sz.idx"));
  const std::string offsets = *read_file(folder() / "train/img_0_of_1.indexed_binary.off.idx");
  const std::string sizes = *read_file(folder() / "train/img_0_of_1.indexed_binary.sz.idx");
  const uint64_t expected_offsets[] = {0, 100, 200};
  const uint64_t expected_sizes[] = {100, 100, 100};
  EXPECT_EQ(offsets, text_of(std::as_bytes(std::span(expected_offsets))));
  EXPECT_EQ(sizes, text_of(std::as_bytes(std::span(expected_sizes))));
}

TEST_F(Generate, WritesTheSameFilesWithAnyRanksAndThreads) {
  Workload alone = workload("tfrecord", 10, 2);
  ASSERT_TRUE(run(alone, {.thread_count = 1}).ok());
  Workload together = alone;
  together.dataset.data_folder = directory_.path() / "together";
  auto ranks = comm::threads_comm(3);
  std::vector<uint64_t> written(3);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      const auto report = generate(together, *ranks[rank], {.thread_count = 2});
      written[rank] = report.ok() ? report->files_written : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(written, testing::Each(10u));
  const auto layout = *Layout::of(alone);
  const auto other = *Layout::of(together);
  for (uint64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(*read_file(layout.path({.index = i})), *read_file(other.path({.index = i})));
  }
}

TEST_F(Generate, ContinuesWithWhatIsMissing) {
  const Workload made = workload("npz", 6, 1);
  ASSERT_TRUE(run(made).ok());
  const auto layout = *Layout::of(made);
  fs::remove(layout.path({.index = 1}));
  const fs::path half = folder() / ".millrace-partial-0123abcd/0-0";
  fs::create_directories(half);
  std::ofstream(half / "img_1_of_6.npz") << "half";
  const auto report = run(made);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->files_written, 1u);
  EXPECT_EQ(report->files_kept, 5u);
  EXPECT_THAT(report->notes, testing::IsEmpty());
  EXPECT_EQ(problem_of(verify_dataset(made, Split::kTrain)), "");
  EXPECT_EQ(partial_folders(), 0);
}

TEST_F(Generate, KeepsWhatOthersPutIntoTheFolderOfAKilledGeneration) {
  const Workload made = workload("npz", 6, 1);
  ASSERT_TRUE(run(made).ok());
  fs::remove((*Layout::of(made)).path({.index = 1}));
  const fs::path half = folder() / ".millrace-partial-0123abcd/0-0";
  fs::create_directories(half);
  std::ofstream(half / "img_1_of_6.npz") << "half";
  std::ofstream(half / "important") << "mine";
  const auto report = run(made);
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(report->notes, testing::ElementsAre(HasSubstr("and stays")));
  EXPECT_FALSE(fs::exists(half / "img_1_of_6.npz"));
  EXPECT_EQ(*read_file(half / "important"), "mine");
}

TEST_F(Generate, DoesNotFollowALinkToTheFilesOfOthers) {
  const Workload made = workload("npz", 6, 1);
  ASSERT_TRUE(run(made).ok());
  fs::remove((*Layout::of(made)).path({.index = 1}));
  const fs::path others = folder().parent_path() / "others/train";
  fs::create_directories(others);
  std::ofstream(others / "img_1_of_6.npz") << "mine";
  fs::create_directory_symlink(others.parent_path(), folder() / ".millrace-partial-0123abcd");
  ASSERT_TRUE(run(made).ok());
  EXPECT_EQ(*read_file(others / "img_1_of_6.npz"), "mine");
}

TEST_F(Generate, DoesNotReplaceFilesThatWereChanged) {
  const Workload made = workload("npz", 6, 1);
  ASSERT_TRUE(run(made).ok());
  const auto layout = *Layout::of(made);
  const fs::path third = layout.path({.index = 3});
  const std::string content = *read_file(third);
  const std::string manifest = *read_file(folder() / kManifestName);
  fs::resize_file(third, 1000);
  EXPECT_THAT(run(made).error().message(), HasSubstr("img_3_of_6.npz: has 1000 bytes instead of"));
  EXPECT_EQ(fs::file_size(third), 1000u);
  std::ofstream(third) << content;  // of the right length, but later
  fs::last_write_time(third, fs::file_time_type::clock::now() + std::chrono::seconds(1));
  EXPECT_THAT(run(made).error().message(), HasSubstr("is newer than the manifest"));
  EXPECT_EQ(*read_file(folder() / kManifestName), manifest);
  fs::remove(third);
  EXPECT_EQ(run(made)->files_written, 1u);
  EXPECT_EQ(run(made)->files_written, 0u);
}

TEST_F(Generate, DoesNotReplaceAFileThatNobodyKnows) {
  const Workload made = workload("npz", 6, 1);
  fs::create_directories(folder() / "train");
  std::ofstream(folder() / "train/img_4_of_6.npz") << "mine";
  EXPECT_THAT(run(made).error().message(),
              HasSubstr("img_4_of_6.npz: the file exists, and is not replaced"));
  EXPECT_EQ(*read_file(folder() / "train/img_4_of_6.npz"), "mine");
  EXPECT_EQ(partial_folders(), 0);
}

TEST_F(Generate, RefusesToMixTwoDatasets) {
  Workload made = workload("npz", 6, 1);
  ASSERT_TRUE(run(made).ok());
  made.dataset.seed = 5;
  const auto report = run(made);
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.error().message(), HasSubstr("dataset.seed=0, but the workload says 5"));
}

TEST_F(Generate, DoesNotOverwriteTheDatasetOfAnotherTool) {
  const Workload made = workload("npz", 6, 1);
  fs::create_directories(folder() / "train");
  std::ofstream(folder() / "train/img_0_of_6.npz") << "foreign";
  const auto report = run(made);
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.error().message(), HasSubstr("has no millrace-manifest.json"));
  EXPECT_EQ(*read_file(folder() / "train/img_0_of_6.npz"), "foreign");
}

TEST_F(Generate, SaysBeforeTheFirstFileThatTheDiskIsTooSmall) {
  Workload made = workload("raw", 1'000'000, 1);
  made.dataset.record_length_bytes = 1e12;
  const auto report = run(made);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code(), Errc::kExhausted);
  EXPECT_THAT(report.error().message(),
              HasSubstr("1,000,000 files to generate need 1000000000000000000 bytes (1 EB), but "));
  EXPECT_THAT(report.error().message(), HasSubstr(folder().string()));
  EXPECT_FALSE(fs::exists(folder()));
}

// Files of this process cannot grow beyond `bytes`, as on a full disk.
class FilesAtMost {
 public:
  explicit FilesAtMost(rlim_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~FilesAtMost() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }

 private:
  sighandler_t handler_;
  rlimit before_{};
};

TEST_F(Generate, ThatMadeNoFileLeavesNothingThatBlocksTheNext) {
  fs::remove_all(folder());
  Workload made = workload("raw", 3, 1);
  made.dataset.num_subfolders_train = 2;
  made.dataset.record_length_bytes = 5e6;
  {
    const FilesAtMost limit(100'000);
    EXPECT_FALSE(run(made).ok());
  }
  EXPECT_FALSE(fs::exists(folder()));
  fs::create_directories(folder() / "train");
  std::ofstream(folder() / "notes.txt") << "mine";
  {
    const FilesAtMost limit(100'000);
    EXPECT_FALSE(run(made).ok());
  }
  EXPECT_THAT(files(), testing::ElementsAre("notes.txt"));
  EXPECT_TRUE(fs::exists(folder() / "train")) << "it was there before";
  made.dataset.record_length_bytes = 5e3;
  EXPECT_TRUE(run(made).ok());
}

TEST_F(Generate, ThatFailedLaterKeepsItsCompleteFilesAndTheirManifest) {
  Workload made = workload("raw", 3, 1);
  made.dataset.record_length_bytes = 5e3;
  ASSERT_TRUE(run(made).ok());
  fs::remove(folder() / "train/img_1_of_3.raw");
  {
    const FilesAtMost limit(3'000);
    EXPECT_FALSE(run(made).ok());
  }
  EXPECT_THAT(files(), testing::Contains("millrace-manifest.json"));
  EXPECT_TRUE(run(made).ok());
}

TEST_F(Generate, AKilledOneWithoutACompleteFileDoesNotBlockOtherKeys) {
  Workload made = workload("npz", 6, 1);
  fs::create_directories(folder());
  ASSERT_TRUE(write_manifest(folder(), *manifest_of(made)).ok());
  made.dataset.seed = 5;
  EXPECT_TRUE(run(made).ok());
}

TEST_F(Generate, NamesAFolderThatCannotBeWritten) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write anywhere; tests/bench tries it too";
  fs::permissions(directory_.path(), fs::perms::owner_read | fs::perms::owner_exec);
  const auto report = run(workload("npz", 6, 1));
  fs::permissions(directory_.path(), fs::perms::owner_all);
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.error().message(), HasSubstr(folder().string()));
  EXPECT_EQ(report.error().code(), Errc::kPermission);
}

TEST_F(Generate, ReportsProgressInOrder) {
  std::vector<uint64_t> files;
  std::vector<uint64_t> bytes;
  const auto report =
      run(workload("npy", 20, 1),
          {.thread_count = 4, .on_progress = [&](uint64_t file_count, uint64_t byte_count) {
             files.push_back(file_count);
             bytes.push_back(byte_count);
           }});
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(std::is_sorted(files.begin(), files.end()));
  EXPECT_TRUE(std::is_sorted(bytes.begin(), bytes.end()));
  EXPECT_EQ(files.back(), 20u);
  EXPECT_EQ(bytes.back(), report->dataset_bytes);
}

TEST_F(Generate, RefusesSeveralSamplesInAnImage) {
  const auto report = run(workload("jpeg", 2, 3));
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.error().message(), HasSubstr("a jpeg file is one sample"));
}

TEST_F(Generate, ImagesAreVerifiedByTheirChecksum) {
  for (const std::string_view format : {"jpeg", "png"}) {
    Workload made = workload(format, 3, 1);
    made.dataset.data_folder = folder() / format;
    made.dataset.content = ContentKind::kPhoto;
    const auto report = run(made);
    if (!report.ok() && report.error().code() == Errc::kUnsupported) continue;  // another build
    ASSERT_TRUE(report.ok()) << report.error().message();
    const auto verifier = *Verifier::of(made);
    std::string bytes = *read_file(verifier.layout().path({.index = 2}));
    EXPECT_EQ(problem_of(verifier.verify_file({.index = 2}, bytes_of(bytes))), "");
    EXPECT_FALSE(verifier.verify_file({.index = 1}, bytes_of(bytes)).ok());
    bytes[bytes.size() / 2] ^= 1;
    EXPECT_FALSE(verifier.verify_file({.index = 2}, bytes_of(bytes)).ok());
  }
}

image::Size size_of_image(ByteView image) {
  if (format::is_png(image)) return *(*format::PngReader::create({}))->open(image);
  return *(*format::JpegReader::create({}))->open(image);
}

// What the comment in each image is for.
TEST_F(Generate, ImagesRepeatWithTheNameOfTheirSample) {
  for (const std::string_view format : {"jpeg", "png"}) {
    Workload made = workload(format, 40, 1);
    made.dataset.data_folder = folder() / format;
    const auto report = run(made);
    if (!report.ok() && report.error().code() == Errc::kUnsupported) continue;  // another build
    ASSERT_TRUE(report.ok()) << report.error().message();
    const auto verifier = *Verifier::of(made);
    std::set<std::string> files;
    std::set<std::string> ends;
    for (uint64_t i = 0; i < 40; ++i) {
      const std::string bytes = *read_file(verifier.layout().path({.index = i}));
      EXPECT_EQ(problem_of(verifier.verify_file({.index = i}, bytes_of(bytes))), "");
      files.insert(bytes);
      ends.insert(bytes.substr(bytes.size() - 1000));
    }
    EXPECT_EQ(files.size(), 40u);
    EXPECT_EQ(ends.size(), 8u);
  }
}

TEST_F(Generate, ImagesOfDifferentSizesAreNotRepeated) {
  for (const std::string_view format : {"jpeg", "png"}) {
    Workload made = workload(format, 20, 1);
    made.dataset.data_folder = folder() / format;
    made.dataset.record_length_bytes_stdev = 3000;
    const auto report = run(made);
    if (!report.ok() && report.error().code() == Errc::kUnsupported) continue;  // another build
    ASSERT_TRUE(report.ok()) << report.error().message();
    const auto verifier = *Verifier::of(made);
    for (uint64_t i = 0; i < 20; ++i) {
      const std::string bytes = *read_file(verifier.layout().path({.index = i}));
      EXPECT_EQ(problem_of(verifier.verify_file({.index = i}, bytes_of(bytes))), "");
      const data::Shape shape = verifier.layout().record_shape({.index = i});
      const image::Size size{.width = static_cast<uint32_t>(shape.lengths()[1]),
                             .height = static_cast<uint32_t>(shape.lengths()[0])};
      EXPECT_EQ(size_of_image(bytes_of(bytes)), size);
    }
  }
}

TEST_F(Generate, WritesFromABufferOfTheGivenSize) {
  Workload made = workload("npz", 1, 1);
  made.dataset.generation_buffer_size = 8192;
  uint64_t written = 0;
  uint64_t largest = 0;
  const auto report = run(made, {.on_progress = [&](uint64_t, uint64_t bytes) {
                            largest = std::max(largest, bytes - std::exchange(written, bytes));
                          }});
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_LE(largest, 8192);
  EXPECT_TRUE(verify_dataset(made, Split::kTrain).ok());
}

}  // namespace
}  // namespace millrace::bench
