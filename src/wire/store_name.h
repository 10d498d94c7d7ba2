// StoreName: what stands in the tree of a node for a file that a program of another node created.
// docs/formats/store-node.md.
//
// It is a symbolic link. As long as the bytes are on the other node only, its target is below
// kRemotePrefix, which cannot exist, and says what stat shows: the kernel fails for programs
// without the client library. The client asks the service for the bytes, and the target becomes the
// name of a real file, after kShownPrefix: a copy in the node's directory, or where the file was
// saved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wire/wire.h"

namespace millrace::wire {

// + "RANK/ID/SIZE/MODE/MTIME": decimal, the mode octal, the time in nanoseconds.
inline constexpr std::string_view kRemotePrefix = "/dev/null/millrace-store/";
// + an absolute path without its slash. No program writes a target like this.
inline constexpr std::string_view kShownPrefix = "/./";
inline constexpr size_t kRemoteTargetBytes = 160;  // a target below kRemotePrefix is shorter

struct RemoteName {
  uint32_t rank = 0;  // of the node that has the bytes
  uint64_t id = 0;    // what to ask the service of this node for
  uint64_t size_bytes = 0;
  uint32_t mode = 0;  // of a regular file
  int64_t mtime_ns = 0;
};

inline bool begins_with(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() && std::string_view(text.data(), prefix.size()) == prefix;
}

inline bool is_remote_target(std::string_view target) { return begins_with(target, kRemotePrefix); }
inline bool is_shown_target(std::string_view target) {
  return is_remote_target(target) || begins_with(target, kShownPrefix);
}

// False if the target is not one that a service has written.
inline bool parse_remote_target(std::string_view target, RemoteName& name) {
  if (!is_remote_target(target) || target.size() >= kRemoteTargetBytes) return false;
  size_t at = kRemotePrefix.size();
  const auto take = [&](uint64_t base, uint64_t most, uint64_t& out) {
    const size_t begin = at;
    for (out = 0; at < target.size() && target[at] != '/'; ++at) {
      const auto digit = static_cast<uint64_t>(target[at] - '0');
      if (target[at] < '0' || digit >= base || out > (most - digit) / base) return false;
      out = out * base + digit;
    }
    const bool has_digits = at > begin;
    if (at < target.size()) ++at;
    return has_digits;
  };
  uint64_t rank = 0;
  uint64_t mode = 0;
  uint64_t time = 0;
  if (!take(10, UINT32_MAX, rank) || !take(10, UINT64_MAX, name.id) ||
      !take(10, INT64_MAX, name.size_bytes) || !take(8, 0177777, mode)) {
    return false;
  }
  const bool is_before_1970 = at < target.size() && target[at] == '-';
  if (is_before_1970) ++at;
  if (!take(10, INT64_MAX, time) || at != target.size() || target.back() == '/') return false;
  name.rank = static_cast<uint32_t>(rank);
  name.mode = static_cast<uint32_t>(mode);
  name.mtime_ns = is_before_1970 ? -static_cast<int64_t>(time) : static_cast<int64_t>(time);
  return true;
}

}  // namespace millrace::wire
