#include <algorithm>
#include <cstring>

#include "base/text/text.h"
#include "format/records/tar.h"

namespace millrace::format {
namespace {

constexpr size_t kBlockBytes = 512;
// An extended header holds the name and length of one member; a larger one is not valid.
constexpr uint64_t kExtensionBytesMax = uint64_t{1} << 20;

struct HeaderField {
  size_t offset_bytes;
  size_t size_bytes;
};
constexpr HeaderField kName = {0, 100};
constexpr HeaderField kMode = {100, 8};
constexpr HeaderField kSize = {124, 12};
constexpr HeaderField kTime = {136, 12};
constexpr HeaderField kChecksum = {148, 8};
constexpr size_t kKind = 156;
constexpr HeaderField kTarget = {157, 100};
constexpr HeaderField kMagic = {257, 8};
constexpr HeaderField kPrefix = {345, 155};

std::string_view piece(ByteView block, HeaderField place) {
  return text_of(block.subspan(place.offset_bytes, place.size_bytes));
}

std::string_view until_zero(std::string_view text) { return text.substr(0, text.find('\0')); }

bool is_zero(ByteView block) {
  return std::all_of(block.begin(), block.end(),
                     [](std::byte byte) { return byte == std::byte{}; });
}

// Octal digits, or GNU's big-endian binary if the first bit is set.
std::optional<uint64_t> number(std::string_view field) {
  uint64_t value = 0;
  if ((static_cast<unsigned char>(field[0]) & 0x80) != 0) {
    if (static_cast<unsigned char>(field[0]) != 0x80) return std::nullopt;  // negative, or huge
    for (const char c : field.substr(1)) {
      if (value >> 56 != 0) return std::nullopt;
      value = value << 8 | static_cast<unsigned char>(c);
    }
    return value;
  }
  size_t at = 0;
  while (at < field.size() && field[at] == ' ') ++at;
  for (; at < field.size() && field[at] >= '0' && field[at] <= '7'; ++at) {
    if (value >> 61 != 0) return std::nullopt;
    value = value << 3 | static_cast<uint64_t>(field[at] - '0');
  }
  if (at < field.size() && field[at] != ' ' && field[at] != '\0') return std::nullopt;
  return value;
}

// The sum of the header's bytes, counting the checksum field as spaces. Some old writers summed the
// bytes as signed.
bool checksum_is_right(ByteView block) {
  const auto said = number(piece(block, kChecksum));
  if (!said) return false;
  uint64_t unsigned_sum = 0;
  int64_t signed_sum = 0;
  for (size_t i = 0; i < kBlockBytes; ++i) {
    const bool own =
        i >= kChecksum.offset_bytes && i < kChecksum.offset_bytes + kChecksum.size_bytes;
    const uint8_t byte = own ? uint8_t{' '} : std::to_integer<uint8_t>(block[i]);
    unsigned_sum += byte;
    signed_sum += static_cast<int8_t>(byte);
  }
  return *said == unsigned_sum || static_cast<int64_t>(*said) == signed_sum;
}

std::string header_path(ByteView block) {
  const std::string_view name = until_zero(piece(block, kName));
  // GNU's magic has a space here, and other data in place of the prefix.
  if (piece(block, kMagic).starts_with(std::string_view("ustar\0", 6))) {
    const std::string_view prefix = until_zero(piece(block, kPrefix));
    if (!prefix.empty()) return fmt::format("{}/{}", prefix, name);
  }
  return std::string(name);
}

struct PaxRecord {
  std::string_view key;
  std::string_view value;
};

// "30 path=a/very/long/name\n". The number is the length of the whole record.
Result<PaxRecord> take_pax_record(std::string_view& text) {
  uint64_t length = 0;
  size_t at = 0;
  for (; at < text.size() && at < 8 && text[at] >= '0' && text[at] <= '9'; ++at) {
    length = length * 10 + static_cast<uint64_t>(text[at] - '0');
  }
  const size_t equals = text.find('=');
  if (at == 0 || at >= text.size() || text[at] != ' ' || length > text.size() ||
      equals == std::string_view::npos || equals <= at || equals + 2 > length ||
      text[length - 1] != '\n') {
    return fail(Errc::kCorrupt, "a pax header does not consist of 'length key=value' lines");
  }
  const PaxRecord record = {.key = text.substr(at + 1, equals - at - 1),
                            .value = text.substr(equals + 1, length - equals - 2)};
  text.remove_prefix(length);
  return record;
}

std::optional<uint64_t> decimal(std::string_view text) {
  uint64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9' || __builtin_mul_overflow(value, uint64_t{10}, &value) ||
        __builtin_add_overflow(value, static_cast<uint64_t>(c - '0'), &value)) {
      return std::nullopt;
    }
  }
  return text.empty() ? std::nullopt : std::optional(value);
}

