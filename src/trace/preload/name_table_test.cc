#include "trace/preload/name_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace millrace::trace {
namespace {

using wire::kNoName;
using wire::NameId;

class NameTableTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() / "millrace-names-XXXXXX";
    ASSERT_NE(mkdtemp(directory_.data()), nullptr);
    table_ = open();
    ASSERT_NE(table_, nullptr);
  }

  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::unique_ptr<NameTable> open(NameTable::Filter filter = nullptr) {
    auto table = std::make_unique<NameTable>();
    int error = 0;
    return table->open(directory_.c_str(), filter, &error) ? std::move(table) : nullptr;
  }

  NameTable& table() { return *table_; }

 private:
  std::string directory_;
  std::unique_ptr<NameTable> table_;
};

TEST_F(NameTableTest, ANameHasOneNumberAndKeepsItsText) {
  const NameId first = table().intern("/data/a");
  EXPECT_NE(first, kNoName);
  EXPECT_EQ(table().intern("/data/a"), first);
  EXPECT_NE(table().intern("/data/b"), first);
  EXPECT_EQ(table().text(first), "/data/a");
  EXPECT_EQ(table().find("/data/a"), first);
  EXPECT_EQ(table().find("/data/c"), kNoName);
}

TEST_F(NameTableTest, AnotherProcessOfTheSessionSeesTheSameNumbers) {
  const NameId first = table().intern("/data/a");
  const auto other = open();
  EXPECT_EQ(other->intern("/data/a"), first);
  const NameId second = other->intern("/data/b");
  EXPECT_EQ(table().find("/data/b"), second);
}

TEST_F(NameTableTest, ManyNamesFillSeveralLevelsAndChunks) {
  std::set<uint32_t> ids;
  for (int i = 0; i < 60'000; ++i) {
    const std::string name = "/data/train/sample-" + std::to_string(i) + ".jpg";
    ids.insert(static_cast<uint32_t>(table().intern(name)));
  }
  EXPECT_EQ(ids.size(), 60'000u);
  EXPECT_EQ(ids.count(0), 0u);
  for (int i = 0; i < 60'000; i += 997) {
    const std::string name = "/data/train/sample-" + std::to_string(i) + ".jpg";
    EXPECT_EQ(table().text(table().find(name)), name);
  }
}

TEST_F(NameTableTest, ALongNameIsCut) {
  const NameId id = table().intern(std::string(2 * wire::kNameLengthMax, 'x'));
  EXPECT_EQ(table().text(id).size(), wire::kNameLengthMax);
}

TEST_F(NameTableTest, TheFilterRunsOncePerNameAndItsVerdictIsKept) {
  static int asked = 0;
  const auto filtered = open([](std::string_view name) {
    ++asked;
    return name.ends_with(".tmp");
  });
  const NameId left_out = filtered->intern("/x.tmp");
  EXPECT_TRUE(filtered->filtered(left_out));
  EXPECT_TRUE(filtered->filtered(filtered->intern("/x.tmp")));
  EXPECT_FALSE(filtered->filtered(filtered->intern("/x.dat")));
  EXPECT_EQ(asked, 2);
}

TEST_F(NameTableTest, ThreadsAndProcessesThatInternTheSameNamesAgree) {
  constexpr int kNames = 3000;
  const auto intern_all = [](NameTable& names, std::vector<NameId>& ids) {
    for (int i = 0; i < kNames; ++i) ids.push_back(names.intern("/n/" + std::to_string(i)));
  };
  const pid_t child = fork();
  if (child == 0) {
    std::vector<NameId> ids;
    intern_all(table(), ids);
    _exit(0);
  }
  std::vector<std::vector<NameId>> ids(4);
  std::vector<std::thread> threads;
  for (auto& own : ids) threads.emplace_back([&] { intern_all(table(), own); });
  for (std::thread& thread : threads) thread.join();
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  for (const auto& own : ids) EXPECT_EQ(own, ids[0]);
  EXPECT_THAT(ids[0], testing::Not(testing::Contains(kNoName)));
  const auto later = open();
  for (int i = 0; i < kNames; i += 101) {
    EXPECT_EQ(later->find("/n/" + std::to_string(i)), ids[0][static_cast<size_t>(i)]);
  }
}

}  // namespace
}  // namespace millrace::trace
