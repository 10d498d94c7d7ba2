#include "io/testing/memory_engine.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <thread>

#include "io/file_reader.h"

namespace millrace::io {

namespace {
constexpr size_t kChunkBytes = size_t{64} << 10;
using Chunk = std::array<std::byte, kChunkBytes>;
}  // namespace

struct MemoryFile {
  std::string path;
  uint64_t size_bytes = 0;
  // Only chunks that were written: a file may have holes of gigabytes.
  std::map<uint64_t, std::unique_ptr<Chunk>> chunks;
};

// One lock for everything: speed does not matter here, and it makes faults exact.
struct MemoryState {
  std::mutex mutex;
  std::condition_variable released;
  FaultPlan faults;
  std::map<std::string, std::shared_ptr<MemoryFile>> files;
  size_t stalled = 0;
  uint64_t transfers = 0;
  uint64_t interrupted = 0;

  bool affects(std::string_view path) const {
    return path.find(faults.path_contains) != std::string_view::npos;
  }

  uint64_t used_bytes() const {
    uint64_t chunks = 0;
    for (const auto& [path, file] : files) chunks += file->chunks.size();
    return chunks * kChunkBytes;
  }

  // Does what a system call would do before it moves bytes: waits, and returns an errno value or 0.
  // Called with the lock held; releases it while it waits.
  int begin_transfer(std::unique_lock<std::mutex>& lock, const MemoryFile& file) {
    ++transfers;
    if (!affects(file.path)) return 0;
    if (faults.delay.count() > 0) {
      const auto delay = faults.delay;
      lock.unlock();
      std::this_thread::sleep_for(delay);
      lock.lock();
    }
    if (faults.stalls) {
      ++stalled;
      released.wait(lock, [&] { return !faults.stalls; });
      --stalled;
    }
    if (faults.interrupt_every > 0 && transfers % faults.interrupt_every == 0) {
      ++interrupted;
      return EINTR;
    }
    return 0;
  }

  // Returns how many of the `wanted` bytes at `offset` a transfer moves, or nullopt if it must fail
  // there.
  std::optional<size_t> length_of(const MemoryFile& file, uint64_t offset, size_t wanted,
                                  std::optional<uint64_t> error_at) const {
    if (!affects(file.path)) return wanted;
    size_t length = wanted;
    if (faults.transfer_bytes_max > 0) length = std::min(length, faults.transfer_bytes_max);
    if (error_at && *error_at >= offset && *error_at - offset < length) {
      length = *error_at - offset;
      if (length == 0) return std::nullopt;
    }
    return length;
  }
};

namespace {

// Splits a transfer at chunk boundaries.
template <typename Visit>
void for_each_chunk(uint64_t offset, size_t length, Visit visit) {
  size_t done = 0;
  while (done < length) {
    const uint64_t at = offset + done;
    const size_t in_chunk = at % kChunkBytes;
    const size_t now = std::min(length - done, kChunkBytes - in_chunk);
    visit(at / kChunkBytes, in_chunk, done, now);
    done += now;
  }
}

void copy_out(const MemoryFile& file, uint64_t offset, MutableByteView out) {
  for_each_chunk(offset, out.size(), [&](uint64_t index, size_t in_chunk, size_t at, size_t now) {
    const auto chunk = file.chunks.find(index);
    if (chunk == file.chunks.end()) {
      std::memset(out.data() + at, 0, now);
    } else {
      std::memcpy(out.data() + at, chunk->second->data() + in_chunk, now);
    }
  });
}

void copy_in(MemoryFile& file, uint64_t offset, ByteView bytes) {
  for_each_chunk(offset, bytes.size(), [&](uint64_t index, size_t in_chunk, size_t at, size_t now) {
    auto& chunk = file.chunks[index];
    if (!chunk) chunk = std::make_unique<Chunk>();
    std::memcpy(chunk->data() + in_chunk, bytes.data() + at, now);
  });
  file.size_bytes = std::max(file.size_bytes, offset + bytes.size());
}

class MemoryReader final : public Reader {
 public:
  MemoryReader(std::shared_ptr<MemoryState> state, std::shared_ptr<MemoryFile> file)
      : state_(std::move(state)), file_(std::move(file)) {}

