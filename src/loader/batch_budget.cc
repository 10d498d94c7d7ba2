#include "loader/batch_budget.h"

#include <algorithm>
#include <cstdlib>

#include "base/system/memory.h"
#include "wire/launchers.h"

namespace millrace::loader {
namespace {

constexpr uint64_t kMost = uint64_t{1} << 30;
constexpr uint64_t kLeast = uint64_t{16} << 20;
constexpr uint64_t kShare = 4;

// Slurm writes "8(x4),7": the number of its first node.
uint64_t ranks_on_this_host(const std::function<const char*(const char*)>& variable) {
  const wire::Launcher* const launcher = wire::find_launcher(variable);
  if (launcher == nullptr) return 1;
  const char* const name = wire::place_variables(*launcher, variable).local_size;
  if (name == nullptr) return 1;
  return std::clamp<uint64_t>(std::strtoull(variable(name), nullptr, 10), 1, 1 << 16);
}

}  // namespace

uint64_t batch_budget_bytes(std::optional<uint64_t> limit_bytes,
                            const std::function<const char*(const char*)>& variable) {
  if (!limit_bytes) return kMost;
  return std::clamp(*limit_bytes / kShare / ranks_on_this_host(variable), kLeast, kMost);
}

uint64_t batch_budget_bytes() {
  return batch_budget_bytes(memory_limit_bytes(), [](const char* name) { return getenv(name); });
}

}  // namespace millrace::loader
