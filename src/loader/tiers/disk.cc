#include "loader/tiers/disk.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>

#include "base/hash/crc32c.h"

namespace millrace::loader::tiers {

using data::index_of;
using data::SampleId;

// ---- extents ----

Extents::Extents(uint64_t capacity_bytes) {
  const uint64_t whole = capacity_bytes / kBlockBytes * kBlockBytes;
  if (whole > 0) free_[0] = whole;
}

uint64_t Extents::rounded(uint64_t size_bytes) {
  // A block even for an empty sample, so that every sample has its own place.
  return size_bytes == 0 ? kBlockBytes : (size_bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
}

std::optional<uint64_t> Extents::take(uint64_t size_bytes) {
  const uint64_t wanted = rounded(size_bytes);
  for (auto place = free_.begin(); place != free_.end(); ++place) {
    const auto [offset, length] = *place;
    if (length < wanted) continue;
    free_.erase(place);
    if (length > wanted) free_[offset + wanted] = length - wanted;
    return offset;
  }
  return std::nullopt;
}

void Extents::give_back(uint64_t offset_bytes, uint64_t size_bytes) {
  auto place = free_.emplace(offset_bytes, rounded(size_bytes)).first;
  if (const auto after = std::next(place);
      after != free_.end() && place->first + place->second == after->first) {
    place->second += after->second;
    free_.erase(after);
  }
  if (place == free_.begin()) return;
  if (const auto before = std::prev(place); before->first + before->second == place->first) {
    before->second += place->second;
    free_.erase(place);
  }
}

// ---- the file ----

namespace {

constexpr std::string_view kNameBegins = "millrace-tier-";

std::string name_of_host() {
  char name[256] = {};
  static_cast<void>(gethostname(name, sizeof(name) - 1));
  return name;
}

// "millrace-tier-HOST-PID-NUMBER". With the host, because hosts may share the directory.
std::string new_name() {
  static std::atomic<uint64_t> number{0};
  return fmt::format("{}{}-{}-{}", kNameBegins, name_of_host(), getpid(), number++);
}

// A process of this host made it and has ended. The name is exactly one of new_name().
bool is_leftover(const std::filesystem::path& path) {
  const std::string name = path.filename().native();
  const std::string ours = fmt::format("{}{}-", kNameBegins, name_of_host());
  if (!name.starts_with(ours)) return false;
  const char* const end = name.data() + name.size();
  pid_t pid = 0;
  uint64_t number = 0;
  const auto parsed = std::from_chars(name.data() + ours.size(), end, pid);
  if (parsed.ec != std::errc() || pid <= 0 || parsed.ptr == end || *parsed.ptr != '-') return false;
  if (std::from_chars(parsed.ptr + 1, end, number).ptr != end) return false;
  struct stat status{};
  const bool is_own =
      lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid();
  return is_own && kill(pid, 0) != 0 && errno == ESRCH;
}

uint64_t remove_leftovers(const std::filesystem::path& directory) {
  uint64_t removed = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;  // another rank may have removed it
    if (is_leftover(entry->path()) && std::filesystem::remove(entry->path(), ignored)) {
      ++removed;
    }
  }
  return removed;
}

constexpr unsigned kOwnerOnly = 0600;

// A new file that nobody else has open and only this user may access. `name` is empty if the file
// has none.
struct NewFile {
  File file;
  std::filesystem::path name;
};

Result<NewFile> make_file(const std::filesystem::path& directory) {
  auto unnamed = File::open(directory, O_TMPFILE | O_RDWR, kOwnerOnly);
  if (unnamed.ok()) return NewFile{*std::move(unnamed), {}};
  while (true) {
    const auto path = directory / new_name();
    auto named = File::open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, kOwnerOnly);
    if (named.ok()) return NewFile{*std::move(named), path};
    if (named.error().code() != Errc::kAlreadyExists) return named.error();
  }
}

}  // namespace

Result<std::unique_ptr<Disk>> Disk::open(DiskOptions options) {
  const uint64_t removed = remove_leftovers(options.directory);
  ASSIGN_OR_RETURN(NewFile made, make_file(options.directory));
  // The engine opens the file in its own way, by a name that always refers to the open file. For an
  // engine without real files it is just a name.
  const std::filesystem::path path = fmt::format("/proc/self/fd/{}", made.file.fd());
  auto writer = options.engine->create(path).within(options.directory.native());
  auto reader = options.engine->open(path).within(options.directory.native());
  std::error_code ignored;
  if (!made.name.empty()) std::filesystem::remove(made.name, ignored);
  if (!writer.ok()) return writer.error();
  if (!reader.ok()) return reader.error();
  std::unique_ptr<Disk> tier(
      new Disk(std::move(options), std::move(made.file), *std::move(writer), *std::move(reader)));
  const MutexLock lock(tier->mutex_);
  tier->stats_.leftovers_removed = removed;
  return tier;
}

Disk::Disk(DiskOptions options, File file, std::unique_ptr<io::Writer> writer,
           std::unique_ptr<io::Reader> reader)
    : options_(std::move(options)),
      file_(std::move(file)),
      writer_(std::move(writer)),
      reader_(std::move(reader)),
      held_(options_.capacity_bytes),
      extents_(options_.capacity_bytes),
      writes_(options_.queued_writes_max),
      thread_([this] { write_all(); }) {}

Disk::~Disk() {
  writes_.close();
  thread_.join();
}

