#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "store/preload/copy_bytes.h"
#include "store/preload/fast_files.h"

namespace millrace::store {
namespace {

using State = FastFiles::State;

FastFile file_of(const std::string& text, uint32_t entry, uint32_t flags = 0) {
  return {.bytes = reinterpret_cast<const std::byte*>(text.data()),
          .size_bytes = text.size(),
          .entry = entry,
          .flags = flags};
}

std::string taken(FastFiles& files, int fd, uint64_t count) {
  FastPiece piece;
  if (!files.take(fd, count, piece)) return "not open";
  return {reinterpret_cast<const char*>(piece.bytes), piece.size_bytes};
}

int64_t sought(FastFiles& files, int fd, int64_t offset, int whence) {
  int64_t result = 0;
  EXPECT_TRUE(files.seek(fd, offset, whence, &result));
  return result;
}

TEST(CopyBytes, CopiesAnyLengthAtAnyPlace) {
  std::vector<std::byte> from(200'000);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + i / 251);
  for (const size_t size : {0, 1, 63, 4096, 16383, 16384, 32767, 32768, 32769, 49152, 131'071}) {
    for (const size_t shift : {0, 1, 64, 4095}) {
      std::vector<std::byte> to(size + 2 * 64, std::byte{0x5a});
      copy_bytes(to.data() + 64, from.data() + shift, size);
      EXPECT_EQ(memcmp(to.data() + 64, from.data() + shift, size), 0) << size << " at " << shift;
      EXPECT_EQ(to[63], std::byte{0x5a});
      EXPECT_EQ(to[64 + size], std::byte{0x5a});
    }
  }
}

TEST(FastFiles, ReadAdvancesAndEndsAtTheEnd) {
  const auto files = std::make_unique<FastFiles>();
  const std::string text = "0123456789";
  ASSERT_TRUE(files->adopt(5));
  files->open(5, file_of(text, 3));
  EXPECT_EQ(taken(*files, 5, 4), "0123");
  EXPECT_EQ(taken(*files, 5, 100), "456789");
  EXPECT_EQ(taken(*files, 5, 100), "");
  EXPECT_EQ(sought(*files, 5, -2, SEEK_END), 8);
  EXPECT_EQ(taken(*files, 5, 100), "89");
  EXPECT_EQ(sought(*files, 5, 50, SEEK_SET), 50);
  EXPECT_EQ(taken(*files, 5, 100), "");
}

TEST(FastFiles, SeekFailsLikeTheKernel) {
  const auto files = std::make_unique<FastFiles>();
  const std::string text = "0123456789";
  files->adopt(5);
  files->open(5, file_of(text, 3));
  EXPECT_EQ(sought(*files, 5, 3, SEEK_SET), 3);
  EXPECT_EQ(sought(*files, 5, -4, SEEK_CUR), -EINVAL);
  EXPECT_EQ(sought(*files, 5, 0, SEEK_CUR), 3);
  EXPECT_EQ(sought(*files, 5, 10, SEEK_DATA), -ENXIO);
  EXPECT_EQ(sought(*files, 5, 4, SEEK_HOLE), 10);
  EXPECT_EQ(sought(*files, 5, 0, 99), -EINVAL);
  EXPECT_EQ(sought(*files, 5, int64_t{1} << 50, SEEK_SET), -EOVERFLOW);
}

TEST(FastFiles, AClosedNumberIsParkedAndUsedAgain) {
  const auto files = std::make_unique<FastFiles>();
  const std::string text = "text";
  files->adopt(7);
  files->open(7, file_of(text, 1));
  EXPECT_TRUE(files->close(7));
  EXPECT_FALSE(files->close(7));
  EXPECT_EQ(files->state(7), State::kParked);
  EXPECT_EQ(taken(*files, 7, 9), "not open");
  EXPECT_EQ(files->claim(-1), 7);
  EXPECT_EQ(files->claim(-1), -1);
  files->open(7, file_of(text, 2));
  FastFile file;
  EXPECT_EQ(files->look(7, file), State::kOpen);
  EXPECT_EQ(file.entry, 2u);
  files->disown(7);
  EXPECT_EQ(files->look(7, file), State::kNone);
  EXPECT_EQ(files->count(), 0u);
}

TEST(FastFiles, NumbersThatNobodyOpenedAreNotOurs) {
  const auto files = std::make_unique<FastFiles>();
  FastFile file;
  for (const int fd : {-1, 0, 3, 1'000'000, 2'000'000'000}) {
    EXPECT_EQ(files->look(fd, file), State::kNone) << fd;
    EXPECT_FALSE(files->close(fd)) << fd;
  }
}

TEST(FastFiles, ThreadsShareOneOffset) {
  const auto files = std::make_unique<FastFiles>();
  const std::string text(100'000, 'x');
  files->adopt(3);
  files->open(3, file_of(text, 1));
  std::array<size_t, 4> sums{};
  std::vector<std::thread> threads;
  for (size_t& sum : sums) {
    threads.emplace_back([&files, &sum] {
      for (;;) {
        const size_t size = taken(*files, 3, 7).size();
        if (size == 0) return;
        sum += size;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sums[0] + sums[1] + sums[2] + sums[3], text.size());
}

// Some threads open and close the numbers with files of different content; others read from any.
// Every piece must be of one file, and the length and the entry must belong together.
TEST(FastFiles, AReaderNeverSeesAMixtureOfTwoFiles) {
  const auto files = std::make_unique<FastFiles>();
  std::vector<std::string> texts;
  for (size_t i = 0; i < 8; ++i) texts.emplace_back(100 + i, static_cast<char>('a' + i));
  for (int fd = 3; fd < 6; ++fd) {
    files->adopt(fd);
    files->unlock(fd, State::kParked);
  }
  std::atomic<bool> ends = false;
  std::atomic<uint64_t> wrong_count = 0;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; i < 20'000; ++i) {
        const int fd = files->claim(-1);
        if (fd < 0) continue;
        files->open(fd, file_of(texts[i % 8], static_cast<uint32_t>(i % 8)));
        if (taken(*files, fd, 1).size() > 1) ++wrong_count;
        files->close(fd);
      }
      ends = true;
    });
    threads.emplace_back([&] {
      for (int fd = 3; !ends; fd = fd == 5 ? 3 : fd + 1) {
        FastFile file;
        if (files->look(fd, file) == State::kOpen &&
            (file.size_bytes != 100 + file.entry ||
             file.bytes != reinterpret_cast<const std::byte*>(texts[file.entry].data()))) {
          ++wrong_count;
        }
        const std::string piece = taken(*files, fd, 200);
        if (piece.empty() || piece == "not open") continue;
        if (piece.size() > 100u + static_cast<size_t>(piece[0] - 'a') ||
            piece.find_first_not_of(piece[0]) != std::string::npos) {
          ++wrong_count;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong_count, 0u);
}

}  // namespace
}  // namespace millrace::store