// "1700000000.123456789" seconds. Times that do not fit count as absent, as in old archives.
std::optional<int64_t> decimal_ns(std::string_view text) {
  const size_t dot = std::min(text.find('.'), text.size());
  const auto seconds = decimal(text.substr(0, dot));
  int64_t ns = 0;
  if (!seconds || *seconds > INT64_MAX ||
      __builtin_mul_overflow(static_cast<int64_t>(*seconds), int64_t{1'000'000'000}, &ns)) {
    return std::nullopt;
  }
  int64_t unit = 100'000'000;
  for (const char c : text.substr(std::min(dot + 1, text.size()))) {
    if (c < '0' || c > '9' || __builtin_add_overflow(ns, (c - '0') * unit, &ns)) {
      return std::nullopt;
    }
    unit /= 10;
  }
  return ns;
}

std::optional<int64_t> header_ns(ByteView block) {
  const auto seconds = number(piece(block, kTime));
  int64_t ns = 0;
  if (!seconds || *seconds > INT64_MAX ||
      __builtin_mul_overflow(static_cast<int64_t>(*seconds), int64_t{1'000'000'000}, &ns)) {
    return std::nullopt;
  }
  return ns;
}

TarKind kind_of(char kind, std::string_view path) {
  switch (kind) {
    case '0':
    case '\0':
    case '7':
      // Old archives mark a directory only by its name.
      return path.ends_with('/') ? TarKind::kDirectory : TarKind::kFile;
    case '1':
      return TarKind::kHardLink;
    case '2':
      return TarKind::kSymbolicLink;
    case '5':
      return TarKind::kDirectory;
    default:
      return TarKind::kOther;
  }
}

// The offset `size_bytes` after `begin`, rounded up to a block.
Result<uint64_t> padded_end(uint64_t begin, uint64_t size_bytes, uint64_t archive_bytes) {
  const uint64_t room = archive_bytes - begin;
  if (size_bytes > room) {
    return fail(Errc::kCorrupt, "the member at byte {} claims {} bytes, but the archive ends at {}",
                begin, size_bytes, archive_bytes);
  }
  const uint64_t padding = (kBlockBytes - size_bytes % kBlockBytes) % kBlockBytes;
  // The last padding may be missing: some writers leave it out.
  return begin + size_bytes + std::min(padding, room - size_bytes);
}

}  // namespace

Status TarWalk::read_extension(char kind, uint64_t size_bytes, Extension& out) {
  if (size_bytes > kExtensionBytesMax) {
    return fail(Errc::kCorrupt,
                "the extended header at byte {} claims {} bytes; at most {} are allowed", at_,
                size_bytes, kExtensionBytesMax);
  }
  ASSIGN_OR_RETURN(const uint64_t end, padded_end(at_, size_bytes, archive_bytes_));
  ASSIGN_OR_RETURN(const ByteView bytes, fetch_(at_, static_cast<size_t>(size_bytes)));
  at_ = end;
  const std::string_view text = text_of(bytes);
  if (kind == 'L') out.path = std::string(until_zero(text));
  if (kind == 'K') out.target = std::string(until_zero(text));
  // 'g', for all members, is not needed.
  return kind == 'x' ? read_pax(text, out) : Status();
}

Status TarWalk::read_pax(std::string_view text, Extension& out) const {
  while (!text.empty()) {
    ASSIGN_OR_RETURN(const PaxRecord record, take_pax_record(text));
    if (record.key == "path") out.path = std::string(record.value);
    if (record.key == "linkpath") out.target = std::string(record.value);
    if (record.key == "mtime") out.mtime_ns = decimal_ns(record.value);
    if (record.key.starts_with("GNU.sparse.")) {
      return fail(Errc::kUnsupported,
                  "the member at byte {} is sparse; create the archive without --sparse", at_);
    }
    if (record.key == "size") {
      out.size_bytes = decimal(record.value);
      if (!out.size_bytes) {
        return fail(Errc::kCorrupt, "a pax header before byte {} has the invalid size '{}'", at_,
                    printable(record.value));
      }
    }
  }
  return {};
}

Result<TarMember> TarWalk::member(uint64_t begin_bytes, ByteView block,
                                  const Extension& extension) {
  const char kind = static_cast<char>(block[kKind]);
  const auto size = extension.size_bytes ? extension.size_bytes : number(piece(block, kSize));
  if (!size) return fail(Errc::kCorrupt, "the header at byte {} has no valid size", at_);
  if (kind == 'S') {
    return fail(Errc::kUnsupported,
                "the member at byte {} is sparse; create the archive without --sparse", at_);
  }
  TarMember member;
  member.path = extension.path ? *extension.path : header_path(block);
  member.target =
      extension.target ? *extension.target : std::string(until_zero(piece(block, kTarget)));
  member.kind = kind_of(kind, member.path);
  member.is_file = kind == '0' || kind == '\0' || kind == '7';
  member.mode = static_cast<uint32_t>(number(piece(block, kMode)).value_or(0) & 07777);
  member.mtime_ns = extension.mtime_ns ? *extension.mtime_ns : header_ns(block).value_or(0);
  member.begin_bytes = begin_bytes;
  member.data_bytes = at_ + kBlockBytes;
  // A link may give the length of its target, but no bytes follow it.
  const bool has_data = kind != '1' && kind != '2';
  member.size_bytes = has_data ? *size : 0;
  ASSIGN_OR_RETURN(member.end_bytes,
                   padded_end(member.data_bytes, member.size_bytes, archive_bytes_));
  return member;
}

Result<std::optional<TarMember>> TarWalk::next() {
  Extension extension;
  const uint64_t begin = at_;
  while (true) {
    if (at_ >= archive_bytes_) {
      if (at_ == begin) return std::optional<TarMember>();
      return fail(Errc::kCorrupt, "the archive ends at byte {}, where a member should follow", at_);
    }
    ASSIGN_OR_RETURN(const ByteView block, fetch_(at_, kBlockBytes));
    if (is_zero(block)) {
      has_end_mark_ = true;
      return std::optional<TarMember>();
    }
    if (!checksum_is_right(block)) {
      return fail(
          Errc::kCorrupt,
          "there is no tar header at byte {}: the checksum is wrong. Compressed archives must be "
          "decompressed first",
          at_);
    }
    const char kind = static_cast<char>(block[kKind]);
    if (kind == 'x' || kind == 'g' || kind == 'L' || kind == 'K') {
      const auto size = number(piece(block, kSize));
      if (!size) return fail(Errc::kCorrupt, "the header at byte {} has no valid size", at_);
      at_ += kBlockBytes;
      RETURN_IF_ERROR(read_extension(kind, *size, extension));
      continue;
    }
    ASSIGN_OR_RETURN(TarMember found, member(begin, block, extension));
    at_ = found.end_bytes;
    return std::optional(std::move(found));
  }
}

std::optional<MemberName> split_member_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  const size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  const size_t dot = path.find('.', base);
  if (dot == std::string_view::npos || dot == base) return std::nullopt;
  return MemberName{.key = path.substr(0, dot), .field = path.substr(dot + 1)};
}

}  // namespace millrace::format
