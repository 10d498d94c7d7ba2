// Hdf5: what is asked of the HDF5 library that a call goes to, so that its event has a name and a
// size.
//
// HDF5 keeps what went wrong in a stack that every call of it clears, and prints what goes wrong by
// itself. So nothing is asked after a call that failed, and only what cannot fail: an identifier is
// asked about once it is known to be valid. Everything is asked on the program's thread, inside
// whatever lock the program holds around its call.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "trace/preload/foreign.h"
#include "trace/preload/handle_table.h"
#include "trace/preload/recorder.h"

namespace millrace::trace {

using Id = int64_t;  // hid_t since HDF5 1.10; of older libraries only times are recorded

inline constexpr int kHdf5Failure = -1;

// `caller` is code that calls HDF5: which library it calls is told by it.
class Hdf5 {
 public:
  explicit Hdf5(const void* caller) : caller_(caller) {}

  // Whether the library is one whose identifiers are known.
  bool known() const;

  // FILE, or FILE:/PATH/IN/IT for a dataset. Asked once for an identifier. `file` is the name of
  // the file alone, by which filters decide.
  struct Names {
    NameId name = kNoName;
    NameId file = kNoName;
  };
  Names names_of(Id object) const;
  void keep(Id object, const Names& names) const;
  void forget(Id object) const;

  // A file's path was given to the library as it stands; from another directory it would be
  // another file.
  void keep_path(const char* path, NameId name) const;

  // The bytes in memory that a transfer of this selection takes.
  struct Selection {
    Id dataset;
    Id type;
    Id memory_space;
    Id file_space;
  };
  struct Extent {
    uint64_t bytes = 0;
    bool estimate = false;  // elements of variable length: what they point to is not counted
  };
  Extent extent_of(const Selection& selection) const;

  // The bytes that a chunk takes in the file.
  uint64_t chunk_size(Id dataset, const uint64_t* offset) const;

 private:
  uint64_t library() const;
  bool valid(Id object) const;
  int64_t points_of(const Selection& selection) const;
  Names ask_names(Id object) const;

  const void* caller_;
};

}  // namespace millrace::trace
