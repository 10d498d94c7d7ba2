// Batch budget: how much memory a loader uses for batches if the user does not say.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace millrace::loader {

// 1 GiB. Less in a container or batch job that allows little: then a quarter of what it allows,
// shared by the ranks on this host, because the training needs the rest. Batches are prefetched up
// to this size, so with more the kernel would kill the job.
uint64_t batch_budget_bytes();

// The same, for a limit and an environment.
uint64_t batch_budget_bytes(std::optional<uint64_t> limit_bytes,
                            const std::function<const char*(const char*)>& variable);

}  // namespace millrace::loader
