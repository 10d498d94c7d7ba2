#include "store/pack/partition_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <memory>
#include <optional>
#include <utility>

#include "base/concurrency/mutex.h"
#include "base/hash/crc32c.h"
#include "base/text/text.h"
#include "store/pack/open_below.h"
#include "wire/pack_file.h"

namespace millrace::store {
namespace {

using wire::CatalogueEntry;
using wire::kPackAlignment;
using wire::kPackBlockBytes;

// Small files are written together up to this size, and long files are cut into such pieces. It
// fits into the second cache: bytes are read, summed, perhaps compressed, and written while they
// are there.
constexpr uint64_t kUnitBytes = kPackBlockBytes;
// Longer files are compressed in pieces, as a sample suggests. Shorter ones are compressed as a
// whole, so that it is known what they gain.
constexpr uint64_t kLongCompressedBytes = 8 * kPackBlockBytes;
// Writing to the device begins after this many bytes, so that little is left for the end.
constexpr uint64_t kWritebackBytes = uint64_t{8} << 20;
constexpr size_t kUnitFilesMax = 4096;
constexpr uint64_t kSampleBytes = uint64_t{256} << 10;  // of a long file, to choose its codec

uint64_t aligned(uint64_t offset) {
  return (offset + kPackAlignment - 1) / kPackAlignment * kPackAlignment;
}

// Reading a hole would fill the page cache with zeros. REQUIRES: the file has all these bytes.
bool is_hole(const File& file, uint64_t offset_bytes, uint64_t size_bytes) {
  const off_t data = ::lseek(file.fd(), static_cast<off_t>(offset_bytes), SEEK_DATA);
  if (data < 0) return errno == ENXIO;  // nothing but a hole up to the end
  return static_cast<uint64_t>(data) >= offset_bytes + size_bytes;
}

Error changed_error() {
  return fail(Errc::kIo, "the file changed while it was packed; run the command again");
}

// What the pieces of a long file share.
struct LongFile {
  std::once_flag once;  // the first thread that needs it chooses the encoding
  Status chosen;
  Encoding encoding;
  // Used by one piece at a time, when it is its turn.
  uint64_t begin_bytes = 0;
  uint32_t checksum = 0;
  std::vector<uint32_t> table;
};

struct Unit {
  size_t begin = 0;  // files [begin, end) of work_.files
  size_t end = 0;
  std::shared_ptr<LongFile> piece_of;  // shared by the pieces of the file; null: small files
  uint64_t offset_bytes = 0;           // of the piece in its file
  uint64_t size_bytes = 0;
};

// The memory of a thread.
struct Room {
  BlockCodec codec;
  std::vector<std::byte> out;     // what is written
  std::vector<std::byte> source;  // a piece before it is compressed
  std::vector<uint32_t> table;    // of the blocks of a piece
  ByteView piece;                 // the original bytes of a piece
};

class PartitionWriter {
 public:
  PartitionWriter(PartitionWork work, const File& out, uint64_t begin_bytes)
      : work_(std::move(work)), out_(out), end_bytes_(begin_bytes) {
    cut_units();
  }

  Result<uint64_t> run(ThreadPool& pool) {
    {
      const MutexLock lock(mutex_);
      RETURN_IF_ERROR(reserve());
    }
    // The pool hands out the units in order, so those before a waiting unit are being worked on.
    const Status done = pool.parallel_for(units_.size(), [&](size_t i) -> Status {
      Status status = write_unit(i);
      if (status.ok()) return status;
      const MutexLock lock(mutex_);
      if (!failure_) failure_ = status.error();
      turn_.notify_all();
      return status;
    });
    const MutexLock lock(mutex_);
    if (failure_) return *failure_;  // the cause; others only stopped waiting
    RETURN_IF_ERROR(Status(done));
    return aligned(end_bytes_);
  }

 private:
  void cut_units() {
    const uint64_t long_bytes =
        work_.codec == CodecChoice::kNone ? kUnitBytes : kLongCompressedBytes;
    uint64_t gathered = 0;
    for (size_t i = 0; i < work_.files.size(); ++i) {
      const uint64_t size = work_.tree.entries[work_.files[i]].size_bytes;
      if (size > long_bytes) {
        const auto file = std::make_shared<LongFile>();
        for (uint64_t at = 0; at < size; at += kUnitBytes) {
          units_.push_back({i, i + 1, file, at, std::min(size - at, kUnitBytes)});
        }
        gathered = kUnitBytes;  // the next file begins a unit
        continue;
      }
      const bool begins = units_.empty() || gathered + size > kUnitBytes ||
                          units_.back().end - units_.back().begin >= kUnitFilesMax;
      if (begins) {
        units_.push_back({i, i, nullptr, 0, 0});
        gathered = 0;
      }
      units_.back().end = i + 1;
      units_.back().size_bytes += size;
      gathered += aligned(size);
    }
  }

