// The direct engine: O_DIRECT reads at any offset, length and address.
//
// Aligned parts go directly between the device and the caller's memory; the rest goes through a
// bounce buffer of the thread. If a file system refuses O_DIRECT, the engine fails instead of
// silently using the page cache: its users want to measure the device or to protect the cache. The
// queue uses io_uring if available. Without it, direct reads wait for the device one by one.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "io/engines.h"
#include "io/file_reader.h"
#include "io/inline_queue.h"
#include "io/read_cursor.h"

namespace millrace::io {
namespace {

AlignedMemory& bounce_of_this_thread() {
  thread_local AlignedMemory memory;
  return memory;
}

// Returns the open file, or explains the error if O_DIRECT was refused.
Result<File> explain_failure(Result<File> file, const std::filesystem::path& path) {
  if (file.ok() || file.error().code() != Errc::kInvalidArgument) return file;
  // A directory is an invalid argument too, but deserves its own message.
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return fail_os(EISDIR, "cannot open").within(path.native());
  }
  return fail(Errc::kUnsupported,
              "{}: the file system does not support direct I/O (O_DIRECT); use engine 'posix'",
              path.native());
}

// The message of File::read_at, plus what is specific to O_DIRECT.
Error read_failure(int os_error, const ReadCursor::Piece& piece) {
  const std::string doing = fmt::format("cannot read {} bytes at byte {} with O_DIRECT",
                                        piece.into.size(), piece.offset_bytes);
  if (os_error != EINVAL) return fail_os(os_error, doing);
  return fail(Errc::kUnsupported,
              "{}: invalid argument; the device may need an alignment of more than {} bytes: use "
              "engine 'posix'",
              doing, kBlockBytes);
}

class DirectReader final : public FileReader {
 public:
  using FileReader::FileReader;

  bool is_direct() const override { return true; }

  Result<size_t> read_at(uint64_t offset_bytes, MutableByteView out) const override {
    ReadCursor cursor({.offset_bytes = offset_bytes, .out = out, .is_direct = true});
    while (!cursor.is_finished()) {
      const auto piece = cursor.next(bounce_of_this_thread().room(cursor.bounce_bytes()));
      const ssize_t got =
          pread(fd(), piece.into.data(), piece.into.size(), static_cast<off_t>(piece.offset_bytes));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return read_failure(errno, piece);
      cursor.took(static_cast<size_t>(got));
    }
    return cursor.done_bytes();
  }
};

// Whole blocks bypass the page cache; partial blocks at the ends of a write go through it. The
// kernel keeps the two consistent, since no block is written both ways at once.
class DirectWriter final : public Writer {
 public:
  DirectWriter(File direct, File cached) : direct_(std::move(direct)), cached_(std::move(cached)) {}

  Status write_at(uint64_t offset_bytes, ByteView bytes) override {
    while (!bytes.empty()) {
      const uint64_t in_block = offset_bytes % kBlockBytes;
      size_t now = std::min<uint64_t>(bytes.size(), kBlockBytes - in_block);
      if (in_block == 0 && bytes.size() >= kBlockBytes) {
        now = std::min(bytes.size() / kBlockBytes * kBlockBytes, ReadCursor::kBounceBytesMax);
        RETURN_IF_ERROR(direct_.write_at(offset_bytes, aligned(bytes.first(now))));
      } else {
        RETURN_IF_ERROR(cached_.write_at(offset_bytes, bytes.first(now)));
      }
      offset_bytes += now;
      bytes = bytes.subspan(now);
    }
    return {};
  }

  Status sync() override { return cached_.sync(); }

  Status close() override {
    const Status of_direct = direct_.close();
    RETURN_IF_ERROR(cached_.close());
    return of_direct;
  }

 private:
  static ByteView aligned(ByteView bytes) {
    if (reinterpret_cast<uintptr_t>(bytes.data()) % kBlockBytes == 0) return bytes;
    const MutableByteView copy = bounce_of_this_thread().room(bytes.size());
    std::memcpy(copy.data(), bytes.data(), bytes.size());
    return copy;
  }

  File direct_;
  File cached_;
};

Result<File> open_whole(const std::filesystem::path& path) {
  return explain_failure(File::open(path, O_RDONLY | O_DIRECT), path);
}

Result<size_t> read_whole_direct(const std::filesystem::path& path, MutableByteView out) {
  ASSIGN_OR_RETURN(File file, open_whole(path));
  const DirectReader reader(std::move(file));
  ASSIGN_OR_RETURN(const size_t done, reader.read_at(0, out).within(path.native()));
  if (done < out.size()) return done;
  std::byte spare{};
  ASSIGN_OR_RETURN(const size_t more, reader.read_at(done, {&spare, 1}).within(path.native()));
  if (more == 0) return done;
  ASSIGN_OR_RETURN(const uint64_t size_bytes, reader.size_bytes().within(path.native()));
  return longer_than_room(size_bytes, out.size()).within(path.native());
}

class Direct final : public Engine {
 public:
  std::string_view name() const override { return "direct"; }

  Result<std::unique_ptr<Reader>> open(const std::filesystem::path& path) override {
    ASSIGN_OR_RETURN(File file, explain_failure(open_to_read(path, O_DIRECT), path));
    return std::unique_ptr<Reader>(std::make_unique<DirectReader>(std::move(file)));
  }

  Result<std::unique_ptr<Writer>> create(const std::filesystem::path& path) override {
    ASSIGN_OR_RETURN(File cached, File::open(path, O_WRONLY | O_CREAT | O_TRUNC));
    ASSIGN_OR_RETURN(File direct, explain_failure(File::open(path, O_WRONLY | O_DIRECT), path));
    return std::unique_ptr<Writer>(
        std::make_unique<DirectWriter>(std::move(direct), std::move(cached)));
  }

  // The queue, if there is one, is always better: nothing else keeps the device busy.
  EngineWays ways() const override {
    return {.one_at_a_time = name(), .in_flight = has_ring_ ? name() : std::string_view()};
  }

  Result<std::unique_ptr<ReadQueue>> open_queue(size_t capacity) override {
    if (has_ring_) {
      auto queue = open_uring_queue({capacity, &open_whole, /*is_direct=*/true});
      if (queue.ok()) return queue;
    }
    return std::unique_ptr<ReadQueue>(std::make_unique<InlineQueue>(capacity, &read_whole_direct));
  }

  Result<size_t> read_whole(const std::filesystem::path& path, MutableByteView out) override {
    return read_whole_direct(path, out);
  }

 private:
  const bool has_ring_ = open_uring_queue(1).ok();
};

}  // namespace

Result<std::unique_ptr<Engine>> open_direct() {
  return std::unique_ptr<Engine>(std::make_unique<Direct>());
}

}  // namespace millrace::io