  Result<uint64_t> size_bytes() const override {
    const std::lock_guard lock(state_->mutex);
    return file_->size_bytes;
  }

  Result<size_t> read_at(uint64_t offset_bytes, MutableByteView out) const override {
    std::unique_lock lock(state_->mutex);
    size_t done = 0;
    while (done < out.size()) {
      if (state_->begin_transfer(lock, *file_) == EINTR) continue;
      const uint64_t at = offset_bytes + done;
      if (at >= file_->size_bytes) break;
      const size_t wanted = std::min<uint64_t>(out.size() - done, file_->size_bytes - at);
      const auto length = state_->length_of(*file_, at, wanted, state_->faults.read_error_at);
      if (!length) {
        return fail_os(EIO, fmt::format("cannot read {} bytes at byte {}", wanted, at));
      }
      copy_out(*file_, at, out.subspan(done, *length));
      done += *length;
    }
    return done;
  }

 private:
  std::shared_ptr<MemoryState> state_;
  std::shared_ptr<MemoryFile> file_;
};

class MemoryWriter final : public Writer {
 public:
  MemoryWriter(std::shared_ptr<MemoryState> state, std::shared_ptr<MemoryFile> file)
      : state_(std::move(state)), file_(std::move(file)) {}

  Status write_at(uint64_t offset_bytes, ByteView bytes) override {
    std::unique_lock lock(state_->mutex);
    while (!bytes.empty()) {
      if (state_->begin_transfer(lock, *file_) == EINTR) continue;
      const auto length =
          state_->length_of(*file_, offset_bytes, bytes.size(), state_->faults.write_error_at);
      const std::string doing =
          fmt::format("cannot write {} bytes at byte {}", bytes.size(), offset_bytes);
      if (!length) return fail_os(EIO, doing);
      if (!has_room(offset_bytes, *length)) return fail_os(ENOSPC, doing);
      copy_in(*file_, offset_bytes, bytes.first(*length));
      offset_bytes += *length;
      bytes = bytes.subspan(*length);
    }
    return {};
  }

  Status sync() override { return {}; }
  Status close() override { return {}; }

 private:
  // The lock is held.
  bool has_room(uint64_t offset, size_t length) const {
    if (!state_->affects(file_->path)) return true;
    uint64_t more = 0;
    for_each_chunk(offset, length, [&](uint64_t index, size_t, size_t, size_t) {
      if (!file_->chunks.contains(index)) more += kChunkBytes;
    });
    return more == 0 || state_->used_bytes() + more <= state_->faults.disk_bytes;
  }

  std::shared_ptr<MemoryState> state_;
  std::shared_ptr<MemoryFile> file_;
};

Result<std::unique_ptr<Reader>> open_in(const std::shared_ptr<MemoryState>& state,
                                        const std::string& name) {
  const std::lock_guard lock(state->mutex);
  if (state->faults.open_errno != 0 && state->affects(name)) {
    return fail_os(state->faults.open_errno, "cannot open").within(name);
  }
  const auto found = state->files.find(name);
  if (found != state->files.end()) {
    return std::unique_ptr<Reader>(std::make_unique<MemoryReader>(state, found->second));
  }
  const auto below = state->files.lower_bound(name + "/");
  const bool is_directory = below != state->files.end() && below->first.starts_with(name + "/");
  return fail_os(is_directory ? EISDIR : ENOENT, "cannot open").within(name);
}

Result<size_t> read_whole_in(const std::shared_ptr<MemoryState>& state, const std::string& name,
                             MutableByteView out) {
  ASSIGN_OR_RETURN(const auto reader, open_in(state, name));
  ASSIGN_OR_RETURN(const size_t done, reader->read_at(0, out).within(name));
  ASSIGN_OR_RETURN(const uint64_t size_bytes, reader->size_bytes().within(name));
  if (size_bytes <= out.size()) return done;
  return longer_than_room(size_bytes, out.size()).within(name);
}

// Reads in wait(), not in submit(), so that a stalled read is in flight. Last submitted, first
// read.
class MemoryQueue final : public ReadQueue {
 public:
  MemoryQueue(size_t capacity, std::shared_ptr<MemoryState> state)
      : capacity_(capacity), state_(std::move(state)) {}