  // Reserves the space for members that are not compressed, since their size is known. A full disk
  // is found before anything is written. On ext4 the writes are faster, because none of them
  // reserves its blocks one by one.
  Status reserve() const REQUIRES(mutex_) {
    if (work_.codec != CodecChoice::kNone || work_.files.empty()) return {};
    uint64_t end = end_bytes_;
    for (const uint32_t i : work_.files) end = aligned(end) + work_.tree.entries[i].size_bytes;
    if (::fallocate(out_.fd(), 0, 0, static_cast<off_t>(end)) == 0) return {};
    // Many file systems cannot reserve space. The writes find what else is wrong.
    if (errno != ENOSPC) return {};
    return fail_os(ENOSPC, fmt::format("cannot reserve {} bytes", end));
  }

  std::unique_ptr<Room> take_room() {
    const MutexLock lock(mutex_);
    if (rooms_.empty()) return std::make_unique<Room>();
    std::unique_ptr<Room> room = std::move(rooms_.back());
    rooms_.pop_back();
    return room;
  }

  Status write_unit(size_t number) {
    const Unit& unit = units_[number];
    std::unique_ptr<Room> room = take_room();
    RETURN_IF_ERROR(unit.piece_of ? read_piece(unit, *room) : read_small(unit, *room));
    uint64_t place = 0;
    RETURN_IF_ERROR(take_place(number, unit, *room, place));
    RETURN_IF_ERROR(out_.write_at(place, room->out));
    begin_writeback();
    if (work_.on_packed) work_.on_packed(unit.size_bytes);
    const MutexLock lock(mutex_);
    rooms_.push_back(std::move(room));
    return {};
  }

  void begin_writeback() {
    uint64_t from = 0;
    uint64_t end = 0;
    {
      const MutexLock lock(mutex_);
      if (end_bytes_ - writeback_bytes_ < kWritebackBytes) return;
      from = std::exchange(writeback_bytes_, end_bytes_);
      end = end_bytes_;
    }
    // Only a hint: bytes that other threads have not written yet are left for the end.
    static_cast<void>(::sync_file_range(out_.fd(), static_cast<off_t>(from),
                                        static_cast<off_t>(end - from), SYNC_FILE_RANGE_WRITE));
  }

  Status take_place(size_t number, const Unit& unit, Room& room, uint64_t& place) {
    MutexLock lock(mutex_);
    turn_.wait(lock, [&]() REQUIRES(mutex_) { return next_unit_ == number || failure_; });
    if (failure_) return *failure_;
    if (unit.piece_of) {
      place = place_piece(unit, room);
    } else {
      place = aligned(end_bytes_);
      for (size_t i = unit.begin; i < unit.end; ++i) {
        work_.tree.entries[work_.files[i]].offset_bytes += place;  // it was relative to the unit
      }
    }
    end_bytes_ = place + room.out.size();
    ++next_unit_;
    turn_.notify_all();
    return {};
  }

  // REQUIRES: it is the turn of the unit.
  uint64_t place_piece(const Unit& unit, Room& room) REQUIRES(mutex_) {
    LongFile& file = *unit.piece_of;
    CatalogueEntry& entry = work_.tree.entries[work_.files[unit.begin]];
    const uint64_t place = unit.offset_bytes == 0 ? aligned(end_bytes_) : end_bytes_;
    if (unit.offset_bytes == 0) file.begin_bytes = place;
    // Here and not before, because the checksum continues that of the pieces before. The bytes are
    // still in the cache: 1 MiB takes about 50 us, a fifth of the write, and writes take turns too.
    file.checksum = crc32c(room.piece, file.checksum);
    file.table.insert(file.table.end(), room.table.begin(), room.table.end());
    if (unit.offset_bytes + unit.size_bytes < entry.size_bytes) return place;
    const ByteView table = std::as_bytes(std::span(file.table));
    room.out.insert(room.out.end(), table.begin(), table.end());
    entry.offset_bytes = file.begin_bytes;
    entry.packed_bytes = place + room.out.size() - file.begin_bytes;
    entry.crc32c = file.checksum;
    entry.codec = file.encoding.codec;
    entry.shuffle = file.encoding.shuffle;
    return place;
  }

