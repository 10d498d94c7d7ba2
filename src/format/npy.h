// npy: NumPy's file of one array (versions 1 to 3): a file a sample, or a file of rows.
//
// Elements must be little-endian numbers or booleans in C order; what else a file may have (big
// endian, Fortran order, objects, records, texts) is refused with the line of Python that changes
// it. Loading a pickled object would run somebody's code: never.
#pragma once

#include <memory>
#include <string>

#include "data/array.h"
#include "format/format.h"

namespace millrace::format {

struct NpyHeader {
  data::ElementType type = data::ElementType::kU8;
  data::Shape shape;
  uint64_t size_bytes = 0;  // of the header; the elements follow

  uint64_t data_bytes() const { return shape.element_count() * data::element_bytes(type); }
};

// How long the header is, from the first kNpyPrefixBytes of a file (or all of a shorter one).
inline constexpr size_t kNpyPrefixBytes = 12;
Result<uint64_t> npy_header_bytes(ByteView prefix);

// `bytes` begins with the header and holds at least all of it.
Result<NpyHeader> parse_npy_header(ByteView bytes);

// A whole file in memory, or a member of an npz.
Result<data::ArrayView> parse_npy(ByteView file);

// A header of version 1, as numpy writes it; a whole number of 64 bytes. Fails for bfloat16, which
// NumPy does not have.
Result<std::string> npy_header(data::ElementType type, const data::Shape& shape);

std::unique_ptr<Format> make_npy(const FormatOptions& options);

}  // namespace millrace::format
