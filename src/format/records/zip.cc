#include "format/records/zip.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/text/text.h"

namespace millrace::format {
namespace {

constexpr uint32_t kLocalMagic = 0x04034b50;
constexpr uint32_t kEntryMagic = 0x02014b50;
constexpr uint32_t kEndMagic = 0x06054b50;
constexpr uint32_t kEnd64Magic = 0x06064b50;
constexpr uint32_t kLocator64Magic = 0x07064b50;
constexpr size_t kEndBytes = 22;
constexpr size_t kLocator64Bytes = 20;
constexpr size_t kCommentBytesMax = 65535;
constexpr uint16_t kExtra64 = 1;
constexpr uint32_t kIn64 = 0xffffffff;  // the value is in the zip64 record
constexpr uint16_t kStored = 0;
constexpr uint16_t kDeflated = 8;
constexpr uint16_t kEncrypted = 1;  // in the flags
// Deflate expands one byte to at most 1032.
constexpr uint64_t kInflateMax = 1032;

struct Directory {
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
  uint64_t count = 0;
};

template <typename T>
T number_at(ByteView bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

// The offset of the end record; a comment may follow it.
Result<size_t> find_end(ByteView file) {
  if (file.size() >= kEndBytes) {
    const size_t last = file.size() - kEndBytes;
    const size_t first = last > kCommentBytesMax ? last - kCommentBytesMax : 0;
    for (size_t at = last + 1; at > first; --at) {
      if (number_at<uint32_t>(file, at - 1) == kEndMagic &&
          number_at<uint16_t>(file, at - 1 + 20) <= file.size() - (at - 1) - kEndBytes) {
        return at - 1;
      }
    }
  }
  return fail(Errc::kCorrupt,
              "this is not an npz file, or it is truncated: {} bytes without a zip end record",
              file.size());
}

Result<Directory> read_end64(ByteView file, size_t end_at) {
  if (end_at < kLocator64Bytes ||
      number_at<uint32_t>(file, end_at - kLocator64Bytes) != kLocator64Magic) {
    return fail(Errc::kCorrupt, "the zip file has no zip64 record, but its size needs one");
  }
  const auto at = number_at<uint64_t>(file, end_at - kLocator64Bytes + 8);
  if (at > end_at || end_at - at < 56 ||
      number_at<uint32_t>(file, static_cast<size_t>(at)) != kEnd64Magic) {
    return fail(Errc::kCorrupt, "there is no zip64 record at byte {}", at);
  }
  const ByteView record = file.subspan(static_cast<size_t>(at));
  return Directory{.offset_bytes = number_at<uint64_t>(record, 48),
                   .size_bytes = number_at<uint64_t>(record, 40),
                   .count = number_at<uint64_t>(record, 32)};
}

Result<Directory> find_directory(ByteView file) {
  ASSIGN_OR_RETURN(const size_t end_at, find_end(file));
  const ByteView end = file.subspan(end_at);
  Directory directory{.offset_bytes = number_at<uint32_t>(end, 16),
                      .size_bytes = number_at<uint32_t>(end, 12),
                      .count = number_at<uint16_t>(end, 10)};
  if (directory.offset_bytes == kIn64 || directory.size_bytes == kIn64 ||
      directory.count == 0xffff) {
    ASSIGN_OR_RETURN(directory, read_end64(file, end_at));
  }
  if (directory.offset_bytes > file.size() ||
      directory.size_bytes > file.size() - directory.offset_bytes) {
    return fail(Errc::kCorrupt, "the zip directory of {} bytes at byte {} exceeds the file of {}",
                directory.size_bytes, directory.offset_bytes, file.size());
  }
  return directory;
}

struct Entry {
  std::string_view name;
  uint16_t flags = 0;
  uint16_t method = 0;
  uint32_t crc32 = 0;
  uint64_t packed_bytes = 0;
  uint64_t size_bytes = 0;
  uint64_t local_at = 0;
};

// Reads the numbers that did not fit into 32 bits, in their fixed order.
Status read_extra64(ByteView extra, Entry& entry) {
  ByteReader reader(extra);
  while (reader.remaining() >= 4) {
    ASSIGN_OR_RETURN(const uint16_t kind, reader.read<uint16_t>());
    ASSIGN_OR_RETURN(const uint16_t size, reader.read<uint16_t>());
    ASSIGN_OR_RETURN(const ByteView body, reader.take(size));
    if (kind != kExtra64) continue;
    ByteReader numbers(body);
    for (uint64_t* number : {&entry.size_bytes, &entry.packed_bytes, &entry.local_at}) {
      if (*number != kIn64) continue;
      ASSIGN_OR_RETURN(*number, numbers.read<uint64_t>());
    }
    return {};
  }
  return {};
}

Result<Entry> read_entry(ByteReader& reader) {
  ASSIGN_OR_RETURN(const ByteView head, reader.take(46));
  if (number_at<uint32_t>(head, 0) != kEntryMagic) {
    return fail(Errc::kCorrupt, "the zip directory is corrupt at its byte {}",
                reader.position() - 46);
  }
  Entry entry{.name = {},
              .flags = number_at<uint16_t>(head, 8),
              .method = number_at<uint16_t>(head, 10),
              .crc32 = number_at<uint32_t>(head, 16),
              .packed_bytes = number_at<uint32_t>(head, 20),
              .size_bytes = number_at<uint32_t>(head, 24),
              .local_at = number_at<uint32_t>(head, 42)};
  ASSIGN_OR_RETURN(entry.name, reader.take_text(number_at<uint16_t>(head, 28)));
  ASSIGN_OR_RETURN(const ByteView extra, reader.take(number_at<uint16_t>(head, 30)));
  RETURN_IF_ERROR(read_extra64(extra, entry));
  RETURN_IF_ERROR(reader.skip(number_at<uint16_t>(head, 32)));
  return entry;
}

Result<ZipMember> member_of(ByteView file, const Entry& entry) {
  if ((entry.flags & kEncrypted) != 0 || (entry.method != kStored && entry.method != kDeflated)) {
    return fail(Errc::kUnsupported, "it is {}; write it with numpy.savez or numpy.savez_compressed",
                (entry.flags & kEncrypted) != 0
                    ? std::string("encrypted")
                    : fmt::format("compressed with method {}", entry.method));
  }
  if (entry.local_at > file.size() || file.size() - entry.local_at < 30 ||
      number_at<uint32_t>(file, static_cast<size_t>(entry.local_at)) != kLocalMagic) {
    return fail(Errc::kCorrupt, "no member begins at byte {}", entry.local_at);
  }
  const ByteView local = file.subspan(static_cast<size_t>(entry.local_at));
  const uint64_t head_bytes =
      30u + uint64_t{number_at<uint16_t>(local, 26)} + number_at<uint16_t>(local, 28);
  if (head_bytes > local.size() || entry.packed_bytes > local.size() - head_bytes) {
    return fail(Errc::kCorrupt, "at byte {} it claims {} bytes, but the file ends at {}",
                entry.local_at, entry.packed_bytes, file.size());
  }
  const bool fits = entry.method == kStored ? entry.size_bytes == entry.packed_bytes
                                            : entry.size_bytes / kInflateMax <= entry.packed_bytes;
  if (!fits) {
    return fail(Errc::kCorrupt, "{} bytes cannot be compressed into {}", entry.size_bytes,
                entry.packed_bytes);
  }
  return ZipMember{.name = entry.name,
                   .is_deflated = entry.method == kDeflated,
                   .crc32 = entry.crc32,
                   .packed = local.subspan(static_cast<size_t>(head_bytes),
                                           static_cast<size_t>(entry.packed_bytes)),
                   .size_bytes = entry.size_bytes};
}

template <typename T>
void put(std::string& out, T value) {
  out += text_of(std::as_bytes(std::span(&value, 1)));
}

}  // namespace

Result<std::vector<ZipMember>> list_zip(ByteView file) {
  ASSIGN_OR_RETURN(const Directory directory, find_directory(file));
  ByteReader reader(file.subspan(static_cast<size_t>(directory.offset_bytes),
                                 static_cast<size_t>(directory.size_bytes)));
  std::vector<ZipMember> members;
  uint64_t packed_bytes = 0;
  for (uint64_t i = 0; i < directory.count; ++i) {
    ASSIGN_OR_RETURN(const Entry entry, read_entry(reader));
    ASSIGN_OR_RETURN(
        const ZipMember member,
        member_of(file, entry).within(fmt::format("member '{}'", printable(entry.name))));
    members.push_back(member);
    // Members that share their bytes let a small file expand to a huge one (a zip bomb).
    packed_bytes += member.packed.size();
    if (packed_bytes > file.size()) {
      return fail(Errc::kCorrupt, "the members of the zip file overlap");
    }
  }
  return members;
}

// The part that the local header and the directory entry share, from "version needed" on.
std::string ZipBuilder::common_head(const Sizes& sizes, uint32_t crc32, size_t name_bytes,
                                    size_t extra_bytes) {
  std::string out;
  put<uint16_t>(out, sizes.is_64 ? 45 : 20);
  put<uint16_t>(out, 0);
  put<uint16_t>(out, sizes.is_deflated ? kDeflated : kStored);
  put<uint16_t>(out, 0);       // time, and
  put<uint16_t>(out, 0x0021);  // day: 1 January 1980, so that equal arrays give equal files
  put<uint32_t>(out, crc32);
  put<uint32_t>(out, sizes.is_64 ? kIn64 : static_cast<uint32_t>(sizes.packed_bytes));
  put<uint32_t>(out, sizes.is_64 ? kIn64 : static_cast<uint32_t>(sizes.size_bytes));
  put<uint16_t>(out, static_cast<uint16_t>(name_bytes));
  put<uint16_t>(out, static_cast<uint16_t>(extra_bytes));
  return out;
}

std::string ZipBuilder::head(std::string_view name, uint64_t size_bytes, uint32_t crc32) {
  return add(name,
             {.size_bytes = size_bytes, .packed_bytes = size_bytes, .is_64 = size_bytes >= kIn64},
             crc32);
}

std::string ZipBuilder::deflated_head(std::string_view name, uint64_t size_bytes,
                                      uint64_t packed_bytes, uint32_t crc32) {
  // What cannot be compressed grows by less than a thousandth.
  const bool is_64 = size_bytes + size_bytes / 1000 + 1024 >= kIn64;
  return add(
      name,
      {.size_bytes = size_bytes, .packed_bytes = packed_bytes, .is_deflated = true, .is_64 = is_64},
      crc32);
}

std::string ZipBuilder::add(std::string_view name, const Sizes& sizes, uint32_t crc32) {
  std::string local;
  put(local, kLocalMagic);
  local += common_head(sizes, crc32, name.size(), sizes.is_64 ? 20 : 0);
  local += name;
  std::string extra;
  if (sizes.is_64) {
    put(extra, sizes.size_bytes);
    put(extra, sizes.packed_bytes);
    put<uint16_t>(local, kExtra64);
    put<uint16_t>(local, 16);
    local += extra;
  }
  const bool far = at_ >= kIn64;
  if (far) put(extra, at_);
  put(directory_, kEntryMagic);
  put<uint16_t>(directory_, 45);
  directory_ += common_head(sizes, crc32, name.size(), extra.empty() ? 0 : extra.size() + 4);
  put<uint16_t>(directory_, 0);  // comment
  put<uint16_t>(directory_, 0);  // disk
  put<uint16_t>(directory_, 0);  // attributes
  put<uint32_t>(directory_, 0644u << 16);
  put<uint32_t>(directory_, far ? kIn64 : static_cast<uint32_t>(at_));
  directory_ += name;
  if (!extra.empty()) {
    put<uint16_t>(directory_, kExtra64);
    put<uint16_t>(directory_, static_cast<uint16_t>(extra.size()));
    directory_ += extra;
  }
  at_ += local.size() + sizes.packed_bytes;
  ++count_;
  return local;
}

std::string ZipBuilder::tail() const {
  std::string out = directory_;
  const bool is_64 = at_ >= kIn64 || directory_.size() >= kIn64 || count_ >= 0xffff;
  if (is_64) {
    put(out, kEnd64Magic);
    put<uint64_t>(out, 44);
    put<uint16_t>(out, 45);
    put<uint16_t>(out, 45);
    put<uint32_t>(out, 0);
    put<uint32_t>(out, 0);
    put(out, count_);
    put(out, count_);
    put<uint64_t>(out, directory_.size());
    put(out, at_);
    put(out, kLocator64Magic);
    put<uint32_t>(out, 0);
    put<uint64_t>(out, at_ + directory_.size());
    put<uint32_t>(out, 1);
  }
  put(out, kEndMagic);
  put<uint32_t>(out, 0);
  const auto count = static_cast<uint16_t>(std::min<uint64_t>(count_, 0xffff));
  put(out, count);
  put(out, count);
  put(out, static_cast<uint32_t>(std::min<uint64_t>(directory_.size(), kIn64)));
  put(out, static_cast<uint32_t>(std::min<uint64_t>(at_, kIn64)));
  put<uint16_t>(out, 0);
  return out;
}

}  // namespace millrace::format
