#include "base/io/mapped_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/io/temporary_directory.h"

namespace millrace {
namespace {

class MappedFileTest : public testing::Test {
 protected:
  TemporaryDirectory directory_ = *TemporaryDirectory::create();
  std::filesystem::path path_ = directory_.path() / "data";
};

TEST_F(MappedFileTest, ShowsTheBytesOfTheFile) {
  std::ofstream(path_) << "some bytes";
  const auto mapped = MappedFile::open(path_, MappedFile::Access::kRandom);
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ(text_of(mapped->bytes()), "some bytes");
}

TEST_F(MappedFileTest, AnEmptyFileHasNoBytes) {
  std::ofstream{path_};
  const auto mapped = MappedFile::open(path_);
  ASSERT_TRUE(mapped.ok());
  EXPECT_TRUE(mapped->bytes().empty());
}

TEST_F(MappedFileTest, StaysValidAfterTheFileIsRemoved) {
  std::ofstream(path_) << "kept";
  const MappedFile mapped = *MappedFile::open(path_);
  std::filesystem::remove(path_);
  EXPECT_EQ(text_of(mapped.bytes()), "kept");
}

TEST_F(MappedFileTest, NamesTheFileThatCannotBeMapped) {
  EXPECT_EQ(MappedFile::open(path_).error().message(),
            path_.native() + ": cannot open: no such file or directory");
  EXPECT_NE(MappedFile::open(directory_.path()).error().message().find("cannot map"),
            std::string::npos);
}

}  // namespace
}  // namespace millrace
