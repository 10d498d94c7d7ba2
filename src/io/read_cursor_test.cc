#include "io/read_cursor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace millrace::io {
namespace {

TEST(ReadCursor, AShortTransferWithinABlockIsTheEnd) {
  std::vector<std::byte> out(1000);
  ReadCursor cursor({.offset_bytes = 0, .out = out});
  cursor.next({});
  cursor.took(700);
  EXPECT_TRUE(cursor.is_finished());
  EXPECT_EQ(cursor.done_bytes(), 700u);
}

TEST(ReadCursor, AShortTransferThatEndsAtABlockIsContinued) {
  std::vector<std::byte> out(1000);
  ReadCursor cursor({.offset_bytes = 0, .out = out});
  cursor.next({});
  cursor.took(512);
  ASSERT_FALSE(cursor.is_finished());
  const auto rest = cursor.next({});
  EXPECT_EQ(rest.offset_bytes, 512u);
  EXPECT_EQ(rest.into.size(), 488u);
  cursor.took(0);
  EXPECT_TRUE(cursor.is_finished());
  EXPECT_EQ(cursor.done_bytes(), 512u);
}

TEST(ReadCursor, DirectPiecesAreAlwaysAligned) {
  AlignedMemory memory;
  AlignedMemory bounce;
  const MutableByteView room = memory.room(5 * kBlockBytes);
  for (const uint64_t offset : {0, 1, 4095, 4096, 9000}) {
    for (const size_t shift : {0, 1, 4095}) {
      for (const size_t length : {1, 4095, 4096, 4097, 10'000}) {
        ReadCursor cursor({offset, room.subspan(shift, length), /*is_direct=*/true});
        size_t pieces = 0;
        while (!cursor.is_finished()) {
          const auto piece = cursor.next(bounce.room(cursor.bounce_bytes()));
          EXPECT_EQ(piece.offset_bytes % kBlockBytes, 0u);
          EXPECT_EQ(piece.into.size() % kBlockBytes, 0u);
          EXPECT_EQ(reinterpret_cast<uintptr_t>(piece.into.data()) % kBlockBytes, 0u);
          cursor.took(piece.into.size());
          ASSERT_LE(++pieces, 2u);
        }
        EXPECT_EQ(cursor.done_bytes(), length);
      }
    }
  }
}

TEST(ReadCursor, ADirectReadCutBeforeItsFirstByteEnds) {
  AlignedMemory bounce;
  std::vector<std::byte> out(100);
  ReadCursor cursor({.offset_bytes = 1000, .out = out, .is_direct = true});
  cursor.next(bounce.room(cursor.bounce_bytes()));
  cursor.took(512);
  EXPECT_TRUE(cursor.is_finished());
  EXPECT_EQ(cursor.done_bytes(), 0u);
}

}  // namespace
}  // namespace millrace::io
