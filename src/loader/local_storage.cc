#include "loader/local_storage.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "base/atomic_file.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "loader/order_shards.h"

namespace millrace::loader {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSamples = "samples";
constexpr std::string_view kOwned = "owned";
constexpr std::string_view kNext = "owned.next";

// Makes the names in a directory durable.
Status sync_directory(const fs::path& directory) {
  ASSIGN_OR_RETURN(const File opened, File::open(directory, O_RDONLY | O_DIRECTORY));
  if (fsync(opened.fd()) != 0) return fail_os(errno, "cannot make the directory durable");
  return {};
}

uint32_t checksum_of(std::string bytes) {
  std::memset(bytes.data() + offsetof(wire::OwnershipHead, crc32c), 0, sizeof(uint32_t));
  return crc32c(bytes_of(bytes));
}

Error not_ours(std::string_view what, const std::string& theirs, const std::string& ours) {
  return fail(Errc::kInvalidArgument,
              "it was made with {} {}, and this job has {}; start the job as it was, or give it "
              "another directory",
              what, theirs, ours);
}

}  // namespace

LocalStorage::LocalStorage(const StorageOptions& options)
    : options_(options),
      slot_count_(
          Shards(options.order.sample_count, options.order.shard_count).size_of(options.rank)) {}

Result<std::unique_ptr<LocalStorage>> LocalStorage::open(const StorageOptions& options) {
  RETURN_IF_ERROR(check_order(options.order));
  if (options.rank >= options.order.shard_count) {
    return fail(Errc::kInvalidArgument, "rank {} has no shard among {}", options.rank,
                options.order.shard_count);
  }
  std::unique_ptr<LocalStorage> storage(new LocalStorage(options));
  RETURN_IF_ERROR(storage->lock());
  storage->remove_unfinished();
  for (const auto& [name, held] : {std::pair{kOwned, &storage->owned_}, {kNext, &storage->next_}}) {
    const fs::path path = storage->path(name);
    std::error_code missing;
    if (!fs::exists(path, missing)) continue;
    ASSIGN_OR_RETURN(*held, storage->load(path).within(path.string()));
  }
  if (storage->next_) storage->prepared_ = storage->next_->epoch;
  storage->free_unused();
  return storage;
}

// The lock is held: whoever wrote these was killed.
void LocalStorage::remove_unfinished() const {
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(options_.directory, failed)) {
    if (entry.path().filename().native().starts_with(".owned")) fs::remove(entry.path(), failed);
  }
}

Status LocalStorage::lock() {
  std::error_code failed;
  fs::create_directories(options_.directory, failed);
  if (failed)
    return fail_os(failed.value(), "cannot make the directory").within(options_.directory.string());
  ASSIGN_OR_RETURN(file_, File::open(path(kSamples), O_RDWR | O_CREAT));
  if (flock(file_.fd(), LOCK_EX | LOCK_NB) == 0) return {};
  return fail(Errc::kAlreadyExists,
              "{}: another process keeps its samples here; wait for it to end, or give this rank a "
              "directory of its own",
              options_.directory.string());
}

Result<std::shared_ptr<const LocalStorage::Owned>> LocalStorage::load(const fs::path& path) const {
  const uint64_t expected = sizeof(wire::OwnershipHead) + slot_count_ * sizeof(Entry);
  ASSIGN_OR_RETURN(const std::string bytes, read_file(path, expected + (uint64_t{1} << 30)));
  ByteReader reader(bytes_of(bytes));
  ASSIGN_OR_RETURN(const auto head, reader.read<wire::OwnershipHead>());
  RETURN_IF_ERROR(check_head(head));
  if (head.slot_count != slot_count_ || bytes.size() != expected) {
    return fail(Errc::kCorrupt,
                "it has {} bytes and claims {} slots, where {} bytes and {} slots "
                "are due; remove the directory and stage the samples again",
                bytes.size(), head.slot_count, expected, slot_count_);
  }
  if (checksum_of(bytes) != head.crc32c) {
    return fail(Errc::kCorrupt,
                "its checksum is wrong: the file is damaged; remove the directory and stage the "
                "samples again");
  }
  auto owned = std::make_shared<Owned>();
  owned->epoch = data::Epoch{head.epoch};
  owned->entries.resize(slot_count_);
  ASSIGN_OR_RETURN(const ByteView entries, reader.take(slot_count_ * sizeof(Entry)));
  if (!entries.empty()) std::memcpy(owned->entries.data(), entries.data(), entries.size());
  RETURN_IF_ERROR(check_entries(owned->entries));
  make_lookup(*owned);
  return std::shared_ptr<const Owned>(std::move(owned));
}

