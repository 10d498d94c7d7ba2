// rank_launch: starts this program again, on several ranks of this machine.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace millrace::cli {

// Whether a launcher (mpirun, srun) has started this process.
bool is_launched();

// The words of our command line, without the program.
Result<std::vector<std::string>> own_words();

// The command that runs this program with `words` on `rank_count` ranks.
Result<std::vector<std::string>> with_launcher(const std::vector<std::string>& words,
                                               uint64_t rank_count);

// What lets a launcher start more ranks than cores, and as root.
std::vector<std::pair<std::string, std::string>> launcher_environment();

// Replaces this process by the same command under mpirun. Returns only if that fails.
Result<int> run_again_under_launcher(uint64_t rank_count);

}  // namespace millrace::cli
