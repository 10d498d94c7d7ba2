#include "store/pack/sparse_writer.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "store/testing/store_case.h"

namespace millrace::store {
namespace {

class SparseWriters : public StoreCase {
 protected:
  // Writes the bytes in blocks of this size. Returns how many are allocated.
  uint64_t allocated(const std::string& bytes, size_t block_bytes) {
    const std::filesystem::path path = top_ / "file";
    std::filesystem::remove(path);
    const auto file = File::open(path, O_WRONLY | O_CREAT | O_EXCL);
    EXPECT_TRUE(file.ok());
    SparseWriter writer(*file);
    for (size_t at = 0; at < bytes.size(); at += block_bytes) {
      EXPECT_TRUE(writer.add(bytes_of(bytes.substr(at, block_bytes))).ok());
    }
    EXPECT_TRUE(writer.finish().ok());
    EXPECT_EQ(content_of(path), bytes);
    struct stat status{};
    EXPECT_EQ(::stat(path.c_str(), &status), 0);
    return static_cast<uint64_t>(status.st_blocks) * 512;
  }
};

constexpr size_t kMiB = 1 << 20;

TEST_F(SparseWriters, BytesAreTheSameAndZerosTakeNoSpace) {
  const std::string zeros(3 * kMiB, '\0');
  const std::string middle = noise(1, 100'000) + zeros + noise(2, 70'001);
  for (const size_t block : {size_t{1} << 14, size_t{65'537}, kMiB, 8 * kMiB}) {
    EXPECT_LT(allocated(zeros, block), 100'000u) << block;
    EXPECT_LT(allocated(zeros + "end", block), 200'000u) << block;
    EXPECT_LT(allocated("begin" + zeros, block), 200'000u) << block;
    EXPECT_LT(allocated(middle, block), 500'000u) << block;
    EXPECT_GE(allocated(noise(3, kMiB + 1), block), kMiB) << block;
  }
  EXPECT_EQ(allocated("", 10), 0u);
  EXPECT_EQ(allocated(std::string(1, '\0'), 10), 0u);
}

}  // namespace
}  // namespace millrace::store