Status LocalStorage::check_head(const wire::OwnershipHead& head) const {
  if (head.magic != wire::kOwnershipMagic) {
    return fail(Errc::kCorrupt,
                "it does not say which samples a rank holds: its first bytes are "
                "those of another kind of file");
  }
  if (head.version != wire::kOwnershipVersion) {
    return fail(Errc::kUnsupported, "it was written as version {}; this build reads version {}",
                head.version, wire::kOwnershipVersion);
  }
  const OrderOptions& order = options_.order;
  if (head.sample_count != order.sample_count) {
    return not_ours("samples:", std::to_string(head.sample_count),
                    std::to_string(order.sample_count));
  }
  if (head.seed != order.seed) {
    return not_ours("the seed", std::to_string(head.seed), std::to_string(order.seed));
  }
  if (head.shard_count != order.shard_count || head.rank != options_.rank) {
    return not_ours("rank", fmt::format("{} of {}", head.rank, head.shard_count),
                    fmt::format("{} of {}", options_.rank, order.shard_count));
  }
  if (head.fraction != order.fraction) {
    return not_ours("the fraction", fmt::format("{}", head.fraction),
                    fmt::format("{}", order.fraction));
  }
  return {};
}

Status LocalStorage::check_entries(const std::vector<Entry>& entries) const {
  ASSIGN_OR_RETURN(const uint64_t file_bytes, file_.size_bytes());
  std::vector<const Entry*> by_place;
  for (const Entry& entry : entries) {
    if (entry.sample >= options_.order.sample_count) {
      return fail(Errc::kCorrupt, "it names sample {} of {}", entry.sample,
                  options_.order.sample_count);
    }
    // An empty sample has a place, which may be past the end.
    if (entry.size_bytes > file_bytes ||
        (entry.size_bytes > 0 && entry.offset_bytes > file_bytes - entry.size_bytes)) {
      return fail(Errc::kCorrupt,
                  "sample {} is to have {} bytes at byte {}, but the file of "
                  "samples ends at {}; remove the directory and stage the samples again",
                  entry.sample, entry.size_bytes, entry.offset_bytes, file_bytes);
    }
    by_place.push_back(&entry);
  }
  std::ranges::sort(by_place, {}, [](const Entry* entry) { return entry->offset_bytes; });
  const auto overlap = std::ranges::adjacent_find(by_place, [](const Entry* a, const Entry* b) {
    return b->offset_bytes - a->offset_bytes < a->size_bytes;
  });
  if (overlap != by_place.end()) {
    return fail(Errc::kCorrupt, "samples {} and {} lie in one place", (*overlap)->sample,
                (*(overlap + 1))->sample);
  }
  std::ranges::sort(by_place, {}, [](const Entry* entry) { return entry->sample; });
  const auto twice =
      std::ranges::adjacent_find(by_place, {}, [](const Entry* entry) { return entry->sample; });
  if (twice == by_place.end()) return {};
  return fail(Errc::kCorrupt, "sample {} is in two slots", (*twice)->sample);
}

void LocalStorage::make_lookup(Owned& owned) {
  owned.lookup.resize(owned.entries.size());
  std::iota(owned.lookup.begin(), owned.lookup.end(), 0);
  std::ranges::sort(owned.lookup, {}, [&](uint64_t slot) { return owned.entries[slot].sample; });
}

std::string LocalStorage::encoded(const Owned& owned) const {
  wire::OwnershipHead head{.magic = wire::kOwnershipMagic,
                           .version = wire::kOwnershipVersion,
                           .crc32c = 0,
                           .sample_count = options_.order.sample_count,
                           .seed = options_.order.seed,
                           .fraction = options_.order.fraction,
                           .shard_count = options_.order.shard_count,
                           .rank = options_.rank,
                           .epoch = data::number_of(owned.epoch),
                           .slot_count = owned.entries.size()};
  std::string bytes(text_of(std::as_bytes(std::span(&head, 1))));
  bytes += text_of(std::as_bytes(std::span(owned.entries)));
  head.crc32c = crc32c(bytes_of(bytes));
  std::memcpy(bytes.data(), &head, sizeof(head));
  return bytes;
}

std::shared_ptr<const LocalStorage::Owned> LocalStorage::owned() const {
  const std::lock_guard lock(mutex_);
  return owned_;
}

std::optional<data::Epoch> LocalStorage::epoch() const {
  const auto held = owned();
  if (!held) return {};
  return held->epoch;
}

std::vector<data::SampleId> LocalStorage::samples() const {
  std::vector<data::SampleId> samples;
  const auto held = owned();
  if (!held) return samples;
  for (const Entry& entry : held->entries) samples.push_back(data::SampleId{entry.sample});
  return samples;
}

