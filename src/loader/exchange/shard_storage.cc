#include "loader/exchange/shard_storage.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>

#include "base/hash/crc32c.h"
#include "base/io/atomic_file.h"
#include "base/io/directory.h"
#include "base/text/text.h"
#include "wire/shard_storage.h"

namespace millrace::loader::exchange {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSamples = "samples";
constexpr std::string_view kOwned = "owned";
constexpr std::string_view kNext = "owned.next";
constexpr std::string_view kStaged = "staged";

constexpr uint64_t kLimitBytes = uint64_t{1} << 36;  // of an entries file: two billion slots
constexpr unsigned kOwnerOnly = 0600;  // mode of all files here, whatever mode the dataset has

bool is_file(const fs::path& path) {
  std::error_code failed;
  return fs::symlink_status(path, failed).type() == fs::file_type::regular;
}

// Whether something is there that does not begin as a file of ours does, which appears with its
// head. Nothing else tells whose the samples are.
bool is_foreign(const fs::path& path, uint64_t magic) {
  std::error_code failed;
  if (fs::symlink_status(path, failed).type() == fs::file_type::not_found) return false;
  if (!is_file(path)) return true;
  const auto file = File::open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  uint64_t found = 0;
  return !file.ok() ||
         !file->read_exactly_at(0, std::as_writable_bytes(std::span(&found, 1))).ok() ||
         found != magic;
}

bool is_empty_file(const fs::path& path) {
  std::error_code failed;
  return is_file(path) && fs::file_size(path, failed) == 0;
}

uint64_t aligned(uint64_t bytes) {
  return (bytes + FreeExtents::kAlignBytes - 1) / FreeExtents::kAlignBytes *
         FreeExtents::kAlignBytes;
}

}  // namespace

uint64_t FreeExtents::take(uint64_t size_bytes) {
  const uint64_t needed = aligned(std::max<uint64_t>(size_bytes, 1));
  const auto found = free_.lower_bound({needed, 0});
  if (found == free_.end()) {
    const uint64_t offset = end_bytes_;
    end_bytes_ += needed;
    return offset;
  }
  const auto [size, offset] = *found;
  free_.erase(found);
  if (size > needed) free_.emplace(size - needed, offset + needed);
  return offset;
}

void FreeExtents::reset(std::vector<FileExtent> used) {
  std::ranges::sort(used, {}, &FileExtent::offset_bytes);
  free_.clear();
  end_bytes_ = 0;
  for (const FileExtent& place : used) {
    if (place.offset_bytes > end_bytes_) {
      free_.emplace(place.offset_bytes - end_bytes_, end_bytes_);
    }
    const uint64_t size = aligned(std::max<uint64_t>(place.size_bytes, 1));
    end_bytes_ = std::max(end_bytes_, place.offset_bytes + size);
  }
}

ShardStorage::ShardStorage(const StorageOptions& options)
    : options_(options), slot_count_(slot_count_of(options)) {}

Result<std::unique_ptr<ShardStorage>> ShardStorage::open(const StorageOptions& options) {
  RETURN_IF_ERROR(order::check_order(options.order));
  if (options.rank >= options.order.shard_count) {
    return fail(Errc::kInvalidArgument, "rank {} has no shard: there are {} shards", options.rank,
                options.order.shard_count);
  }
  std::unique_ptr<ShardStorage> storage(new ShardStorage(options));
  RETURN_IF_ERROR(storage->check_directory());
  RETURN_IF_ERROR(storage->lock());
  RETURN_IF_ERROR(storage->check_samples());
  storage->remove_unfinished();
  ASSIGN_OR_RETURN(Shared owned, storage->load(kOwned));
  ASSIGN_OR_RETURN(storage->next_, storage->load(kNext));
  // A process that committed was killed before it could remove this.
  std::error_code failed;
  if (owned) fs::remove(storage->path(kStaged), failed);
  {
    const MutexLock lock(storage->mutex_);
    storage->owned_ = std::move(owned);
  }
  storage->free_unused();
  return storage;
}

