#include "loader/same_dataset.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/io/temporary_directory.h"
#include "comm/testing/threads.h"

namespace millrace::loader {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

// Files in memory. An empty text cannot be read.
class Files final : public data::SampleSource {
 public:
  explicit Files(std::string directory = "data") : directory_(std::move(directory)) {}

  Files& add(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) add(fmt::format("{:06}.bin", i), "bytes");
    return *this;
  }
  Files& add(std::string name, std::string text) {
    texts_[name] = std::move(text);
    return *this;
  }
  Files& remove(const std::string& name) {
    texts_.erase(name);
    return *this;
  }

  uint64_t sample_count() const override { return texts_.size(); }
  std::string name(data::SampleId sample) const override {
    return directory_ + "/" + entry(sample).first;
  }
  std::optional<int64_t> label(data::SampleId) const override { return {}; }
  Result<ByteView> read(data::SampleId sample, data::Buffer&) const override {
    const std::string& text = entry(sample).second;
    if (text.empty()) return fail(Errc::kIo, "cannot be read");
    return bytes_of(text);
  }
  Result<size_t> read_into(data::SampleId, MutableByteView) const override {
    return fail(Errc::kUnsupported, "not used");
  }
  uint64_t group_count() const override { return 1; }
  data::SampleId group_begin(uint64_t group) const override {
    return data::SampleId{group * texts_.size()};
  }

 private:
  const std::pair<const std::string, std::string>& entry(data::SampleId sample) const {
    return *std::next(texts_.begin(), static_cast<std::ptrdiff_t>(data::index_of(sample)));
  }

  std::string directory_;
  std::map<std::string, std::string> texts_;
};

// Files on disk, each with one sample, which is read from memory.
class RealFiles final : public data::SampleSource {
 public:
  RealFiles(std::filesystem::path folder, uint64_t count) : folder_(std::move(folder)) {
    std::filesystem::create_directories(folder_);
    for (uint64_t i = 0; i < count; ++i) write(i, fmt::format("sample {:06}", i));
  }

  // With the time of all files of the dataset, as a copy by rsync -a or cp -p has it.
  void write(uint64_t number, const std::string& text, int hours = 0) {
    const std::string path = group_path(number);
    std::ofstream(path) << text;
    const std::filesystem::file_time_type some_time{std::chrono::hours(24 * 365 * 30)};
    std::filesystem::last_write_time(path, some_time + std::chrono::hours(hours));
    if (number == texts_.size()) texts_.emplace_back();
    texts_[number] = text;
  }

  uint64_t sample_count() const override { return texts_.size(); }
  std::string name(data::SampleId sample) const override {
    return group_path(data::index_of(sample));
  }
  std::optional<int64_t> label(data::SampleId) const override { return {}; }
  Result<ByteView> read(data::SampleId sample, data::Buffer&) const override {
    return bytes_of(texts_[data::index_of(sample)]);
  }
  Result<size_t> read_into(data::SampleId, MutableByteView) const override {
    return fail(Errc::kUnsupported, "not used");
  }
  uint64_t group_count() const override { return texts_.size(); }
  data::SampleId group_begin(uint64_t group) const override { return data::SampleId{group}; }
  std::string group_path(uint64_t group) const override {
    return (folder_ / fmt::format("{:06}.bin", group)).string();
  }

 private:
  std::filesystem::path folder_;
  std::vector<std::string> texts_;
};

