#include "bench/workload/override.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Override parsed(std::string_view text) {
  Result<Override> change = parse_override(text);
  EXPECT_TRUE(change.ok()) << change.error().message();
  return change.ok() ? *change : Override{};
}

std::string error_of(std::string_view text) {
  const Result<Override> change = parse_override(text);
  return change.ok() ? "no error" : change.error().message();
}

TEST(Override, AllNotationsOfHydraSetTheSameKey) {
  for (const char* text : {"train.epochs=1", "workload.train.epochs=1", "+workload.train.epochs=1",
                           "++workload.train.epochs=1", " ++train.epochs = 1 "}) {
    const Override change = parsed(text);
    EXPECT_EQ(change.kind, Override::Kind::kSet) << text;
    EXPECT_THAT(change.path, ElementsAre("train", "epochs")) << text;
    EXPECT_EQ(change.value.text(), "1") << text;
  }
}

TEST(Override, ReadsListsAndMapsAsHydraWritesThem) {
  const Override list = parsed("dataset.record_dims=[64, 32,8]");
  ASSERT_EQ(list.value.items().size(), 3u);
  EXPECT_EQ(list.value.items()[2].text(), "8");
  const Override map = parsed("++train.computation_time={type:normal,mean: 1.5, stdev:'0.1'}");
  EXPECT_EQ(map.value.find("type")->text(), "normal");
  EXPECT_EQ(map.value.find("mean")->text(), "1.5");
  EXPECT_EQ(map.value.find("stdev")->kind(), Node::Kind::kString);
  const Override nested = parsed("a=[{b: [c, 'd, e'], f: ${g.h}}, []]");
  EXPECT_EQ(nested.value.items()[0].find("b")->items()[1].text(), "d, e");
  EXPECT_EQ(nested.value.items()[0].find("f")->text(), "${g.h}");
}

TEST(Override, AValueMayContainAnything) {
  EXPECT_EQ(parsed("dataset.data_folder=/a b/c=d,e:f").value.text(), "/a b/c=d,e:f");
  EXPECT_EQ(parsed("output.folder='it\\'s'").value.text(), "it's");
  EXPECT_EQ(parsed("output.folder=").value.kind(), Node::Kind::kString);
  EXPECT_TRUE(parsed("reader.transfer_size=null").value.is_null());
}

TEST(Override, DeletesAndChooses) {
  EXPECT_EQ(parsed("~workload.checkpoint").kind, Override::Kind::kDelete);
  EXPECT_THAT(parsed("~workload.checkpoint=x").path, ElementsAre("checkpoint"));
  EXPECT_EQ(parsed("workload=unet3d_h100").kind, Override::Kind::kWorkload);
  EXPECT_EQ(parsed("workload=unet3d_h100").value.text(), "unet3d_h100");
}

TEST(Override, OnlyTheFolderOfHydraMatters) {
  EXPECT_THAT(parsed("++hydra.run.dir=results/x").path, ElementsAre("output", "folder"));
  EXPECT_EQ(parsed("++hydra.output_subdir=configs").kind, Override::Kind::kIgnored);
  EXPECT_EQ(parsed("hydra/job_logging=disabled").kind, Override::Kind::kIgnored);
}

TEST(Override, ErrorsNameTheOverride) {
  EXPECT_EQ(error_of("train.epochs"),
            "the override 'train.epochs': expected key=value, for example train.epochs=1");
  EXPECT_THAT(error_of("a=[1,2"), HasSubstr("'a=[1,2': expected ',' or ']', but it ends"));
  EXPECT_THAT(error_of("a=[1] 2"), HasSubstr("expected the end before '2'"));
  EXPECT_THAT(error_of("a={b:1,b:2}"), HasSubstr("the key 'b' appears twice"));
  EXPECT_THAT(error_of("a={b}"), HasSubstr("expected ':'"));
  EXPECT_THAT(error_of("a='b"), HasSubstr("not closed"));
  EXPECT_THAT(error_of("a..b=1"), HasSubstr("is not a key"));
  EXPECT_THAT(error_of("=1"), HasSubstr("is not a key"));
  EXPECT_THAT(error_of("a=\xff"), HasSubstr("UTF-8"));
  EXPECT_THAT(error_of("a=" + std::string(300, '[')), HasSubstr("nested more than 200 deep"));
}

}  // namespace
}  // namespace millrace::bench
