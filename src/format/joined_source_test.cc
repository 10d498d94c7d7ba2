#include "format/joined_source.h"

#include <gmock/gmock.h>

#include <fstream>
#include <string>

#include "base/io/temporary_directory.h"
#include "data/testing/source_contract.h"
#include "format/file_source.h"

namespace millrace::format {
namespace {

using data::SampleId;
using testing::HasSubstr;

class JoinedSourceTest : public testing::Test {
 protected:
  std::shared_ptr<const data::SampleSource> folder(const std::string& name,
                                                   const std::vector<std::string>& contents) {
    const auto directory = directory_.path() / name;
    std::filesystem::create_directory(directory);
    for (size_t i = 0; i < contents.size(); ++i) {
      const auto path = directory / fmt::format("{}.txt", i);
      std::ofstream(path) << contents[i];
    }
    return *open_folder({.directory = directory, .extensions = {}, .has_classes = false});
  }

  TemporaryDirectory directory_ = *TemporaryDirectory::create();
};

std::string size_of(uint64_t size) {
  return std::string(reinterpret_cast<const char*>(&size), sizeof size);
}

TEST_F(JoinedSourceTest, ASampleIsItsPartsAndTheirLengths) {
  const auto source =
      JoinedSource::make({{"a", folder("a", {"one", ""})}, {"b", folder("b", {"", "twenty"})}});
  ASSERT_TRUE(source.ok()) << source.error().message();
  const Status checked = data::check_source(
      {.source = *source,
       .samples = {size_of(3) + "one" + size_of(0), size_of(0) + size_of(6) + "twenty"}});
  EXPECT_TRUE(checked.ok()) << checked.error().message();
  EXPECT_THAT((*source)->name(SampleId{1}), HasSubstr("a/1.txt"));
}

TEST_F(JoinedSourceTest, IsSplitIntoTheParts) {
  const auto source =
      *JoinedSource::make({{"a", folder("a", {"one"})}, {"b", folder("b", {"two"})}});
  data::Buffer room;
  SampleFields fields;
  ASSERT_TRUE(source->format()->split(*source->read(SampleId{0}, room), fields).ok());
  ASSERT_EQ(fields.list().size(), 2u);
  EXPECT_EQ(fields.list()[0].name, "a");
  EXPECT_EQ(text_of(fields.list()[1].array.bytes), "two");
}

TEST_F(JoinedSourceTest, AnyDamageIsAnError) {
  const auto format = (*JoinedSource::make({{"a", folder("a", {"one"})}}))->format();
  SampleFields fields;
  for (const std::string& bytes : {std::string(""), std::string("short"), size_of(4) + "one",
                                   size_of(2) + "one", size_of(~uint64_t{0}) + "one"}) {
    EXPECT_FALSE(format->split(bytes_of(bytes), fields).ok()) << bytes;
  }
}

TEST_F(JoinedSourceTest, AnErrorNamesTheFileOfThePart) {
  const auto source =
      *JoinedSource::make({{"a", folder("a", {"one"})}, {"b", folder("b", {"two"})}});
  std::filesystem::remove(directory_.path() / "b" / "0.txt");
  data::Buffer room;
  const auto bytes = source->read(SampleId{0}, room);
  ASSERT_FALSE(bytes.ok());
  EXPECT_THAT(bytes.error().message(), HasSubstr("b/0.txt"));
}

TEST_F(JoinedSourceTest, PartsMustHaveAsManySamples) {
  EXPECT_EQ(JoinedSource::make({{"a", folder("a", {"1", "2"})}, {"b", folder("b", {"1"})}})
                .error()
                .message(),
            "'b' has 1 samples, but 'a' has 2");
  EXPECT_FALSE(JoinedSource::make({}).ok());
}

}  // namespace
}  // namespace millrace::format
