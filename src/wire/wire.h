// wire: bytes that Millrace's processes share with each other and write to disk.
//
// Everything here is a plain struct whose layout is a promise: it is read by another process, by
// another version, or by a machine of another architecture. Each struct that outlives a process has
// a page in docs/formats/, changed together with it. No code of this module allocates, throws, or
// needs a C++ runtime, because preload libraries include it in programs that are not ours.
#pragma once

#include <bit>

namespace millrace::wire {

// Integers are little-endian, stored as they lie in memory. Both architectures that Millrace
// supports are little-endian; a big-endian one would need conversions in every reader, so it is
// refused here.
static_assert(std::endian::native == std::endian::little);
static_assert(sizeof(void*) == 8);

}  // namespace millrace::wire