// ---- reading ----

std::optional<Disk::Entry> Disk::find(SampleId sample) const {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(index_of(sample));
  if (found == entries_.end() || !found->second.is_written) return std::nullopt;
  return found->second;
}

bool Disk::contains(SampleId sample) const { return find(sample).has_value(); }

std::optional<ByteView> Disk::read(SampleId sample, const PlaceFor& place_for) {
  const auto entry = find(sample);
  if (!entry) return std::nullopt;
  const auto place = place_for(entry->size_bytes);
  if (!place) return std::nullopt;
  const auto got = reader_->read_at(entry->offset_bytes, *place);
  const bool is_good = got.ok() && *got == entry->size_bytes && crc32c(*place) == entry->crc32c;
  const MutexLock lock(mutex_);
  // The sample may have been dropped during the read, and its place overwritten. Then it is just
  // not here.
  const auto found = entries_.find(index_of(sample));
  if (found == entries_.end() || found->second.generation != entry->generation) {
    return std::nullopt;
  }
  if (is_good) return *place;
  ++stats_.read_errors;
  held_.erase(sample);
  remove(sample);
  return std::nullopt;
}

// ---- writing ----

bool Disk::would_take(size_t size_bytes, UseTime next_use) const {
  const MutexLock lock(mutex_);
  const uint64_t rounded = Extents::rounded(size_bytes);
  if (!stats_.ended_by.empty() || rounded > held_.capacity_bytes()) return false;
  if (held_.used_bytes() + rounded <= held_.capacity_bytes()) return true;
  const auto last = held_.last_used();
  return last && last->next_use > next_use;
}

void Disk::offer(SampleId sample, SampleBytes bytes, UseTime next_use) {
  if (!would_take(bytes.size_bytes, next_use)) return;
  Write write{sample, std::move(bytes), next_use};
  {
    const MutexLock lock(mutex_);
    if (held_.contains(sample)) return;
    ++unsettled_;
  }
  if (writes_.try_push(write)) return;
  const MutexLock lock(mutex_);
  ++stats_.skipped_writes;
  if (--unsettled_ == 0) settled_.notify_all();
}

void Disk::write_all() {
  while (auto write = writes_.pop()) {
    write_one(*write);
    const MutexLock lock(mutex_);
    if (--unsettled_ == 0) settled_.notify_all();
  }
}

// Reserves a place in the file if the sample is worth keeping. It must not be read yet.
std::optional<Disk::Entry> Disk::reserve(const Write& write) {
  const MutexLock lock(mutex_);
  if (!stats_.ended_by.empty() || held_.contains(write.sample)) return std::nullopt;
  const uint64_t size_bytes = write.bytes.size_bytes;
  std::vector<SampleId> gone;
  if (!held_.admit({write.sample, Extents::rounded(size_bytes), write.next_use}, gone)) {
    return std::nullopt;
  }
  for (const SampleId sample : gone) remove(sample);
  auto offset = extents_.take(size_bytes);
  while (!offset) {
    // There is enough room, but in fragments: drop the samples used last until one is large enough.
    const auto last = held_.last_used();
    if (last->sample == write.sample) break;
    held_.erase(last->sample);
    remove(last->sample);
    offset = extents_.take(size_bytes);
  }
  if (!offset) {
    held_.erase(write.sample);
    return std::nullopt;
  }
  const Entry entry{*offset, size_bytes, crc32c(write.bytes.view()), false, ++generation_};
  entries_[index_of(write.sample)] = entry;
  return entry;
}

void Disk::write_one(const Write& write) {
  const auto entry = reserve(write);
  if (!entry) return;
  const Status written = writer_->write_at(entry->offset_bytes, write.bytes.view());
  const MutexLock lock(mutex_);
  const auto found = entries_.find(index_of(write.sample));
  const bool is_there = found != entries_.end() && found->second.generation == entry->generation;
  if (!written.ok()) {
    stats_.ended_by = written.error().message();
    if (!is_there) return;
    held_.erase(write.sample);
    remove(write.sample);
    return;
  }
  ++stats_.written_samples;
  if (is_there) found->second.is_written = true;
}

// REQUIRES: held_ no longer has the sample. A sample that is being written may be removed too: the
// same thread makes the next write to its place, so that comes later.
void Disk::remove(SampleId sample) {
  const auto found = entries_.find(index_of(sample));
  if (found == entries_.end()) return;
  extents_.give_back(found->second.offset_bytes, found->second.size_bytes);
  entries_.erase(found);
}

void Disk::used(SampleId sample, std::optional<UseTime> next_use) {
  const MutexLock lock(mutex_);
  if (next_use) {
    held_.touch(sample, *next_use);
    return;
  }
  held_.erase(sample);
  remove(sample);
}

void Disk::refresh(UseTime now, const HoldSet::NextUse& next_use) {
  const MutexLock lock(mutex_);
  std::vector<SampleId> gone;
  held_.refresh(now, next_use, gone);
  for (const SampleId sample : gone) remove(sample);
}

void Disk::settle() {
  MutexLock lock(mutex_);
  settled_.wait(lock, [&]() REQUIRES(mutex_) { return unsettled_ == 0; });
}

DiskStats Disk::stats() const {
  const MutexLock lock(mutex_);
  DiskStats stats = stats_;
  stats.held_bytes = held_.used_bytes();
  stats.held_samples = held_.count();
  return stats;
}

}  // namespace millrace::loader::tiers
