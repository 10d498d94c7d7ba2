// base: general tools that all other modules use: results, clocks, bytes, files, units, queues,
// threads, JSON, YAML, terminals.
//
// Promises: nothing here knows the domain (no sample, no trace, no rank). There is no global state
// that can be set. Nothing prints, except Progress, which writes to the terminal it is given.
// Failures are values (result.h) with sentences a user can act on. Types are as thread-safe as
// those of the standard library unless their header says more. Depends on wire, fmt and libc; only
// gzip.cc depends on zlib and only yaml.cc on yaml-cpp.
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
