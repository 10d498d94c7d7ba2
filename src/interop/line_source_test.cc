#include "interop/line_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/io/gzip.h"
#include "base/io/temporary_directory.h"
#include "base/numbers/random.h"

namespace millrace::interop {
namespace {

using testing::HasSubstr;

class LineSourceTest : public testing::Test {
 protected:
  std::string write(const std::string& bytes) {
    const std::string path = (directory_.path() / "file").string();
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  static std::string compressed(const std::string& text) {
    std::string out;
    const auto gzip = GzipWriter::create(6);
    EXPECT_TRUE((*gzip)->append(text, out).ok());
    EXPECT_TRUE((*gzip)->finish(out).ok());
    return out;
  }

  // The whole text of a file. Every run but the last must end with a newline.
  std::string read(const std::string& bytes) {
    auto source = LineSource::open(write(bytes));
    EXPECT_TRUE(source.ok());
    std::string all;
    while (true) {
      const auto lines = source->next();
      EXPECT_TRUE(lines.ok());
      if (!lines.ok() || lines->empty()) break;
      EXPECT_TRUE(all.empty() || all.back() == '\n');
      all += *lines;
    }
    problem_ = source->problem();
    EXPECT_EQ(source->text_bytes(), all.size());
    return all;
  }

  static std::string random_lines(size_t count) {
    Random random(3);
    std::string text;
    for (size_t i = 0; i < count; ++i) {
      text += std::string(random.below(400), static_cast<char>('a' + random.below(26)));
      text += std::to_string(random.next()) + '\n';
    }
    return text;
  }

  TemporaryDirectory directory_ = *TemporaryDirectory::create();
  std::string problem_;
};

TEST_F(LineSourceTest, ReadsPlainTextInWholeLines) {
  const std::string text = random_lines(60'000) + "no end";
  EXPECT_EQ(read(text), text);
  EXPECT_EQ(problem_, "");
}

TEST_F(LineSourceTest, ReadsNothingFromAnEmptyFile) { EXPECT_EQ(read(""), ""); }

#ifdef MILLRACE_HAVE_GZIP
TEST_F(LineSourceTest, ReadsGzipOfManyMembers) {
  const std::string text = random_lines(30'000);
  EXPECT_EQ(read(compressed(text) + compressed("") + compressed("one\n") + compressed(text)),
            text + "one\n" + text);
  EXPECT_EQ(problem_, "");
}

TEST_F(LineSourceTest, ReadsATruncatedGzipUpToTheCutAndSaysWhere) {
  const std::string text = random_lines(30'000);
  const std::string whole = compressed(text);
  const std::string part = read(whole.substr(0, whole.size() / 2));
  EXPECT_GT(part.size(), text.size() / 4);
  EXPECT_EQ(part, text.substr(0, part.size()));
  EXPECT_THAT(problem_, HasSubstr("cut off at byte " + std::to_string(whole.size() / 2)));
}

TEST_F(LineSourceTest, ReadsADamagedGzipUpToTheDamage) {
  const std::string text = random_lines(30'000);
  std::string damaged = compressed(text);
  damaged.replace(damaged.size() / 2, 200, 200, '\xff');
  const std::string part = read(damaged);
  EXPECT_EQ(part.substr(0, part.size() / 2), text.substr(0, part.size() / 2));
  EXPECT_THAT(problem_, HasSubstr("damaged"));
}

TEST_F(LineSourceTest, ReportsBytesAfterAMemberThatAreNotGzip) {
  EXPECT_EQ(read(compressed("one\n") + "rubbish"), "one\n");
  EXPECT_THAT(problem_, HasSubstr("not gzip"));
}
#endif

}  // namespace
}  // namespace millrace::interop
