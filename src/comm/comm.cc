#include "comm/comm.h"

#include "base/bytes.h"

namespace millrace::comm {
namespace {

// All strings as one: how many, the length of each, and the bytes.
std::string packed(const std::vector<std::string>& strings) {
  std::string out;
  const auto append_number = [&out](uint64_t number) {
    out.append(reinterpret_cast<const char*>(&number), sizeof(number));
  };
  append_number(strings.size());
  for (const std::string& string : strings) append_number(string.size());
  for (const std::string& string : strings) out += string;
  return out;
}

Result<std::vector<std::string>> unpacked(std::string_view bytes) {
  ByteReader lengths(bytes_of(bytes));
  ASSIGN_OR_RETURN(const uint64_t count, lengths.read<uint64_t>());
  ByteReader contents(bytes_of(bytes));
  RETURN_IF_ERROR(contents.skip(sizeof(uint64_t) * (count + 1)));
  std::vector<std::string> strings;
  strings.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const uint64_t size_bytes, lengths.read<uint64_t>());
    ASSIGN_OR_RETURN(const std::string_view text, contents.take_text(size_bytes));
    strings.emplace_back(text);
  }
  return strings;
}

}  // namespace

Result<std::vector<std::string>> Comm::gather_to_all(ByteView mine) {
  ASSIGN_OR_RETURN(const std::vector<std::string> gathered, gather(mine, kFirstRank));
  std::string bytes;
  if (rank() == kFirstRank) bytes = packed(gathered);
  RETURN_IF_ERROR(broadcast(bytes, kFirstRank));
  return unpacked(bytes);
}

}  // namespace millrace::comm
