#include "base/text/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/text/json.h"

namespace millrace {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

Document document_of(std::string_view json) { return *parse_json(json, "w.json"); }

TEST(Fields, FillsAStructAndKeepsDefaults) {
  const Document document = document_of(R"({
    "files": 168, "share": 0.5, "name": "unet3d", "shuffle": true,
    "chunk": "64KiB", "plain": 4096, "dims": [1, 2.5], "columns": ["a", "b"]
  })");
  Fields fields = *Fields::of(document, document.root);
  uint64_t files = 1;
  uint64_t chunk = 0;
  uint64_t plain = 0;
  int64_t epochs = 5;
  double share = 0;
  bool shuffle = false;
  std::string name;
  std::vector<double> dims;
  std::vector<std::string> columns;
  EXPECT_TRUE(fields.require("files", files).ok());
  EXPECT_TRUE(fields.read("epochs", epochs).ok());
  EXPECT_TRUE(fields.read("share", share).ok());
  EXPECT_TRUE(fields.read("shuffle", shuffle).ok());
  EXPECT_TRUE(fields.read("name", name).ok());
  EXPECT_TRUE(fields.read_bytes("chunk", chunk).ok());
  EXPECT_TRUE(fields.read_bytes("plain", plain).ok());
  EXPECT_TRUE(fields.read("dims", dims).ok());
  EXPECT_TRUE(fields.read("columns", columns).ok());
  EXPECT_TRUE(fields.finish().ok());
  EXPECT_EQ(files, 168u);
  EXPECT_EQ(epochs, 5);
  EXPECT_EQ(share, 0.5);
  EXPECT_TRUE(shuffle);
  EXPECT_EQ(name, "unet3d");
  EXPECT_EQ(chunk, 65536u);
  EXPECT_EQ(plain, 4096u);
  EXPECT_THAT(dims, ElementsAre(1, 2.5));
  EXPECT_THAT(columns, ElementsAre("a", "b"));
}

TEST(Fields, ReportsAnUnknownKeyWithItsLineAndASuggestion) {
  const Document document = document_of("{\"dataset\": {\n\"num_file_train\": 1}}");
  Fields root = *Fields::of(document, document.root);
  Fields dataset = *root.section("dataset");
  uint64_t files = 0;
  EXPECT_TRUE(dataset.read("num_files_train", files).ok());
  EXPECT_EQ(dataset.finish().error().message(),
            "w.json:2: unknown key 'dataset.num_file_train'; did you mean 'num_files_train'?");
  EXPECT_TRUE(root.finish().ok());
}

TEST(Fields, ReportsAMissingKey) {
  const Document document = document_of("{\"dataset\":\n {\"format\": null}}");
  Fields root = *Fields::of(document, document.root);
  Fields dataset = *root.section("dataset");
  std::string format;
  EXPECT_EQ(dataset.require("format", format).error().message(),
            "w.json:2: the key 'dataset.format' is missing");
  EXPECT_FALSE(dataset.has("format"));
}

TEST(Fields, AnAbsentSectionIsEmpty) {
  const Document document = document_of("{}");
  Fields root = *Fields::of(document, document.root);
  Fields train = *root.section("train");
  uint64_t epochs = 3;
  EXPECT_TRUE(train.read("epochs", epochs).ok());
  EXPECT_TRUE(train.finish().ok());
  EXPECT_EQ(epochs, 3u);
}

TEST(Fields, ReportsAWrongTypeWithItsKey) {
  const Document document = document_of("{\"train\": {\n\"epochs\": \"many\"}, \"x\": 1}");
  Fields root = *Fields::of(document, document.root);
  Fields train = *root.section("train");
  uint64_t epochs = 3;
  EXPECT_EQ(train.read("epochs", epochs).error().message(),
            "w.json:2: train.epochs: expected a whole number that is not negative, found the "
            "string 'many'");
  EXPECT_EQ(root.section("x").error().message(),
            "w.json:2: x: expected a section with keys, found the number 1");
}

TEST(Fields, ReportsAWrongChoiceWithTheChoices) {
  const Document document = document_of(R"({"format": "tfrecrd"})");
  Fields fields = *Fields::of(document, document.root);
  std::string format = "npz";
  EXPECT_EQ(fields.read_choice("format", {"npz", "tfrecord"}, format).error().message(),
            "w.json:1: format: 'tfrecrd' is not one of npz, tfrecord; did you mean 'tfrecord'?");
  EXPECT_EQ(format, "npz");
}

TEST(Fields, ErrorsOfTheCallerHaveTheLineOfTheKey) {
  const Document document = document_of("{\n\n\"a\": 0}");
  const Fields fields = *Fields::of(document, document.root);
  EXPECT_EQ(fields.complain("a", "must be positive").message(), "w.json:3: a: must be positive");
}

TEST(Fields, ReadsListsOfWholeNumbers) {
  const Document document = document_of("{\"dims\": [3, 18446744073709551615], \"bad\": [-1]}");
  Fields fields = *Fields::of(document, document.root);
  std::vector<uint64_t> dims;
  ASSERT_TRUE(fields.read("dims", dims).ok());
  EXPECT_THAT(dims, ElementsAre(3, std::numeric_limits<uint64_t>::max()));
  EXPECT_EQ(fields.read("bad", dims).error().message(),
            "w.json:1: bad: expected a whole number that is not negative, found the number -1");
}

TEST(Fields, AValueOfAnyFormCountsAsRead) {
  const Document document = document_of("{\"time\": {\"mean\": 1}, \"none\": null}");
  Fields fields = *Fields::of(document, document.root);
  ASSERT_NE(fields.find("time"), nullptr);
  EXPECT_EQ(fields.find("none"), nullptr);
  EXPECT_TRUE(fields.finish().ok());
}

TEST(Document, ACombinedDocumentKnowsWhoseALineIs) {
  const Document document{
      .name = "all",
      .root = {},
      .parts = {{1, "a.yaml"}, {10, "b.yaml"}, {12, "the override 'c'", false}}};
  EXPECT_EQ(document.place_of(9), "a.yaml:9");
  EXPECT_EQ(document.place_of(10), "b.yaml:1");
  EXPECT_EQ(document.complain(Errc::kInvalidArgument, 12, "is wrong").message(),
            "the override 'c': is wrong");
  EXPECT_EQ((Document{.name = "all", .root = {}, .parts = {}}).place_of(3), "all:3");
}

}  // namespace
}  // namespace millrace