// A directory with files of somebody else stays as it is, also its mode. Hidden ones are not looked
// at: NFS makes some.
Status ShardStorage::check_directory() const {
  const bool has_samples = is_file(path(kSamples));
  if (has_samples) {
    const fs::path staged = path(kStaged);
    if (is_foreign(staged, wire::kStagedMagic) && !is_empty_file(staged)) return not_ours(kStaged);
    for (const std::string_view list : {kOwned, kNext}) {
      if (!is_foreign(path(list), wire::kOwnershipMagic)) continue;
      return fail(Errc::kCorrupt, "{}: it is not a list of the samples of a rank",
                  path(list).string());
    }
    if (has_list()) return {};
    if (!is_empty_file(path(kSamples))) return not_ours(kSamples);
  }
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(options_.directory, failed)) {
    const std::string name = entry.path().filename().native();
    if (!name.starts_with('.') && !(has_samples && name == kSamples)) return not_ours(name);
  }
  return {};
}

bool ShardStorage::has_list() const {
  return is_file(path(kOwned)) || is_file(path(kNext)) || is_file(path(kStaged));
}

// Samples are written only when there is a list of them.
Status ShardStorage::check_samples() const {
  ASSIGN_OR_RETURN(const uint64_t size_bytes, file_.size_bytes());
  return size_bytes == 0 || has_list() ? Status() : not_ours(kSamples);
}

Error ShardStorage::not_ours(std::string_view name) const {
  return fail(Errc::kAlreadyExists,
              "{}: has '{}', but is no storage of a loader; remove it, or use another directory",
              options_.directory.string(), printable(name));
}

// What write_file_atomically() left. The lock is held, so the writer of these files was killed.
void ShardStorage::remove_unfinished() const {
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(options_.directory, failed)) {
    const std::string name = entry.path().filename().native();
    for (const std::string_view written : {kNext, kOwned, kStaged}) {
      if (is_temporary_name(name, written)) fs::remove(entry.path(), failed);
    }
  }
}

Status ShardStorage::lock() {
  constexpr int kAttempts = 10;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    RETURN_IF_ERROR(make_private_directory(options_.directory));
    auto opened = File::open(path(kSamples), O_RDWR | O_CREAT | O_NOFOLLOW, kOwnerOnly);
    if (!opened.ok() && opened.error().code() == Errc::kNotFound) continue;
    if (!opened.ok()) return opened.error();
    file_ = *std::move(opened);
    if (flock(file_.fd(), LOCK_EX | LOCK_NB) != 0) break;
    struct stat info{};
    if (fstat(file_.fd(), &info) != 0) return fail_os(errno, "cannot stat it");
    // Between open and lock, another job may have removed it as left behind.
    if (info.st_nlink == 0) continue;
    const bool is_closed = (info.st_mode & 077) == 0 || fchmod(file_.fd(), kOwnerOnly) == 0;
    if (is_closed) return {};
    return fail_os(errno, "cannot remove the access of other users")
        .within(path(kSamples).string());
  }
  return fail(
      Errc::kAlreadyExists,
      "{}: another process, or another loader of this process, uses this directory; wait for it to "
      "end, or use another directory",
      options_.directory.string());
}

bool ShardStorage::remove_left_behind(const StorageOptions& options) {
  const fs::path& directory = options.directory;
  if (!is_file(directory / kSamples)) return false;
  if (!is_file(directory / kOwned)) {
    const auto staged = read_file(directory / kStaged, kLimitBytes);
    if (!staged.ok() || !StagingJournal::is_of(bytes_of(*staged), options)) return false;
  }
  const auto storage = open(options);
  return storage.ok() && (*storage)->remove_files();
}