  size_t capacity() const override { return capacity_; }
  size_t in_flight() const override { return reads_.size(); }

  Status submit(const ReadRequest& request) override {
    reads_.push_back({.tag = request.tag, .of_part = request, .of_whole = {}});
    return {};
  }

  Status submit_whole(WholeFileRequest request) override {
    reads_.push_back({.tag = request.tag, .of_part = {}, .of_whole = std::move(request)});
    return {};
  }

  Status wait(std::vector<ReadDone>& done) override {
    if (reads_.empty()) return {};
    const Read read = std::move(reads_.back());
    reads_.pop_back();
    done.push_back({read.tag, perform(read)});
    return {};
  }

 private:
  struct Read {
    uint64_t tag = 0;
    ReadRequest of_part;  // used if it has a reader; otherwise of_whole is
    WholeFileRequest of_whole;
  };

  Result<size_t> perform(const Read& read) const {
    const ReadRequest& part = read.of_part;
    if (part.reader != nullptr) return part.reader->read_at(part.offset_bytes, part.out);
    return read_whole_in(state_, read.of_whole.path, read.of_whole.out);
  }

  size_t capacity_;
  std::shared_ptr<MemoryState> state_;  // shared with the engine and its readers
  std::vector<Read> reads_;
};

}  // namespace

MemoryEngine::MemoryEngine() : state_(std::make_shared<MemoryState>()) {}

Result<std::unique_ptr<Reader>> MemoryEngine::open(const std::filesystem::path& path) {
  return open_in(state_, path.native());
}

Result<std::unique_ptr<Writer>> MemoryEngine::create(const std::filesystem::path& path) {
  const std::lock_guard lock(state_->mutex);
  const std::string& name = path.native();
  if (state_->faults.open_errno != 0 && state_->affects(name)) {
    return fail_os(state_->faults.open_errno, "cannot create").within(name);
  }
  auto file = std::make_shared<MemoryFile>();
  file->path = name;
  state_->files[name] = file;
  return std::unique_ptr<Writer>(std::make_unique<MemoryWriter>(state_, std::move(file)));
}

Result<std::unique_ptr<ReadQueue>> MemoryEngine::open_queue(size_t capacity) {
  return std::unique_ptr<ReadQueue>(std::make_unique<MemoryQueue>(capacity, state_));
}

Result<size_t> MemoryEngine::read_whole(const std::filesystem::path& path, MutableByteView out) {
  return read_whole_in(state_, path.native(), out);
}

void MemoryEngine::set_faults(FaultPlan faults) {
  const std::lock_guard lock(state_->mutex);
  state_->faults = std::move(faults);
  state_->released.notify_all();
}

void MemoryEngine::release() {
  const std::lock_guard lock(state_->mutex);
  state_->faults.stalls = false;
  state_->released.notify_all();
}

size_t MemoryEngine::stalled_count() const {
  const std::lock_guard lock(state_->mutex);
  return state_->stalled;
}

uint64_t MemoryEngine::transfer_count() const {
  const std::lock_guard lock(state_->mutex);
  return state_->transfers;
}

uint64_t MemoryEngine::interrupted_count() const {
  const std::lock_guard lock(state_->mutex);
  return state_->interrupted;
}

}  // namespace millrace::io
