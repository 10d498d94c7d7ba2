// Any bytes list the samples that a rank holds, or are refused. An accepted list stays within the
// dataset and the file of samples, without duplicates.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

#include "base/hash/crc32c.h"
#include "loader/exchange/ownership.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  using namespace millrace::loader::exchange;
  constexpr uint64_t kSamplesSizeBytes = 128;
  const StorageOptions options{.order = {.shuffle = loader::order::Shuffle::kPartial,
                                         .sample_count = 6,
                                         .seed = 17,
                                         .shard_count = 2,
                                         .fraction = 0.5},
                               .rank = 1};
  // Also with a corrected checksum, to test what is behind it.
  std::string bytes(reinterpret_cast<const char*>(data), size);
  for (const bool fixes_checksum : {false, true}) {
    if (fixes_checksum && bytes.size() >= sizeof(wire::OwnershipHead)) {
      std::memset(bytes.data() + 12, 0, 4);
      const uint32_t checksum = crc32c(bytes_of(bytes));
      std::memcpy(bytes.data() + 12, &checksum, 4);
    }
    const auto owned = Ownership::parse(bytes_of(bytes), options, kSamplesSizeBytes);
    if (!owned.ok()) continue;
    std::set<uint64_t> samples;
    for (const auto& entry : owned->entries()) {
      if (entry.size_bytes > 0 && entry.offset_bytes + entry.size_bytes > kSamplesSizeBytes) {
        std::abort();
      }
      if (entry.sample >= 6 || !samples.insert(entry.sample).second) std::abort();
      if (owned->find(data::SampleId{entry.sample}) == nullptr) std::abort();
    }
  }
  return 0;
}
