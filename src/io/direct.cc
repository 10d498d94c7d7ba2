// The direct engine: O_DIRECT, for any offset, length and address.
//
// What is aligned goes straight between the device and the caller's memory; the rest goes through a
// bounce buffer of the thread. A file system that refuses O_DIRECT is an error that says so, and
// not a silent turn to the page cache: who asks for this engine measures the device, or protects
// what is cached. Its queue is io_uring's where there is one; without a queue, direct reads wait
// for the device one by one.
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

// The open file, or its error in words where it is the flag that was refused.
Result<File> explained(Result<File> file, const std::filesystem::path& path) {
  if (file.ok() || file.error().code() != Errc::kInvalidArgument) return file;
  // A directory is an invalid argument too, and its own fact.
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return fail_os(EISDIR, "cannot open").within(path.native());
  }
  return fail(Errc::kUnsupported,
              "{}: its file system refuses direct I/O (O_DIRECT); use the engine 'posix' here",
              path.native());
}

// The same words as File::read_at, and what is special here.
Error read_failure(int os_error, const ReadCursor::Piece& piece) {
  const std::string doing = fmt::format("cannot read {} bytes at byte {} with O_DIRECT",
                                        piece.into.size(), piece.offset_bytes);
  if (os_error != EINVAL) return fail_os(os_error, doing);
  return fail(Errc::kUnsupported,
              "{}: invalid argument; the device may want an alignment of more than {} bytes: use "
              "the engine 'posix'",
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

// Whole blocks go past the page cache, the ends of a write that are none go through it. The kernel
// keeps the two in step, since no block is written both ways at once.
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
  return explained(File::open(path, O_RDONLY | O_DIRECT), path);
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
    ASSIGN_OR_RETURN(File file, explained(open_to_read(path, O_DIRECT), path));
    return std::unique_ptr<Reader>(std::make_unique<DirectReader>(std::move(file)));
  }

  Result<std::unique_ptr<Writer>> create(const std::filesystem::path& path) override {
    ASSIGN_OR_RETURN(File cached, File::open(path, O_WRONLY | O_CREAT | O_TRUNC));
    ASSIGN_OR_RETURN(File direct, explained(File::open(path, O_WRONLY | O_DIRECT), path));
    return std::unique_ptr<Writer>(
        std::make_unique<DirectWriter>(std::move(direct), std::move(cached)));
  }

  // Its queue is better wherever there is one: nothing else keeps the device busy.
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