// Removes the samples file last, because its lock shows that the storage is in use.
bool ShardStorage::remove_files() const {
  std::error_code failed;
  fs::remove(path(kOwned), failed);
  fs::remove(path(kNext), failed);
  // If this process is killed in between, what is left is either listed or empty.
  if (ftruncate(file_.fd(), 0) != 0) return false;
  fs::remove(path(kStaged), failed);
  fs::remove(path(kSamples), failed);
  return rmdir(options_.directory.c_str()) == 0;
}

// Null if there is no such file.
Result<ShardStorage::Shared> ShardStorage::load(std::string_view name) const {
  std::error_code missing;
  if (!fs::exists(path(name), missing)) return Shared();
  ASSIGN_OR_RETURN(const uint64_t samples_size_bytes, file_.size_bytes());
  ASSIGN_OR_RETURN(const std::string bytes, read_file(path(name), kLimitBytes));
  ASSIGN_OR_RETURN(
      Ownership owned,
      Ownership::parse(bytes_of(bytes), options_, samples_size_bytes).within(path(name).string()));
  return std::make_shared<const Ownership>(std::move(owned));
}

ShardStorage::Shared ShardStorage::owned() const {
  const MutexLock lock(mutex_);
  return owned_;
}

std::optional<data::Epoch> ShardStorage::epoch() const {
  const Shared held = owned();
  if (!held) return {};
  return held->epoch();
}

std::optional<data::Epoch> ShardStorage::prepared() const {
  if (!next_) return {};
  return next_->epoch();
}

std::vector<data::SampleId> ShardStorage::samples() const {
  std::vector<data::SampleId> samples;
  const Shared held = owned();
  if (!held) return samples;
  for (const Entry& entry : held->entries()) samples.push_back(data::SampleId{entry.sample});
  return samples;
}

std::optional<uint64_t> ShardStorage::size_bytes(data::SampleId sample) const {
  const Shared held = owned();
  const Entry* const entry = held ? held->find(sample) : nullptr;
  if (entry == nullptr) return {};
  return entry->size_bytes;
}

uint64_t ShardStorage::held_bytes() const {
  uint64_t sum = 0;
  const Shared held = owned();
  if (!held) return sum;
  for (const Entry& entry : held->entries()) sum += entry.size_bytes;
  return sum;
}

std::filesystem::path ShardStorage::samples_path() const { return path(kSamples); }

Result<ShardStorage::Entry> ShardStorage::entry_of(data::SampleId sample) const {
  const Shared held = owned();
  const Entry* const entry = held ? held->find(sample) : nullptr;
  if (entry != nullptr) return *entry;
  return fail(Errc::kNotFound, "{}: sample {} is not held by rank {} in this epoch",
              options_.directory.string(), data::index_of(sample), options_.rank);
}

Status ShardStorage::read_bytes(const Entry& entry, MutableByteView out) const {
  return file_.read_exactly_at(entry.offset_bytes, out).within(path(kSamples).string());
}

Status ShardStorage::check(const Entry& entry, ByteView bytes) const {
  if (crc32c(bytes) == entry.crc32c) return {};
  return fail(Errc::kCorrupt,
              "{}: the {} bytes of sample {} at byte {} are not those that were stored; check the "
              "disk, remove the directory and start the job again",
              path(kSamples).string(), entry.size_bytes, entry.sample, entry.offset_bytes);
}

Result<uint32_t> ShardStorage::read(data::SampleId sample, std::string& out) const {
  ASSIGN_OR_RETURN(const Entry entry, entry_of(sample));
  const size_t before = out.size();
  out.resize(before + entry.size_bytes);
  const auto bytes = std::as_writable_bytes(std::span(out)).subspan(before);
  RETURN_IF_ERROR(read_bytes(entry, bytes));
  RETURN_IF_ERROR(check(entry, bytes));
  return entry.crc32c;
}

Result<size_t> ShardStorage::read_into(data::SampleId sample, MutableByteView out) const {
  ASSIGN_OR_RETURN(const Entry entry, entry_of(sample));
  if (entry.size_bytes > out.size()) {
    return fail(Errc::kExhausted, "{}: sample {} has {} bytes, but there is room for only {}",
                options_.directory.string(), entry.sample, entry.size_bytes, out.size());
  }
  const MutableByteView bytes = out.first(entry.size_bytes);
  RETURN_IF_ERROR(read_bytes(entry, bytes));
  RETURN_IF_ERROR(check(entry, bytes));
  return bytes.size();
}

