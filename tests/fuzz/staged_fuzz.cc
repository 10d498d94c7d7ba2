// Any bytes list the samples that a staging has copied, or nothing. An accepted list is a prefix of
// the file, and is written as it was read.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/hash/crc32c.h"
#include "loader/exchange/staging_journal.h"
#include "wire/shard_storage.h"

namespace {

using millrace::wire::StagedEntry;
using millrace::wire::StagedHead;

// Corrects the checksums, to test what is behind them.
void fix_checksums(std::string& bytes) {
  constexpr size_t kChecked = offsetof(StagedEntry, entry_crc32c);
  for (size_t at = sizeof(StagedHead); at + sizeof(StagedEntry) <= bytes.size();
       at += sizeof(StagedEntry)) {
    const uint32_t checksum =
        millrace::crc32c(millrace::bytes_of(std::string_view(bytes).substr(at, kChecked)));
    std::memcpy(bytes.data() + at + kChecked, &checksum, sizeof(checksum));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  using namespace millrace::loader::exchange;
  const StorageOptions options{.order = {.shuffle = loader::order::Shuffle::kPartial,
                                         .sample_count = 6,
                                         .seed = 17,
                                         .shard_count = 2,
                                         .fraction = 0.5},
                               .rank = 1,
                               .dataset = 0x1234};
  std::string bytes(reinterpret_cast<const char*>(data), size);
  for (const bool fixes : {false, true}) {
    if (fixes) fix_checksums(bytes);
    const auto entries = StagingJournal::parse(bytes_of(bytes), options);
    if (entries.empty()) continue;
    if (sizeof(StagedHead) + entries.size() * sizeof(StagedEntry) > bytes.size()) std::abort();
    for (size_t i = 0; i < entries.size(); ++i) {
      const char* const written = bytes.data() + sizeof(StagedHead) + i * sizeof(StagedEntry);
      if (std::memcmp(&entries[i].sample, written, sizeof(uint64_t)) != 0) std::abort();
    }
  }
  return 0;
}
