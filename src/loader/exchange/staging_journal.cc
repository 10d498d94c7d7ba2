#include "loader/exchange/staging_journal.h"

#include <fcntl.h>

#include <cstring>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/hash/crc32c.h"
#include "base/io/atomic_file.h"
#include "wire/shard_storage.h"

namespace millrace::loader::exchange {
namespace {

using Entry = StagingJournal::Entry;

wire::StagedHead make_head(const StorageOptions& options) {
  wire::StagedHead head{.magic = wire::kStagedMagic,
                        .version = wire::kStagedVersion,
                        .crc32c = 0,
                        .sample_count = options.order.sample_count,
                        .dataset = options.dataset};
  head.crc32c = crc32c(std::as_bytes(std::span(&head, 1)));
  return head;
}

uint32_t checksum_of(const wire::StagedEntry& entry) {
  return crc32c(
      std::as_bytes(std::span(&entry, 1)).first(offsetof(wire::StagedEntry, entry_crc32c)));
}

std::string bytes_of_entries(std::span<const Entry> entries) {
  std::string bytes;
  bytes.reserve(entries.size() * sizeof(wire::StagedEntry));
  for (const Entry& entry : entries) {
    wire::StagedEntry staged{.sample = entry.sample,
                             .offset_bytes = entry.offset_bytes,
                             .size_bytes = entry.size_bytes,
                             .crc32c = entry.crc32c,
                             .entry_crc32c = 0};
    staged.entry_crc32c = checksum_of(staged);
    bytes += text_of(std::as_bytes(std::span(&staged, 1)));
  }
  return bytes;
}

}  // namespace

std::vector<Entry> StagingJournal::read(const std::filesystem::path& path,
                                        const StorageOptions& options) {
  constexpr uint64_t kLimitBytes = uint64_t{1} << 36;  // two billion samples
  const auto bytes = read_file(path, kLimitBytes);
  return bytes.ok() ? parse(bytes_of(*bytes), options) : std::vector<Entry>();
}

bool StagingJournal::is_of(ByteView bytes, const StorageOptions& options) {
  const wire::StagedHead due = make_head(options);
  return bytes.size() >= sizeof(due) && std::memcmp(bytes.data(), &due, sizeof(due)) == 0;
}

std::vector<Entry> StagingJournal::parse(ByteView bytes, const StorageOptions& options) {
  if (!is_of(bytes, options)) return {};
  ByteReader reader(bytes.subspan(sizeof(wire::StagedHead)));
  std::vector<Entry> entries;
  while (true) {
    const auto staged = reader.read<wire::StagedEntry>();
    if (!staged.ok() || staged->entry_crc32c != checksum_of(*staged)) return entries;
    entries.push_back({.sample = staged->sample,
                       .offset_bytes = staged->offset_bytes,
                       .size_bytes = staged->size_bytes,
                       .crc32c = staged->crc32c,
                       .zero = 0});
  }
}

Result<StagingJournal> StagingJournal::create(const std::filesystem::path& path,
                                              const StorageOptions& options,
                                              std::span<const Entry> entries) {
  const wire::StagedHead head = make_head(options);
  std::string bytes(text_of(std::as_bytes(std::span(&head, 1))));
  bytes += bytes_of_entries(entries);
  RETURN_IF_ERROR(write_file_atomically(path, bytes_of(bytes), 0600));
  ASSIGN_OR_RETURN(File file, File::open(path, O_RDWR));
  return StagingJournal(std::move(file), bytes.size());
}

Status StagingJournal::append(std::span<const Entry> entries) {
  const std::string bytes = bytes_of_entries(entries);
  RETURN_IF_ERROR(file_.write_at(end_bytes_, bytes_of(bytes)));
  end_bytes_ += bytes.size();
  return file_.sync();
}

}  // namespace millrace::loader::exchange
