#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/io/file.h"
#include "bench/workload/keys.h"
#include "bench/workload/load.h"

namespace millrace::bench {
namespace {

using testing::HasSubstr;

// Another value for each type of key. It only has to be readable, not sensible.
void change(bool& value) { value = !value; }
void change(uint32_t& value) { value = 3; }
void change(uint64_t& value) { value += 512; }
void change(int64_t& value) { value = 7; }
void change(double& value) { value = value * 0.7 + 0.123456789012345; }
void change(std::string& value) { value = "a: \"b\" #c\n\\"; }
void change(std::vector<uint64_t>& value) { value = {4096, 4096}; }
void change(TimeModel& value) { value = {TimeModel::Kind::kGamma, 1.5, 0.1}; }
void change(ChoiceValue choice) { *choice.value = static_cast<uint8_t>(choice.words.size() - 1); }
void change(data::ElementType& value) { value = data::ElementType::kF64; }
void change(std::vector<Column>& value) { value = {{"a b", "float32", 3, true}, {"c", "int8"}}; }
void change(std::vector<ExtraField>& value) {
  value = {{"x", {2, 3}, data::ElementType::kI64}, {"y", {}, data::ElementType::kF32}};
}

void change(const Key& key, Workload& workload) {
  key.visit_in(workload, [](auto&& value) { change(value); });
}

std::vector<std::string> differences(const Workload& a, const Workload& b) {
  std::vector<std::string> out;
  for (const Key& key : keys()) {
    if (value_text(key, a) != value_text(key, b)) out.emplace_back(key.name);
  }
  return out;
}

TEST(ToYaml, TheDefaultIsEmpty) { EXPECT_EQ(to_yaml(Workload{}), ""); }

TEST(ToYaml, WritesWhatDiffersInSections) {
  Workload workload;
  workload.description = "What it is.\nMore.";
  workload.train.epochs = 5;
  workload.dataset.chunk_dims = {4, 4};
  workload.dataset.format = DatasetFormat::kHdf5;
  workload.output.exclude_end_steps = 2;
  workload.train.computation_time = {TimeModel::Kind::kNormal, 1, 0.5};
  EXPECT_EQ(to_yaml(workload),
            "# What it is.\n#\n# More.\n"
            "dataset:\n  format: hdf5\n  hdf5:\n    chunk_dims: [4, 4]\n"
            "train:\n  epochs: 5\n  computation_time: {type: normal, mean: 1, stdev: 0.5}\n"
            "output:\n  metric:\n    exclude_end_steps: 2\n");
}

// Each key alone, so that no other value makes up for it. Values that contradict others are read
// back by read_keys alone; here those of record_dims and such agree by choice.
TEST(ToYaml, EveryKeyIsReadBack) {
  size_t read_count = 0;
  for (const Key& key : keys()) {
    Workload workload;
    workload.model.transformer.emplace();
    change(key, workload);
    const std::string yaml = to_yaml(workload);
    const Result<Workload> back = parse_workload(yaml, "w.yaml");
    if (!back.ok()) {
      // A contradiction names another fact than an unreadable value.
      EXPECT_THAT(back.error().message(), testing::Not(HasSubstr("expected"))) << yaml;
      EXPECT_THAT(back.error().message(), testing::Not(HasSubstr("unknown"))) << yaml;
      continue;
    }
    ++read_count;
    Workload read = *back;
    if (key.name.starts_with("dataset.record_dims") || key.name == "dataset.record_element_type") {
      read.dataset.record_length_bytes = workload.dataset.record_length_bytes;
    }
    EXPECT_THAT(differences(read, workload), testing::IsEmpty()) << yaml;
  }
  EXPECT_GE(read_count, keys().size() - 12);
}

TEST(ToYaml, TheDescriptionIsReadBack) {
  Workload workload;
  workload.description = std::string(300, 'a') + " and " + std::string(90, 'b') + ".\nSecond.";
  EXPECT_EQ(parse_workload(to_yaml(workload), "w.yaml")->description, workload.description);
}

TEST(ToYaml, ATransformerOfDefaultsIsKept) {
  Workload workload;
  workload.model.transformer.emplace();
  EXPECT_TRUE(parse_workload(to_yaml(workload), "w.yaml")->model.transformer.has_value());
}

TEST(ToYaml, AFrameworkDoesNotChangeTheLoader) {
  Workload workload;
  workload.framework = Framework::kTensorflow;
  const Workload read = *parse_workload(to_yaml(workload), "w.yaml");
  EXPECT_EQ(read.reader.data_loader, DataLoader::kNative);
  EXPECT_EQ(read.checkpoint.layout, CheckpointLayout::kTorch);
}

// "One of `fail`, `skip`." for a choice.
std::string choices_text(const Key& key) {
  const std::span<const std::string_view> words = choice_words(key);
  return words.size() < 2 ? "" : fmt::format(" One of `{}`.", fmt::join(words, "`, `"));
}

TEST(Keys, TheGuideListsThemWithTheirDefaultsAndNothingElse) {
  std::string table = "| key | default | meaning |\n|---|---|---|\n";
  for (const Key& key : keys()) {
    const std::string value = default_text(key);
    table += fmt::format("| `{}` |{} | {}{} |\n", key.name, value.empty() ? "" : " " + value,
                         key.meaning, choices_text(key));
  }
  const Result<std::string> guide = read_file("docs/guide/bench.md");
  ASSERT_TRUE(guide.ok()) << guide.error().message();
  EXPECT_TRUE(guide->ends_with(table)) << "docs/guide/bench.md must end with:\n" << table;
}

}  // namespace
}  // namespace millrace::bench
