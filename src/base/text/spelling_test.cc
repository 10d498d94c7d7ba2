#include "base/text/spelling.h"

#include <gtest/gtest.h>

#include <vector>

namespace millrace {
namespace {

TEST(Spelling, DistanceCountsSingleChanges) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("batch_size", "batchsize"), 1u);
  EXPECT_EQ(edit_distance("epochs", "epohcs"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(Spelling, FindsTheWordThatWasMeant) {
  const std::vector<std::string> keys = {"num_files_eval", "num_files_train", "format"};
  EXPECT_EQ(closest_word("num_file_train", keys), "num_files_train");
  EXPECT_EQ(closest_word("fromat", keys), "format");
  EXPECT_EQ(did_you_mean("formats", keys), "; did you mean 'format'?");
}

TEST(Spelling, SuggestsNothingIfNothingIsClose) {
  const std::vector<std::string> keys = {"format", "a"};
  EXPECT_EQ(closest_word("compression", keys), std::nullopt);
  EXPECT_EQ(closest_word("b", keys), std::nullopt);
  EXPECT_EQ(did_you_mean("zzz", {}), "");
}

}  // namespace
}  // namespace millrace
