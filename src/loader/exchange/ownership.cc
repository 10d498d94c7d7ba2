#include "loader/exchange/ownership.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>

#include "base/bytes.h"
#include "base/hash/crc32c.h"
#include "loader/order/shards.h"

namespace millrace::loader::exchange {
namespace {

using Entry = Ownership::Entry;

constexpr std::string_view kStageAgain = "remove the directory and start the job again";

uint32_t checksum_of(ByteView bytes) {
  constexpr size_t kField = offsetof(wire::OwnershipHead, crc32c);
  constexpr std::byte kZero[sizeof(uint32_t)] = {};
  const uint32_t before = crc32c(kZero, crc32c(bytes.first(kField)));
  return crc32c(bytes.subspan(kField + sizeof(uint32_t)), before);
}

Error not_ours(std::string_view what, const std::string& theirs, const std::string& ours) {
  return fail(Errc::kInvalidArgument,
              "it was made with {} {}, and this job has {}; start the job with the same options, "
              "or use another directory",
              what, theirs, ours);
}

Status check_head(const wire::OwnershipHead& head, const StorageOptions& options) {
  if (head.magic != wire::kOwnershipMagic) {
    return fail(Errc::kCorrupt,
                "it is not a list of the samples of a rank: its first bytes are those of another "
                "kind of file");
  }
  if (head.version != wire::kOwnershipVersion) {
    return fail(Errc::kUnsupported, "it has version {}; this build reads version {}", head.version,
                wire::kOwnershipVersion);
  }
  const order::Options& order = options.order;
  if (head.sample_count != order.sample_count) {
    return not_ours("samples:", std::to_string(head.sample_count),
                    std::to_string(order.sample_count));
  }
  if (head.seed != order.seed) {
    return not_ours("the seed", std::to_string(head.seed), std::to_string(order.seed));
  }
  if (head.shard_count != order.shard_count || head.rank != options.rank) {
    return not_ours("rank", fmt::format("{} of {}", head.rank, head.shard_count),
                    fmt::format("{} of {}", options.rank, order.shard_count));
  }
  if (head.fraction != order.fraction) {
    return not_ours("the fraction", fmt::format("{}", head.fraction),
                    fmt::format("{}", order.fraction));
  }
  if (head.dataset != options.dataset && head.dataset != 0 && options.dataset != 0) {
    return fail(Errc::kInvalidArgument,
                "it holds samples of another dataset, with as many samples but other names or "
                "labels; use another directory, or remove this one");
  }
  return {};
}

Status check_entry(const Entry& entry, uint64_t sample_count, uint64_t samples_size_bytes) {
  if (entry.sample >= sample_count) {
    return fail(Errc::kCorrupt, "it names sample {}, but there are {} samples", entry.sample,
                sample_count);
  }
  // The place of an empty sample may be past the end.
  const bool is_inside =
      entry.size_bytes == 0 || (entry.size_bytes <= samples_size_bytes &&
                                entry.offset_bytes <= samples_size_bytes - entry.size_bytes);
  // Offsets from 2^62 on are never given out, and sums of them could overflow.
  if (is_inside && entry.offset_bytes < uint64_t{1} << 62) return {};
  return fail(Errc::kCorrupt,
              "sample {} has {} bytes at byte {}, but the samples file ends at byte {}; {}",
              entry.sample, entry.size_bytes, entry.offset_bytes, samples_size_bytes, kStageAgain);
}

// No two entries may share a place or a sample.
Status check_distinct(const std::vector<Entry>& entries) {
  std::vector<const Entry*> sorted;
  for (const Entry& entry : entries) sorted.push_back(&entry);
  std::ranges::sort(sorted, {}, [](const Entry* entry) { return entry->offset_bytes; });
  const auto overlap = std::ranges::adjacent_find(sorted, [](const Entry* a, const Entry* b) {
    return b->offset_bytes - a->offset_bytes < a->size_bytes;
  });
  if (overlap != sorted.end()) {
    return fail(Errc::kCorrupt, "samples {} and {} overlap", (*overlap)->sample,
                (*(overlap + 1))->sample);
  }
  const auto sample_of = [](const Entry* entry) { return entry->sample; };
  std::ranges::sort(sorted, {}, sample_of);
  const auto twice = std::ranges::adjacent_find(sorted, {}, sample_of);
  if (twice == sorted.end()) return {};
  return fail(Errc::kCorrupt, "sample {} is in two slots", (*twice)->sample);
}

}  // namespace

uint64_t slot_count_of(const StorageOptions& options) {
  return order::Shards(options.order.sample_count, options.order.shard_count).size_of(options.rank);
}

Ownership::Ownership(data::Epoch epoch, std::vector<Entry> entries)
    : epoch_(epoch), entries_(std::move(entries)), by_sample_(entries_.size()) {
  std::iota(by_sample_.begin(), by_sample_.end(), 0);
  std::ranges::sort(by_sample_, {}, [&](uint64_t slot) { return entries_[slot].sample; });
}

Result<Ownership> Ownership::make(data::Epoch epoch, std::vector<Entry> entries,
                                  const StorageOptions& options, uint64_t samples_size_bytes) {
  for (const Entry& entry : entries) {
    RETURN_IF_ERROR(check_entry(entry, options.order.sample_count, samples_size_bytes));
  }
  RETURN_IF_ERROR(check_distinct(entries));
  return Ownership(epoch, std::move(entries));
}

Result<Ownership> Ownership::parse(ByteView bytes, const StorageOptions& options,
                                   uint64_t samples_size_bytes) {
  ByteReader reader(bytes);
  ASSIGN_OR_RETURN(const auto head, reader.read<wire::OwnershipHead>());
  RETURN_IF_ERROR(check_head(head, options));
  // Not head.slot_count * sizeof(Entry): the product may overflow.
  const uint64_t slot_count = slot_count_of(options);
  if (head.slot_count != slot_count || reader.remaining() % sizeof(Entry) != 0 ||
      reader.remaining() / sizeof(Entry) != slot_count) {
    return fail(Errc::kCorrupt, "it has {} bytes and claims {} slots instead of {}; {}",
                bytes.size(), head.slot_count, slot_count, kStageAgain);
  }
  if (checksum_of(bytes) != head.crc32c) {
    return fail(Errc::kCorrupt, "its checksum does not match: the file is damaged; {}",
                kStageAgain);
  }
  std::vector<Entry> entries(slot_count);
  ASSIGN_OR_RETURN(const ByteView rest, reader.take(reader.remaining()));
  if (!rest.empty()) std::memcpy(entries.data(), rest.data(), rest.size());
  return make(data::Epoch{head.epoch}, std::move(entries), options, samples_size_bytes);
}

std::string Ownership::bytes(const StorageOptions& options) const {
  wire::OwnershipHead head{.magic = wire::kOwnershipMagic,
                           .version = wire::kOwnershipVersion,
                           .crc32c = 0,
                           .sample_count = options.order.sample_count,
                           .seed = options.order.seed,
                           .fraction = options.order.fraction,
                           .shard_count = options.order.shard_count,
                           .rank = options.rank,
                           .epoch = data::number_of(epoch_),
                           .slot_count = entries_.size(),
                           .dataset = options.dataset};
  std::string bytes(text_of(std::as_bytes(std::span(&head, 1))));
  bytes += text_of(std::as_bytes(std::span(entries_)));
  head.crc32c = checksum_of(bytes_of(bytes));
  std::memcpy(bytes.data(), &head, sizeof(head));
  return bytes;
}

std::optional<uint64_t> Ownership::slot_of(data::SampleId sample) const {
  const auto found = std::ranges::lower_bound(by_sample_, data::index_of(sample), {},
                                              [&](uint64_t slot) { return entries_[slot].sample; });
  if (found == by_sample_.end() || entries_[*found].sample != data::index_of(sample)) return {};
  return *found;
}

const Entry* Ownership::find(data::SampleId sample) const {
  const auto slot = slot_of(sample);
  return slot ? &entries_[*slot] : nullptr;
}

}  // namespace millrace::loader::exchange