// What each rank gets; empty: no error.
template <typename Source>
std::vector<std::string> check(const std::vector<Source>& ranks) {
  auto comms = comm::threads_comm(static_cast<uint32_t>(ranks.size()));
  std::vector<std::string> errors(ranks.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    threads.emplace_back([&, rank, comm = std::move(comms[rank])] {
      if (const Status same = check_same_dataset(ranks[rank], *comm); !same.ok()) {
        errors[rank] = same.error().message();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

TEST(SameDataset, AcceptsCopiesInOtherDirectories) {
  EXPECT_THAT(
      check<Files>({Files("/a").add(300), Files("/local/b").add(300), Files("/c").add(300)}),
      Each(IsEmpty()));
  EXPECT_THAT(check<Files>({Files().add(1), Files().add(1)}), Each(IsEmpty()));
  EXPECT_THAT(check<Files>({Files(), Files()}), Each(IsEmpty()));
  EXPECT_THAT(check<Files>({Files().add(300).remove("000007.bin")}), Each(IsEmpty()));
}

TEST(SameDataset, NamesTheFirstFileThatWasReplacedByAnother) {
  for (const uint64_t count : {2, 63, 64, 65, 5000}) {
    for (const uint64_t at : {uint64_t{0}, count / 2, count - 1}) {
      Files other = Files("/b").add(count);
      other.remove(fmt::format("{:06}.bin", at)).add(fmt::format("{:06}x.bin", at), "bytes");
      EXPECT_THAT(check<Files>({Files("/a").add(count), Files("/a").add(count), other}),
                  Each(AllOf(HasSubstr(fmt::format("sample {} is /a/{:06}.bin on ", at, at)),
                             HasSubstr(fmt::format(", and /b/{:06}x.bin on ", at)),
                             HasSubstr("for rank 2"), HasSubstr("files with other names"))));
    }
  }
}

TEST(SameDataset, NamesTheFirstFileThatIsMissing) {
  const Files fewer = Files("/b").add(1000).remove("000400.bin");
  EXPECT_THAT(
      check<Files>({Files("/a").add(1000), fewer}),
      Each(AllOf(HasSubstr("1000 and 999 samples"), HasSubstr("sample 400 is /a/000400.bin on "),
                 HasSubstr(", and /b/000401.bin on "))));
  EXPECT_THAT(check<Files>({Files("/a").add(99), Files("/a").add(99), Files("/b").add(100)}),
              Each(AllOf(HasSubstr("99 and 100 samples"), HasSubstr("sample 99 is missing on "),
                         HasSubstr(", and /b/000099.bin on "), HasSubstr("for rank 2"))));
  EXPECT_THAT(check<Files>({Files("/a"), Files("/b").add(1)}),
              Each(HasSubstr("sample 0 is missing on ")));
}

TEST(SameDataset, NamesAFileWithOtherBytes) {
  EXPECT_THAT(check<Files>({Files("/a").add(50), Files("/b").add(50).add("000017.bin", "BYTES")}),
              Each(AllOf(HasSubstr("files with other bytes"),
                         HasSubstr("sample 17 is /a/000017.bin on "))));
  EXPECT_THAT(check<Files>({Files("/a").add(50), Files("/b").add(50).add("000049.bin", "longer")}),
              Each(AllOf(HasSubstr("files of 5 and 6 bytes"),
                         HasSubstr("sample 49 is /a/000049.bin on "))));
}

// Between two of the 32 samples whose bytes are compared.
TEST(SameDataset, NamesTheFirstFileOfAnotherSize) {
  const auto folder = *TemporaryDirectory::create();
  const RealFiles here(folder.path() / "a", 1000);
  RealFiles there(folder.path() / "b", 1000);
  there.write(503, "other");
  there.write(801, "others");
  EXPECT_THAT(check<RealFiles>({here, here, there}),
              Each(AllOf(HasSubstr("files of other sizes"), HasSubstr("sample 503 is "),
                         HasSubstr("a/000503.bin on "), HasSubstr("for rank 2"))));
}

TEST(SameDataset, NamesAFileOfTheSameSizeThatWasReplacedLater) {
  const auto folder = *TemporaryDirectory::create();
  const RealFiles here(folder.path() / "a", 1000);
  RealFiles there(folder.path() / "b", 1000);
  there.write(503, "SAMPLE 000503", 1);
  EXPECT_THAT(check<RealFiles>({here, there}),
              Each(AllOf(HasSubstr("files with other bytes"), HasSubstr("sample 503 is "))));
}

TEST(SameDataset, AcceptsFilesWithOtherTimes) {
  const auto folder = *TemporaryDirectory::create();
  const RealFiles here(folder.path() / "a", 100);
  RealFiles there(folder.path() / "b", 100);
  for (uint64_t i = 0; i < 100; ++i) there.write(i, fmt::format("sample {:06}", i), 1);
  EXPECT_THAT(check<RealFiles>({here, there}), Each(IsEmpty()));
}

TEST(SameDataset, LeavesAFileThatCannotBeReadToWhoeverNeedsIt) {
  EXPECT_THAT(check<Files>({Files("/a").add(50), Files("/b").add(50).add("000017.bin", "")}),
              Each(IsEmpty()));
}

}  // namespace
}  // namespace millrace::loader
