#include "store/order/read_ahead.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "base/concurrency/thread.h"
#include "base/io/mounts.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14; glibc 2.35
#endif

namespace millrace::store {
namespace {

constexpr uint64_t kReadPieceBytes = 4 << 20;

bool is_on_shared_storage(const std::filesystem::path& path) {
  std::error_code error;
  const auto mount = mount_of(std::filesystem::canonical(path, error));
  return mount && is_shared(mount->file_system);
}

// The piece that begins at a byte of a partition; empty after its end.
ByteView piece_at(ByteView bytes, uint64_t at) {
  if (at >= bytes.size()) return {};
  return bytes.subspan(static_cast<size_t>(at),
                       static_cast<size_t>(std::min(kReadPieceBytes, bytes.size() - at)));
}

// madvise(2), which takes whole pages; pieces begin with one. Mappings are never empty there.
bool advise(ByteView piece, int advice) {
  return piece.empty() ||
         ::madvise(const_cast<std::byte*>(piece.data()), piece.size(), advice) == 0;
}

}  // namespace

Result<std::unique_ptr<ReadAhead>> ReadAhead::start(const PackReader& reader,
                                                    ReadAheadOptions options) {
  std::unique_ptr<ReadAhead> made(new ReadAhead(reader, std::move(options)));
  bool is_needed = false;
  for (uint32_t i = 0; i < reader.catalogue().partition_count(); ++i) {
    const bool is_wanted =
        !made->options_.only_shared || is_on_shared_storage(reader.partition_path(i));
    if (!is_wanted) made->needed_[i] = kNeededMin;
    is_needed = is_needed || is_wanted;
  }
  if (!is_needed) return std::unique_ptr<ReadAhead>();
  ReadAhead& self = *made;
  ASSIGN_OR_RETURN(made->thread_, start_thread("store ahead", [&self] { self.run(); }));
  return made;
}

ReadAhead::~ReadAhead() {
  {
    const MutexLock lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ReadAhead::add(uint32_t partition) {
  {
    const MutexLock lock(mutex_);
    waiting_.push_back(partition);
  }
  changed_.notify_all();
}

void ReadAhead::run() {
  for (;;) {
    MutexLock lock(mutex_);
    changed_.wait(lock, [this]() REQUIRES(mutex_) { return is_ending_ || !waiting_.empty(); });
    if (is_ending_) return;
    const uint32_t partition = waiting_.front();
    waiting_.pop_front();
    lock.unlock();
    read(partition);
  }
}

// While the kernel fetches one piece, it is asked for the next: many requests are then on their
// way to the server. A read of the file would only ask for 128 KiB at a time.
void ReadAhead::read(uint32_t partition) {
  const Result<MappedFile>& file = reader_.partition_file(partition);
  if (!file.ok() || file->bytes().size() > budget_bytes_) return;
  const ByteView bytes = file->bytes();
  budget_bytes_ -= bytes.size();
  std::vector<uint32_t> files;
  if (options_.make) files = files_of(partition);
  auto next = files.begin();
  BlockCodec codec;
  for (uint64_t at = 0; at < bytes.size() && !is_ending_; at += kReadPieceBytes) {
    const ByteView piece = piece_at(bytes, at);
    advise(piece_at(bytes, at + kReadPieceBytes), MADV_WILLNEED);
    // An older kernel cannot wait for the pages, and fetches them when it likes.
    if (!advise(piece, MADV_POPULATE_READ) && errno != EINVAL) return;
    read_bytes_ += piece.size();
    for (; next != files.end() && !is_ending_; ++next) {
      const wire::CatalogueEntry entry = reader_.catalogue().entry(*next);
      if (entry.offset_bytes + entry.packed_bytes > at + piece.size()) break;
      options_.make(*next, codec);
    }
  }
}

// In the order of their places.
std::vector<uint32_t> ReadAhead::files_of(uint32_t partition) const {
  const Catalogue& catalogue = reader_.catalogue();
  std::vector<uint32_t> files;
  for (uint32_t i = 0; i < catalogue.entry_count(); ++i) {
    const wire::CatalogueEntry entry = catalogue.entry(i);
    if (entry.kind == wire::EntryKind::kFile && entry.partition == partition) files.push_back(i);
  }
  std::ranges::sort(files, {}, [&](uint32_t i) { return catalogue.entry(i).offset_bytes; });
  return files;
}

}  // namespace millrace::store
