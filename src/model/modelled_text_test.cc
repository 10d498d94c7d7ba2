#include "model/modelled_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text/yaml.h"
#include "model/sheet.h"

namespace millrace::model {
namespace {

using testing::HasSubstr;

Modelled sample() {
  Sheet sheet;
  bench::Workload& workload = sheet.workload();
  workload.name = "train";
  workload.description = "train: the I/O of `python train.py`";
  sheet.set("framework", workload.framework, bench::Framework::kPytorch, "libraries");
  sheet.set("reader.batch_size", workload.reader.batch_size, uint64_t{16}, "320 samples");
  sheet.set("reader.file_shuffle", workload.reader.file_shuffle, bench::Shuffle::kOff, "by name");
  sheet.assume("reader.prefetch_size", workload.reader.prefetch_size, uint64_t{2}, "a default");
  sheet.set("train.computation_time", workload.train.computation_time,
            bench::TimeModel{.kind = bench::TimeModel::Kind::kNormal, .first = 0.5, .second = 0.01},
            std::string(120, 'x'));
  sheet.assumption("Each worker prefetches 2 batches.");
  sheet.missing("The job also read a checkpoint.");
  sheet.set_ranks(4);
  return sheet.take();
}

TEST(ModelledYaml, HasSectionsValuesAndReasons) {
  const std::string yaml = modelled_yaml(sample());
  EXPECT_THAT(yaml, HasSubstr("reader:\n  batch_size: 16"));
  EXPECT_THAT(yaml, HasSubstr("# 320 samples\n"));
  EXPECT_THAT(yaml, HasSubstr("# assumed: a default\n"));
  EXPECT_THAT(yaml, HasSubstr("framework: pytorch"));
  EXPECT_THAT(yaml, HasSubstr("# - Each worker prefetches 2 batches.\n"));
  EXPECT_THAT(yaml, HasSubstr("# Not modelled:\n# - The job also read a checkpoint.\n"));
  EXPECT_THAT(yaml, HasSubstr("--accelerators 4"));
}

TEST(ModelledYaml, LongReasonsAreAboveTheirKey) {
  EXPECT_THAT(modelled_yaml(sample()),
              HasSubstr("x\n  computation_time: {type: normal, mean: 0.5, stdev: 0.01}\n"));
}

TEST(ModelledYaml, IsYaml) {
  const auto document = parse_yaml(modelled_yaml(sample()), "w.yaml");
  if (!document.ok()) {
    ASSERT_EQ(document.error().code(), Errc::kUnsupported) << document.error().message();
    GTEST_SKIP() << "built without YAML";
  }
}

TEST(ModelledYaml, NoBytesOfTheJobEndAComment) {
  Modelled modelled = sample();
  modelled.keys.front().why = "a\nb: c";
  modelled.missing.front() = "x\ny: z";
  const std::string yaml = modelled_yaml(modelled);
  EXPECT_THAT(yaml, testing::Not(HasSubstr("\nb: c")));
  EXPECT_THAT(yaml, testing::Not(HasSubstr("\ny: z")));
}

TEST(ModelledJson, HasKeysWithReasons) {
  JsonWriter json;
  json.begin_object();
  write_modelled(json, sample());
  json.end_object();
  EXPECT_THAT(
      std::move(json).finish(),
      HasSubstr(
          R"({"key": "reader.prefetch_size", "value": "2", "why": "a default", "assumed": true})"));
}

}  // namespace
}  // namespace millrace::model