Result<uint32_t> ShardStorage::read_unchecked(data::SampleId sample, MutableByteView out) const {
  ASSIGN_OR_RETURN(const Entry entry, entry_of(sample));
  assert(out.size() == entry.size_bytes);
  RETURN_IF_ERROR(read_bytes(entry, out));
  return entry.crc32c;
}

Status ShardStorage::stage(uint64_t slot, data::SampleId sample, ByteView bytes) {
  return stage(slot, sample, bytes, crc32c(bytes));
}

Status ShardStorage::stage_for(data::SampleId leaving, data::SampleId sample, ByteView bytes,
                               uint32_t checksum) {
  const Shared held = owned();
  const auto slot = held ? held->slot_of(leaving) : std::nullopt;
  if (!slot) {
    return fail(
        Errc::kNotFound,
        "{}: sample {}, which sample {} should replace, is not held; remove the storages of all "
        "ranks and start the job again",
        options_.directory.string(), data::index_of(leaving), data::index_of(sample));
  }
  return stage(*slot, sample, bytes, checksum);
}

Status ShardStorage::stage(uint64_t slot, data::SampleId sample, ByteView bytes,
                           uint32_t checksum) {
  const Entry entry{.sample = data::index_of(sample),
                    .offset_bytes = places_.take(bytes.size()),
                    .size_bytes = bytes.size(),
                    .crc32c = checksum,
                    .zero = 0};
  RETURN_IF_ERROR(file_.write_at(entry.offset_bytes, bytes).within(path(kSamples).string()));
  staged_.emplace_back(slot, entry);
  const Shared held = owned();
  const uint64_t stored = (held ? held->entries().size() : 0) + staged_.size();
  stored_count_max_ = std::max<uint64_t>(stored_count_max_, stored);
  file_size_bytes_ = places_.end_bytes();
  unsaved_bytes_ += bytes.size();
  if (journal_ && unsaved_bytes_ >= options_.staging_step_bytes) return save_staging();
  return {};
}

// The wanted samples that are already stored, held or copied earlier, with their slots.
std::vector<std::pair<uint64_t, ShardStorage::Entry>> ShardStorage::keep(
    std::span<const data::SampleId> wanted) const {
  const Shared held = owned();
  const std::vector<Entry> there =
      held ? held->entries() : StagingJournal::read(path(kStaged), options_);
  const auto size_bytes = file_.size_bytes();
  // Checked together, because entries that overlap cannot both be right.
  const auto known =
      Ownership::make(data::Epoch{0}, there, options_, size_bytes.ok() ? *size_bytes : 0);
  std::vector<std::pair<uint64_t, Entry>> kept;
  if (!known.ok()) return kept;
  for (uint64_t slot = 0; slot < wanted.size(); ++slot) {
    if (const Entry* const entry = known->find(wanted[slot])) kept.emplace_back(slot, *entry);
  }
  return kept;
}

// The journal has the samples that are kept.
Status ShardStorage::drop_owned() {
  std::error_code failed;
  fs::remove(path(kOwned), failed);
  if (failed) return fail_os(failed.value(), "cannot remove").within(path(kOwned).string());
  RETURN_IF_ERROR(sync_directory(options_.directory));
  const MutexLock lock(mutex_);
  owned_.reset();
  return {};
}

