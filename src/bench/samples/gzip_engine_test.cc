#include "bench/samples/gzip_engine.h"

#include <gmock/gmock.h>

#include "base/bytes.h"
#include "base/io/file.h"
#include "base/io/temporary_directory.h"

namespace millrace::bench {
namespace {

using testing::HasSubstr;

class GzipEngineTest : public testing::Test {
 protected:
  Status write(std::initializer_list<std::string_view> pieces) {
    ASSIGN_OR_RETURN(const auto writer, engine_.create(path_));
    uint64_t at = 0;
    for (const std::string_view piece : pieces) {
      RETURN_IF_ERROR(writer->write_at(at, bytes_of(piece)));
      at += piece.size();
    }
    return writer->close();
  }

  TemporaryDirectory directory_ = *TemporaryDirectory::create();
  std::filesystem::path path_ = directory_.path() / "a.csv.gz";
  GzipEngine engine_{*io::open_engine("posix"), 4};
};

TEST_F(GzipEngineTest, ReadsBackWhatItCompressed) {
  const std::string row(3'000'000, 'x');
  const Status written = write({"1,2\n", row});
  if (!written.ok() && written.error().code() == Errc::kUnsupported) GTEST_SKIP() << "no zlib";
  ASSERT_TRUE(written.ok()) << written.error().message();
  EXPECT_LT(read_file(path_)->size(), row.size() / 100);
  const auto reader = *engine_.open(path_);
  EXPECT_EQ(*reader->size_bytes(), 4 + row.size());
  std::string part(4, '\0');
  EXPECT_EQ(*reader->read_at(2, std::as_writable_bytes(std::span(part))), 4);
  EXPECT_EQ(part, "2\nxx");
  EXPECT_EQ(*reader->read_at(row.size() + 2, std::as_writable_bytes(std::span(part))), 2);
  EXPECT_EQ(text_of(*reader->view(0, 3)), "1,2");
  EXPECT_FALSE(reader->view(1, row.size() + 4).has_value());
}

TEST_F(GzipEngineTest, HoldsNoMoreThanItsLimit) {
  if (!write({std::string(600'000, 'x')}).ok()) GTEST_SKIP() << "no zlib";
  GzipEngine engine(*io::open_engine("posix"), 4, /*held_max_bytes=*/1'000'000);
  auto first = engine.open(path_);
  ASSERT_TRUE(first.ok());
  const auto second = engine.open(path_);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message(),
              HasSubstr("a.csv.gz: the inflated files do not fit into 977 KiB; use fewer"));
  first->reset();
  EXPECT_TRUE(engine.open(path_).ok());
}

TEST_F(GzipEngineTest, NamesAFileThatWasCutShort) {
  if (!write({"1,2\n3,4\n"}).ok()) GTEST_SKIP() << "no zlib";
  std::filesystem::resize_file(path_, 20);
  EXPECT_THAT(engine_.open(path_).error().message(), HasSubstr("a.csv.gz: the compressed data"));
}

}  // namespace
}  // namespace millrace::bench
