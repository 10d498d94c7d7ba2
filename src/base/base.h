// base: what every part stands on and no part is about: results, clocks, bytes, files, units,
// queues, threads, JSON, YAML, terminals.
//
// Promises: no word of the domain (no sample, no trace, no rank); no global state that can be set;
// nothing prints, except Progress, which writes to the terminal it is given; failures are values
// (result.h) with sentences a user can act on. Types are as thread-safe as the standard library's
// unless their header says more. Depends on wire, fmt, libc and, in yaml.cc alone, on yaml-cpp.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace millrace {

using ByteView = std::span<const std::byte>;
using MutableByteView = std::span<std::byte>;

inline ByteView bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

inline std::string_view text_of(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace millrace
