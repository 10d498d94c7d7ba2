// WaitingJob: the profile of a job that waits for its loading, for tests that change a copy of it.
#pragma once

#include <cstdint>
#include <string>

#include "advise/testing/workloads.h"
#include "analyze/profile/profile.h"

namespace millrace::advise {

inline constexpr uint64_t kSecondNs = 1'000'000'000;

// One rank that loads for 8 s in the training thread, computes for 2 s, and starts for 1 s.
analyze::Profile waiting_job(const std::string& extension);

// With one core, there is nothing to gain from workers.
inline constexpr uint64_t kOneCore = 1;

Finding first(const analyze::Profile& profile, const Machine& machine = {.cores = kOneCore});

std::string first_rule(const analyze::Profile& profile,
                       const Machine& machine = {.cores = kOneCore});

double saved_s(const Finding& finding);

// The same job, if all of its loading is code.
struct Code {
  std::string extension;
  std::string content = {};  // what the bytes of the files say
  uint64_t reads = 4000;
  uint64_t decode_ns = 0;  // regions of libraries in the code
  uint64_t decompress_ns = 0;
  uint64_t parse_ns = 0;
};

analyze::Profile job_of(const Code& code);

std::string first_rule(const Code& code);

analyze::FunctionStats function(const std::string& name, wire::CallKind kind);

analyze::Stall stall(const std::string& name, const std::string& directory);

analyze::FileStats data_file(const std::string& path, uint64_t size_bytes, uint64_t passes);

analyze::Profile job_with_workers(uint64_t workers);

}  // namespace millrace::advise