namespace {

// The slot of a sample, by a search through the slots in the order of their samples.
template <typename Owned>
std::optional<uint64_t> slot_of(const Owned& owned, data::SampleId sample) {
  const auto found = std::ranges::lower_bound(owned.lookup, data::index_of(sample), {},
                                              [&](uint64_t s) { return owned.entries[s].sample; });
  if (found == owned.lookup.end()) return {};
  if (owned.entries[*found].sample != data::index_of(sample)) return {};
  return *found;
}

}  // namespace

bool LocalStorage::holds(data::SampleId sample) const {
  const auto held = owned();
  return held && slot_of(*held, sample);
}

Result<uint32_t> LocalStorage::read(data::SampleId sample, std::string& out) const {
  const auto held = owned();
  const auto slot = held ? slot_of(*held, sample) : std::nullopt;
  if (!slot) {
    return fail(Errc::kNotFound, "{}: sample {} is not held by rank {} in this epoch",
                options_.directory.string(), data::index_of(sample), options_.rank);
  }
  const Entry& entry = held->entries[*slot];
  const size_t before = out.size();
  out.resize(before + entry.size_bytes);
  const auto bytes = std::as_writable_bytes(std::span(out)).subspan(before);
  RETURN_IF_ERROR(file_.read_exactly_at(entry.offset_bytes, bytes).within(path(kSamples).string()));
  if (crc32c(bytes) == entry.crc32c) return entry.crc32c;
  return fail(Errc::kCorrupt,
              "{}: the {} bytes of sample {} at byte {} are not those that were stored; check the "
              "disk, remove the directory and stage the samples again",
              path(kSamples).string(), entry.size_bytes, entry.sample, entry.offset_bytes);
}

Status LocalStorage::stage(uint64_t slot, data::SampleId sample, ByteView bytes) {
  const Entry entry{.sample = data::index_of(sample),
                    .offset_bytes = places_.take(bytes.size()),
                    .size_bytes = bytes.size(),
                    .crc32c = crc32c(bytes),
                    .zero = 0};
  RETURN_IF_ERROR(file_.write_at(entry.offset_bytes, bytes).within(path(kSamples).string()));
  staged_.emplace_back(slot, entry);
  const auto held = owned();
  const uint64_t stored = (held ? held->entries.size() : 0) + staged_.size();
  stored_count_max_ = std::max(stored_count_max_, stored);
  return {};
}

Status LocalStorage::prepare(data::Epoch next) {
  auto owned_next = std::make_shared<Owned>();
  owned_next->epoch = next;
  const auto held = owned();
  if (held) owned_next->entries = held->entries;
  std::vector<bool> is_filled(slot_count_, held != nullptr);
  owned_next->entries.resize(slot_count_);
  for (const auto& [slot, entry] : staged_) {
    owned_next->entries[slot] = entry;
    is_filled[slot] = true;
  }
  if (const auto empty = std::ranges::find(is_filled, false); empty != is_filled.end()) {
    return fail(Errc::kInvalidArgument, "{}: slot {} of {} has no sample for epoch {}",
                options_.directory.string(), empty - is_filled.begin(), slot_count_,
                data::number_of(next));
  }
  RETURN_IF_ERROR(check_entries(owned_next->entries).within(options_.directory.string()));
  make_lookup(*owned_next);
  RETURN_IF_ERROR(file_.sync().within(path(kSamples).string()));
  RETURN_IF_ERROR(write_file_atomically(path(kNext), bytes_of(encoded(*owned_next))));
  next_ = std::move(owned_next);
  prepared_ = next;
  return {};
}

Status LocalStorage::commit() {
  assert(next_);
  std::error_code failed;
  fs::rename(path(kNext), path(kOwned), failed);
  if (failed) return fail_os(failed.value(), "cannot rename").within(path(kNext).string());
  RETURN_IF_ERROR(sync_directory(options_.directory).within(options_.directory.string()));
  {
    const std::lock_guard lock(mutex_);
    owned_ = std::move(next_);
  }
  next_.reset();
  prepared_.reset();
  free_unused();
  return {};
}

Status LocalStorage::discard() {
  std::error_code failed;
  fs::remove(path(kNext), failed);
  if (failed) return fail_os(failed.value(), "cannot remove").within(path(kNext).string());
  RETURN_IF_ERROR(sync_directory(options_.directory).within(options_.directory.string()));
  next_.reset();
  prepared_.reset();
  free_unused();
  return {};
}

void LocalStorage::free_unused() {
  staged_.clear();
  std::vector<Place> used;
  for (const auto& held : {owned_, next_}) {
    if (!held) continue;
    for (const Entry& entry : held->entries) {
      used.push_back({.offset_bytes = entry.offset_bytes, .size_bytes = entry.size_bytes});
    }
  }
  places_.reset(std::move(used));
}

}  // namespace millrace::loader
