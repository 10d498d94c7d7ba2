#include "data/buffer.h"

#include <gtest/gtest.h>

#include <cstring>

namespace millrace::data {
namespace {

TEST(Buffer, GrowsAndIsReused) {
  Buffer buffer;
  const MutableByteView first = buffer.room(5000);
  std::memset(first.data(), 1, first.size());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first.data()) % 4096, 0u);
  EXPECT_EQ(buffer.room(100).data(), first.data());
  EXPECT_EQ(buffer.room(100'000).size(), 100'000u);
  EXPECT_GE(buffer.capacity_bytes(), 100'000u);
}

}  // namespace
}  // namespace millrace::data
