// verify: reads all of a pack and compares it with its checksums.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/comm.h"
#include "store/pack/pack.h"

namespace millrace::store {

struct VerifyOptions {
  size_t thread_count = 0;                          // 0: as many as there are CPUs
  std::function<void(uint64_t bytes)> on_verified;  // called by any thread; may be empty
};

// What is wrong, in sentences that name the member, its partition and its offset. Checks that every
// path can be found, that the index of each partition agrees with the catalogue, that members do
// not overlap, and the checksum of each. Empty: nothing is wrong. The ranks of `comm` share the
// work, and all get the whole list.
Result<std::vector<std::string>> verify_pack(const PackReader& reader, const VerifyOptions& options,
                                             comm::Comm& comm);

}  // namespace millrace::store
