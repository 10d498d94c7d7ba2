#include "base/memory.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(Memory, AvailableIsAtMostTotal) {
  ASSERT_TRUE(memory_total_bytes().has_value());
  ASSERT_TRUE(memory_available_bytes().has_value());
  EXPECT_GT(*memory_available_bytes(), 0u);
  EXPECT_LE(*memory_available_bytes(), *memory_total_bytes());
}

TEST(Memory, APageIsAPowerOfTwoAndAtLeast4KiB) {
  EXPECT_EQ(page_bytes() % 4096, 0u);
  EXPECT_EQ(page_bytes() & (page_bytes() - 1), 0u);
}

TEST(Memory, ALimitIsPositiveOrAbsent) { EXPECT_GT(memory_limit_bytes().value_or(1), 0u); }

}  // namespace
}  // namespace millrace