Result<std::vector<uint64_t>> ShardStorage::begin_staging(std::span<const data::SampleId> wanted) {
  assert(wanted.size() == slot_count_);
  RETURN_IF_ERROR(discard());
  auto kept = keep(wanted);
  std::vector<Entry> entries;
  std::vector<FileExtent> used;
  std::vector<bool> is_there(slot_count_);
  for (const auto& [slot, entry] : kept) {
    entries.push_back(entry);
    used.push_back({.offset_bytes = entry.offset_bytes, .size_bytes = entry.size_bytes});
    is_there[slot] = true;
  }
  journal_.reset();
  ASSIGN_OR_RETURN(journal_, StagingJournal::create(path(kStaged), options_, entries));
  RETURN_IF_ERROR(drop_owned());
  places_.reset(std::move(used));
  file_size_bytes_ = places_.end_bytes();
  staged_ = std::move(kept);
  saved_count_ = staged_.size();
  unsaved_bytes_ = 0;
  std::vector<uint64_t> missing;
  for (uint64_t slot = 0; slot < slot_count_; ++slot) {
    if (!is_there[slot]) missing.push_back(slot);
  }
  return missing;
}

Status ShardStorage::save_staging() {
  if (!journal_ || saved_count_ == staged_.size()) return {};
  RETURN_IF_ERROR(file_.sync().within(path(kSamples).string()));
  std::vector<Entry> entries;
  for (size_t i = saved_count_; i < staged_.size(); ++i) entries.push_back(staged_[i].second);
  RETURN_IF_ERROR(journal_->append(entries).within(path(kStaged).string()));
  saved_count_ = staged_.size();
  unsaved_bytes_ = 0;
  return {};
}

Status ShardStorage::prepare(data::Epoch next) {
  const Shared held = owned();
  std::vector<Entry> entries = held ? held->entries() : std::vector<Entry>(slot_count_);
  std::vector<bool> is_filled(slot_count_, held != nullptr);
  for (const auto& [slot, entry] : staged_) {
    entries[slot] = entry;
    is_filled[slot] = true;
  }
  if (const auto empty = std::ranges::find(is_filled, false); empty != is_filled.end()) {
    return fail(Errc::kInvalidArgument, "{}: slot {} of {} has no sample for epoch {}",
                options_.directory.string(), empty - is_filled.begin(), slot_count_,
                data::number_of(next));
  }
  ASSIGN_OR_RETURN(const uint64_t samples_size_bytes, file_.size_bytes());
  ASSIGN_OR_RETURN(Ownership owned_next,
                   Ownership::make(next, std::move(entries), options_, samples_size_bytes)
                       .within(options_.directory.string()));
  RETURN_IF_ERROR(file_.sync().within(path(kSamples).string()));
  RETURN_IF_ERROR(
      write_file_atomically(path(kNext), bytes_of(owned_next.bytes(options_)), kOwnerOnly));
  next_ = std::make_shared<const Ownership>(std::move(owned_next));
  return {};
}

Status ShardStorage::commit() {
  assert(next_);
  std::error_code failed;
  fs::rename(path(kNext), path(kOwned), failed);
  if (failed) return fail_os(failed.value(), "cannot rename").within(path(kNext).string());
  RETURN_IF_ERROR(sync_directory(options_.directory));
  {
    const MutexLock lock(mutex_);
    owned_ = std::move(next_);
  }
  next_.reset();
  journal_.reset();
  fs::remove(path(kStaged), failed);  // if this fails, open() removes it
  free_unused();
  return {};
}

Status ShardStorage::discard() {
  std::error_code failed;
  fs::remove(path(kNext), failed);
  if (failed) return fail_os(failed.value(), "cannot remove").within(path(kNext).string());
  RETURN_IF_ERROR(sync_directory(options_.directory));
  next_.reset();
  free_unused();
  return {};
}

void ShardStorage::free_unused() {
  staged_.clear();
  std::vector<FileExtent> used;
  for (const Shared& held : {owned(), next_}) {
    if (!held) continue;
    for (const Entry& entry : held->entries()) {
      used.push_back({.offset_bytes = entry.offset_bytes, .size_bytes = entry.size_bytes});
    }
  }
  places_.reset(std::move(used));
  file_size_bytes_ = places_.end_bytes();
}

}  // namespace millrace::loader::exchange
