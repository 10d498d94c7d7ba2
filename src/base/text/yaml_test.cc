#include "base/text/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace {
namespace {

using testing::HasSubstr;

std::string error_of(std::string_view text) {
  const auto document = parse_yaml(text, "w.yaml");
  return document.ok() ? "no error" : document.error().message();
}

TEST(Yaml, ReadsAWorkload) {
  const auto document = parse_yaml(
      "# a workload\n"
      "model: {name: unet3d, type: cnn}\n"
      "dataset:\n"
      "  num_files_train: 168\n"
      "  record_length_bytes: 146600628.5\n"
      "  keep_files: yes\n"
      "  columns: [a, 'b', \"12\"]\n"
      "  compression:\n",
      "w.yaml");
  ASSERT_TRUE(document.ok()) << document.error().message();
  const Node* dataset = document->root.find("dataset");
  ASSERT_NE(dataset, nullptr);
  EXPECT_EQ(*dataset->find("num_files_train")->as_int(), 168);
  EXPECT_EQ(dataset->find("num_files_train")->line(), 4u);
  EXPECT_EQ(*dataset->find("record_length_bytes")->as_double(), 146600628.5);
  EXPECT_EQ(*dataset->find("keep_files")->as_bool(), true);
  EXPECT_EQ(dataset->find("columns")->items().size(), 3u);
  EXPECT_TRUE(dataset->find("compression")->is_null());
}

TEST(Yaml, ASectionIsWhereItsKeyIs) {
  const auto document = parse_yaml("a: 1\nb:\n  # comment\n  c:\n  - 2\n", "w.yaml");
  const Node* section = document->root.find("b");
  EXPECT_EQ(section->line(), 2u);
  EXPECT_EQ(section->find("c")->line(), 4u);
  EXPECT_EQ(section->find("c")->items()[0].line(), 5u);
}

TEST(Yaml, AQuotedNumberIsAString) {
  const auto document = parse_yaml("a: '12'\nb: 12\n", "w.yaml");
  EXPECT_FALSE(document->root.find("a")->as_int().ok());
  EXPECT_EQ(*document->root.find("a")->as_string(), "12");
  EXPECT_EQ(*document->root.find("b")->as_string(), "12");
}

TEST(Yaml, AnEmptyFileIsNull) {
  const auto document = parse_yaml("", "w.yaml");
  ASSERT_TRUE(document.ok());
  EXPECT_TRUE(document->root.is_null());
}

TEST(Yaml, ReadsBlockScalarsAndFlowKeys) {
  const auto document = parse_yaml("a: |\n  one\n  two\nb: {c: [1, {d: e}]}\n? f\n: g\n", "w.yaml");
  ASSERT_TRUE(document.ok()) << document.error().message();
  EXPECT_EQ(document->root.find("a")->text(), "one\ntwo\n");
  EXPECT_EQ(document->root.find("b")->find("c")->items()[1].find("d")->text(), "e");
  EXPECT_EQ(document->root.find("f")->text(), "g");
}

TEST(Yaml, ErrorsNameTheLine) {
  EXPECT_THAT(error_of("a: 1\nb: [1, 2\n"), HasSubstr("w.yaml:"));
  EXPECT_THAT(error_of("a:\n  b: 1\n c: 2\n"), HasSubstr("w.yaml:3: "));
  EXPECT_EQ(error_of("a: 1\nb: 2\na: 3\n"), "w.yaml:3: the key 'a' appears twice");
  EXPECT_EQ(error_of("a: 1\n<<: 2\n"),
            "w.yaml:2: merge keys (<<) are not supported; repeat the keys");
  EXPECT_THAT(error_of("a: !!binary x\n"), HasSubstr("w.yaml:1: the tag"));
  EXPECT_THAT(error_of("a: 1\n---\nb: 2\n"),
              HasSubstr("w.yaml:2: there is more than one document"));
}

TEST(Yaml, ExpandsAliasesUpToALimit) {
  EXPECT_EQ(error_of("a: &x [1, 2]\nb: *x\n"), "no error");
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    bomb += fmt::format("a{0}: &a{0} [", i);
    for (int j = 0; j < 10; ++j) bomb += fmt::format("{}*a{}", j == 0 ? "" : ", ", i - 1);
    bomb += "]\n";
  }
  EXPECT_THAT(error_of(bomb), HasSubstr("more than 1000000 values, counting aliases"));
}

TEST(Yaml, RefusesAnAliasInsideItsOwnValue) {
  EXPECT_THAT(error_of("a: &x [1, *x]\n"), HasSubstr("an alias is inside the value it refers to"));
}

// yaml-cpp 0.7 turns this into documents until the memory is full.
TEST(Yaml, RefusesAFileThatBeginsWithAComma) { EXPECT_THAT(error_of(",\n"), HasSubstr("w.yaml:")); }

TEST(Yaml, LimitsStringsMultipliedByAliases) {
  const std::string file = "a: &a " + std::string(100'000, 'x') + "\nb: [";
  std::string aliases = "*a";
  for (int i = 0; i < 2000; ++i) aliases += ", *a";
  EXPECT_THAT(error_of(file + aliases + "]\n"), HasSubstr("counting aliases"));
}

TEST(Yaml, RefusesDeepNesting) {
  EXPECT_THAT(error_of(std::string(100'000, '[')), HasSubstr("w.yaml:1: "));
  EXPECT_THAT(error_of(std::string(300, '[') + std::string(300, ']')), HasSubstr("nested"));
}

}  // namespace
}  // namespace millrace
