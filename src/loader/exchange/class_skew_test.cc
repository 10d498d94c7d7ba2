#include "loader/exchange/class_skew.h"

#include <gmock/gmock.h>

#include <vector>

#include "base/numbers/counter_random.h"
#include "base/numbers/permutation.h"

namespace millrace::loader::exchange {
namespace {

ClassCounts ten_classes(uint64_t each) {
  ClassCounts counts;
  for (int64_t label = 0; label < 10; ++label) counts[label] = each;
  return counts;
}

TEST(ClassSkew, AShardOfOneClassAmongTenIsSkewed) {
  const ClassSkew skew = class_skew({{3, 600}}, ten_classes(600));
  EXPECT_NEAR(skew.distance, 0.9, 1e-9);
  EXPECT_TRUE(skew.is_skewed());
  EXPECT_EQ(class_skew_warning(skew, {.fraction = 0.1, .rank = 4}),
            "rank 4: the classes of its shard differ from those of the dataset by 90 % (a random "
            "shard: 5 %), and 10 % of it is exchanged every epoch. Batch normalisation then learns "
            "the statistics of a few classes and the model loses accuracy; shuffle the samples "
            "before they are staged, raise the fraction to exchange, or use SyncBatchNorm");
}

TEST(ClassSkew, RandomShardsHaveTheExpectedDistance) {
  double distance = 0;
  double expected = 0;
  for (uint64_t trial = 0; trial < 200; ++trial) {
    const CounterRandom random(1, trial);
    const KeyedPermutation deal(6000, {random.at(0), random.at(1)});
    ClassCounts shard;
    for (uint64_t i = 0; i < 500; ++i) ++shard[static_cast<int64_t>(deal.at(i) / 600)];
    const ClassSkew skew = class_skew(shard, ten_classes(600));
    EXPECT_FALSE(skew.is_skewed());
    distance += skew.distance / 200;
    expected += skew.expected / 200;
  }
  EXPECT_NEAR(distance / expected, 1, 0.05);
}

TEST(ClassSkew, ASmallShardOfManyClassesIsNotSkewedByChance) {
  ClassCounts whole;
  for (int64_t label = 0; label < 1000; ++label) whole[label] = 100;
  ClassCounts shard;
  for (int64_t label = 0; label < 1000; label += 20) shard[label] = 1;  // 50 samples
  EXPECT_GT(class_skew(shard, whole).distance, 0.9);
  EXPECT_FALSE(class_skew(shard, whole).is_skewed());
}

TEST(ClassSkew, AnEmptyShardAndTheWholeDatasetAreNotSkewed) {
  EXPECT_FALSE(class_skew({}, ten_classes(5)).is_skewed());
  EXPECT_FALSE(class_skew({}, {}).is_skewed());
  EXPECT_EQ(class_skew(ten_classes(5), ten_classes(5)).distance, 0);
  EXPECT_EQ(class_skew_warning(class_skew({}, {}), {}), std::nullopt);
}

}  // namespace
}  // namespace millrace::loader::exchange
