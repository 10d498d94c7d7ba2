#include "analyze/files/file_content.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/io/temporary_directory.h"

namespace millrace::analyze {
namespace {

using std::string_literals::operator""s;

std::string_view of(const std::string& bytes) {
  return content_of(ByteView(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()));
}

TEST(FileContent, KnowsCompressedFilesByTheirMagic) {
  EXPECT_EQ(of("\x1f\x8b\x08\0rest"s), "gzip");
  EXPECT_EQ(of("\x28\xb5\x2f\xfd rest"), "zstd");
  EXPECT_EQ(of("BZh91AY"), "bzip2");
}

TEST(FileContent, KnowsImages) {
  EXPECT_EQ(of("RIFF\x10\0\0\0WEBPVP8 "s), "image");
  EXPECT_EQ(of("RIFF\x10\0\0\0WAVEfmt "s), "");
  EXPECT_EQ(of("\xff\xd8\xff\xe0"), "image");
}

TEST(FileContent, TellsAStoredZipFromACompressedOne) {
  EXPECT_EQ(of("PK\x03\x04\x14\0\0\0\x08\0rest"s), "zip");
  EXPECT_EQ(of("PK\x03\x04\x14\0\0\0\0\0rest"s), "zip stored");
  EXPECT_EQ(of("PK\x03\x04"), "") << "too short to say";
}

TEST(FileContent, KnowsTextWithoutAName) {
  EXPECT_EQ(of("##fileformat=VCFv4.2\n#CHROM\tPOS\n"), "text");
  EXPECT_EQ(of("gr\xc3\xbc\xc3\x9f Gott, 1.5e3\n"), "text");
  EXPECT_EQ(of("1.0 2.0 3.0 4.0\0\0\0\0"s), "");
  EXPECT_EQ(of("ACGT"), "") << "too short to say";
}

TEST(FileContent, IsUnknownForOtherBytes) {
  EXPECT_EQ(of(""), "");
  EXPECT_EQ(of("\x01\x02\x03\x04\x05"), "");
}

TEST(FileContent, IsNoTextIfOnlyTheHeaderIs) {
  const auto directory = TemporaryDirectory::create();
  ASSERT_TRUE(directory.ok());
  const std::string path = directory->path() / "recording.edf";
  const auto write = [&](const std::string& text) { std::ofstream(path) << text; };
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += "1.5 2.5, 3.5\n";
  write(lines);
  EXPECT_EQ(content_of_file(path), "text");
  write(lines + std::string(2000, '\0'));
  EXPECT_EQ(content_of_file(path), "");
}

TEST(FileContent, OfAFileThatIsGoneIsUnknown) { EXPECT_EQ(content_of_file("/nowhere/at/all"), ""); }

}  // namespace
}  // namespace millrace::analyze
