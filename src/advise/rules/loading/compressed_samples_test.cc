#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/waiting_job.h"

namespace millrace::advise {
namespace {

TEST(CompressedSamples, AreKnownByTheRegionsOfDecompressors) {
  for (const char* extension : {".rec", ".gz"}) {
    EXPECT_EQ(first_rule({.extension = extension, .decompress_ns = 6 * kSecondNs}),
              "compressed-samples");
  }
  Code little{.extension = ".gz", .decompress_ns = kSecondNs};
  EXPECT_EQ(first_rule(little), "slow-transform");
  little.parse_ns = 6 * kSecondNs;
  EXPECT_EQ(first_rule(little), "text-parsing");
  // Of compressed text, neither has to be half of the code.
  EXPECT_EQ(
      first_rule(
          {.extension = ".jsonl.gz", .decompress_ns = 2 * kSecondNs, .parse_ns = 3 * kSecondNs}),
      "text-parsing");
}

}  // namespace
}  // namespace millrace::advise
