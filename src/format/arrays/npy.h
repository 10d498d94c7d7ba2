// npy: NumPy's file of one array (versions 1 to 3). A sample is a file, or a row of the array.
//
// Elements must be little-endian numbers or booleans in C order. Anything else (big endian, Fortran
// order, objects, records, strings) is refused, with the line of Python that converts it where
// there is one. Pickled objects are never loaded: that would run foreign code.
#pragma once

#include <string>

#include "data/array.h"
#include "format/format.h"

namespace millrace::format {

struct NpyHeader {
  data::ElementType type = data::ElementType::kU8;
  data::Shape shape;
  uint64_t size_bytes = 0;  // length of the header; the elements follow

  uint64_t data_bytes() const { return shape.element_count() * data::element_bytes(type); }
};

// The length of the header, from the first kNpyPrefixBytes of a file (or all of a shorter one).
inline constexpr size_t kNpyPrefixBytes = 12;
Result<uint64_t> npy_header_bytes(ByteView prefix);

// REQUIRES: `bytes` begins with the header and contains all of it.
Result<NpyHeader> parse_npy_header(ByteView bytes);

// A whole file in memory, or a member of an npz.
Result<data::ArrayView> parse_npy(ByteView file);

// A header of version 1, as numpy writes it; its length is a multiple of 64. Fails for bfloat16,
// which NumPy does not have.
Result<std::string> npy_header(data::ElementType type, const data::Shape& shape);

}  // namespace millrace::format