  Result<File> open_source(uint32_t index) const {
    const CatalogueEntry& entry = work_.tree.entries[index];
    const std::string path = work_.tree.path(index);
    const auto open = [&]() -> Result<File> {
      ASSIGN_OR_RETURN(File file,
                       open_below(work_.source, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
      struct stat status{};
      if (::fstat(file.fd(), &status) != 0) return fail_os(errno, "cannot read its status");
      const int64_t mtime_ns = ns_of(status.st_mtim);
      if (!S_ISREG(status.st_mode) || static_cast<uint64_t>(status.st_size) != entry.size_bytes ||
          mtime_ns != entry.mtime_ns) {
        return changed_error();
      }
      return file;
    };
    return open().within(printable(path));
  }

  Status read_small(const Unit& unit, Room& room) {
    room.out.clear();
    for (size_t i = unit.begin; i < unit.end; ++i) {
      RETURN_IF_ERROR(add_small(work_.files[i], room));
    }
    return {};
  }

  // Appends the file to the unit.
  Status add_small(uint32_t index, Room& room) {
    CatalogueEntry& entry = work_.tree.entries[index];
    const size_t begin = static_cast<size_t>(aligned(room.out.size()));
    const auto size = static_cast<size_t>(entry.size_bytes);
    room.out.resize(begin + size);
    ASSIGN_OR_RETURN(const File file, open_source(index));
    const MutableByteView bytes = MutableByteView(room.out).subspan(begin, size);
    ASSIGN_OR_RETURN(const size_t length,
                     file.read_at(0, bytes).within(printable(work_.tree.path(index))));
    if (length != size) return changed_error().within(printable(work_.tree.path(index)));
    entry.crc32c = crc32c(bytes);
    entry.offset_bytes = begin;
    entry.packed_bytes = size;
    const Encoding encoding = room.codec.choose(work_.codec, bytes);
    if (encoding.codec == wire::PackCodec::kRaw) return {};
    room.source.clear();
    if (!room.codec.encode_member(encoding, bytes, room.source)) return {};
    std::copy(room.source.begin(), room.source.end(), bytes.begin());
    room.out.resize(begin + room.source.size());
    entry.packed_bytes = room.source.size();
    entry.codec = encoding.codec;
    entry.shuffle = encoding.shuffle;
    return {};
  }

  Status choose_encoding(uint32_t index, LongFile& file, const File& source, BlockCodec& codec) {
    if (work_.codec == CodecChoice::kNone) return {};
    const uint64_t size = work_.tree.entries[index].size_bytes;
    // From its middle: the beginning is often a header.
    std::vector<std::byte> sample(kSampleBytes);
    RETURN_IF_ERROR(source.read_exactly_at(size / 2 / kPackAlignment * kPackAlignment, sample));
    file.encoding = codec.choose(work_.codec, sample);
    return {};
  }

  Status read_piece(const Unit& unit, Room& room) {
    const uint32_t index = work_.files[unit.begin];
    LongFile& long_file = *unit.piece_of;
    ASSIGN_OR_RETURN(const File file, open_source(index));
    std::call_once(long_file.once,
                   [&] { long_file.chosen = choose_encoding(index, long_file, file, room.codec); });
    RETURN_IF_ERROR(Status(long_file.chosen).within(printable(work_.tree.path(index))));
    const bool is_raw = long_file.encoding.codec == wire::PackCodec::kRaw;
    std::vector<std::byte>& into = is_raw ? room.out : room.source;
    if (is_hole(file, unit.offset_bytes, unit.size_bytes)) {
      into.assign(static_cast<size_t>(unit.size_bytes), std::byte{0});
    } else {
      into.resize(static_cast<size_t>(unit.size_bytes));
      ASSIGN_OR_RETURN(
          const size_t length,
          file.read_at(unit.offset_bytes, into).within(printable(work_.tree.path(index))));
      if (length != into.size()) return changed_error().within(printable(work_.tree.path(index)));
    }
    room.table.clear();
    if (!is_raw) {
      room.out.clear();
      for (size_t at = 0; at < into.size(); at += kPackBlockBytes) {
        const ByteView block =
            ByteView(into).subspan(at, std::min(into.size() - at, kPackBlockBytes));
        room.table.push_back(room.codec.encode(long_file.encoding, block, room.out));
      }
    }
    room.piece = into;
    return {};
  }

  PartitionWork work_;
  const File& out_;
  std::vector<Unit> units_;

  Mutex mutex_;
  std::condition_variable turn_;
  size_t next_unit_ GUARDED_BY(mutex_) = 0;          // whose turn it is
  uint64_t end_bytes_ GUARDED_BY(mutex_) = 0;        // where the next unit goes
  uint64_t writeback_bytes_ GUARDED_BY(mutex_) = 0;  // the bytes before are on their way
  std::optional<Error> failure_ GUARDED_BY(mutex_);  // the first one
  std::vector<std::unique_ptr<Room>> rooms_ GUARDED_BY(mutex_);  // not in use
};

}  // namespace

Result<uint64_t> write_members(PartitionWork work, const File& out, uint64_t begin_bytes,
                               ThreadPool& pool) {
  return PartitionWriter(std::move(work), out, begin_bytes).run(pool);
}

}  // namespace millrace::store
