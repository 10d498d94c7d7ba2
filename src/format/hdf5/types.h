// hdf5_types: the types of HDF5's elements and ours. Callers hold a Hdf5Use.
#pragma once

#include <optional>
#include <string>

#include "data/array.h"
#include "format/hdf5/handle.h"

namespace millrace::format {

struct Hdf5Type {
  data::ElementType type = data::ElementType::kU8;
  uint64_t string_bytes = 0;  // not 0: a string of this length, as uint8 with one more axis
  bool is_plain = true;       // the bytes in the file are those of our element
};

// Nullopt if we have no such element. `what` then names the type: "strings of any length".
std::optional<Hdf5Type> element_of(hid_t type, std::string& what);

// The type in memory, and in the files that we write.
Hdf5Id hdf5_type_of(data::ElementType type);

// What H5Dread converts to: hdf5_type_of(), or the string itself.
Hdf5Id memory_type_of(hid_t file_type, const Hdf5Type& type);

}  // namespace millrace::format
