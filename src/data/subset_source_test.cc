#include "data/subset_source.h"

#include <gmock/gmock.h>

#include "data/testing/digits.h"
#include "data/testing/source_contract.h"

namespace millrace::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<const SampleSource> subset(std::initializer_list<uint64_t> numbers) {
  std::vector<SampleId> samples;
  for (const uint64_t number : numbers) samples.push_back(SampleId{number});
  return *SubsetSource::make(std::make_shared<Digits>(), std::move(samples));
}

std::vector<uint64_t> groups_of(const SampleSource& source) {
  std::vector<uint64_t> begins;
  for (uint64_t i = 0; i <= source.group_count(); ++i) {
    begins.push_back(index_of(source.group_begin(i)));
  }
  return begins;
}

TEST(SubsetSource, PassesTheSourceContract) {
  const Status kept =
      check_source({.source = subset({7, 2, 3, 9}), .samples = {"7", "2", "3", "9"}});
  EXPECT_TRUE(kept.ok()) << kept.error().message();
  EXPECT_TRUE(check_source({.source = subset({}), .samples = {}}).ok());
}

TEST(SubsetSource, KeepsNamesAndLabelsOfSamples) {
  const auto source = subset({7, 2, 2});
  EXPECT_EQ(source->name(SampleId{0}), "digit 7");
  EXPECT_EQ(source->label(SampleId{0}), 14);
  EXPECT_EQ(source->name(SampleId{2}), "digit 2");
}

TEST(SubsetSource, KeepsSamplesOfOneFileTogether) {
  EXPECT_THAT(groups_of(*subset({0, 1, 3, 4, 6, 9})), ElementsAre(0, 2, 5, 6));
  EXPECT_THAT(groups_of(*subset({9, 0, 8})), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(groups_of(*subset({})), ElementsAre(0));
}

TEST(SubsetSource, ForwardsPrepareWithSamplesOfTheWholeSource) {
  const auto digits = std::make_shared<Digits>();
  const auto source = *SubsetSource::make(digits, {SampleId{7}, SampleId{2}});
  const SampleId soon[] = {SampleId{1}, SampleId{0}};
  source->prepare(soon);
  EXPECT_THAT(digits->prepared_, ElementsAre(SampleId{2}, SampleId{7}));
}

TEST(SubsetSource, RefusesASampleThatDoesNotExist) {
  const auto made = SubsetSource::make(std::make_shared<Digits>(), {SampleId{3}, SampleId{10}});
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().message(),
              HasSubstr("sample 10 cannot be part of a subset: the source has 10 samples"));
}

}  // namespace
}  // namespace millrace::data
