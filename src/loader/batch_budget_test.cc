#include "loader/batch_budget.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace millrace::loader {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;

uint64_t budget(std::optional<uint64_t> limit_bytes,
                const std::map<std::string, std::string>& variables = {}) {
  return batch_budget_bytes(limit_bytes, [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(BatchBudget, IsOneGibibyteIfNothingLimitsTheMemory) {
  EXPECT_EQ(budget(std::nullopt), kGiB);
  EXPECT_EQ(budget(64 * kGiB), kGiB);
}

TEST(BatchBudget, IsAQuarterOfASmallContainer) {
  EXPECT_EQ(budget(kGiB), kGiB / 4);
  EXPECT_EQ(budget(kMiB), 16 * kMiB);
}

TEST(BatchBudget, IsSharedByTheRanksOfAHost) {
  EXPECT_EQ(budget(4 * kGiB, {{"OMPI_COMM_WORLD_RANK", "1"},
                              {"OMPI_COMM_WORLD_SIZE", "16"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "8"}}),
            kGiB / 8);
  EXPECT_EQ(budget(4 * kGiB, {{"SLURM_PROCID", "1"},
                              {"SLURM_STEP_NUM_TASKS", "12"},
                              {"SLURM_STEP_TASKS_PER_NODE", "4(x3)"}}),
            kGiB / 4);
  EXPECT_EQ(
      budget(4 * kGiB,
             {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "?"}}),
      kGiB);
}

}  // namespace
}  // namespace millrace::loader
