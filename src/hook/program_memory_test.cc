#include "hook/program_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string_view>

namespace millrace::hook {
namespace {

// A page of text followed by an inaccessible page.
class ProgramMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    page_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    void* memory =
        mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    begin_ = static_cast<char*>(memory);
    end_ = begin_ + page_;
    std::memset(begin_, 'a', page_);
    ASSERT_EQ(mprotect(end_, page_, PROT_NONE), 0);
  }
  void TearDown() override { munmap(begin_, 2 * page_); }

  size_t page_ = 0;
  char* begin_ = nullptr;
  char* end_ = nullptr;
  char copy_[64] = {};
};

TEST_F(ProgramMemoryTest, CopiesATextUpToItsEnd) {
  end_[-1] = '\0';
  EXPECT_EQ(copy_text(end_ - 4, copy_, sizeof(copy_)), 3);
  EXPECT_EQ(std::string_view(copy_, 3), "aaa");
}

TEST_F(ProgramMemoryTest, CutsALongText) { EXPECT_EQ(copy_text(begin_, copy_, sizeof(copy_)), 64); }

TEST_F(ProgramMemoryTest, ATextWithoutAnEndCannotBeRead) {
  EXPECT_EQ(copy_text(end_ - 4, copy_, sizeof(copy_)), -1);
  EXPECT_EQ(copy_text(end_, copy_, sizeof(copy_)), -1);
  EXPECT_EQ(copy_text(nullptr, copy_, sizeof(copy_)), -1);
  EXPECT_EQ(copy_text(reinterpret_cast<const char*>(16), copy_, sizeof(copy_)), -1);
}

TEST_F(ProgramMemoryTest, ReadsAListOfStringsToItsEnd) {
  char text[] = "A=1";
  char* strings[100];
  for (char*& string : strings) string = text;
  strings[99] = nullptr;
  EXPECT_TRUE(can_read_strings(strings));
  EXPECT_TRUE(can_read_strings(nullptr));
  strings[98] = end_;
  EXPECT_FALSE(can_read_strings(strings));
}

TEST_F(ProgramMemoryTest, AListWithoutAnEndCannotBeRead) {
  auto** list = reinterpret_cast<char**>(end_) - 3;
  for (int i = 0; i < 3; ++i) list[i] = begin_;
  EXPECT_FALSE(can_read_strings(list));
  list[2] = nullptr;
  EXPECT_TRUE(can_read_strings(list));
  EXPECT_FALSE(can_read_strings(reinterpret_cast<char**>(end_)));
}

}  // namespace
}  // namespace millrace::hook
