// Hdf5: queries the HDF5 library that a call goes to, for the name and the size of an event.
//
// Every HDF5 call clears the library's error stack, and prints its own errors. So nothing is
// queried after a failed call, and only queries that cannot fail are made: an identifier is queried
// only if it is valid. Queries run on the program's thread, inside any lock that the program holds
// around its call.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "trace/preload/foreign.h"
#include "trace/preload/handle_table.h"
#include "trace/preload/recorder.h"

namespace millrace::trace {

using Id = int64_t;  // hid_t since HDF5 1.10; with older libraries, only times are recorded

inline constexpr int kHdf5Failure = -1;

// `caller` is code that calls HDF5; it determines which library is meant.
class Hdf5 {
 public:
  explicit Hdf5(const void* caller) : caller_(caller) {}

  // Whether the identifiers of the library are known.
  bool known() const;

  // FILE, or FILE:/PATH/IN/IT for a dataset. Queried once per identifier. `file` is the name of the
  // file alone, which filters apply to.
  struct Names {
    NameId name = kNoName;
    NameId file = kNoName;
  };
  Names names_of(Id object) const;
  void keep(Id object, const Names& names) const;
  void forget(Id object) const;

  // Remembers a relative path as given to the library: after chdir it would name another file.
  void keep_path(const char* path, NameId name) const;

  // How many bytes of memory a transfer of this selection takes.
  struct Selection {
    Id dataset;
    Id type;
    Id memory_space;
    Id file_space;
  };
  struct Extent {
    uint64_t bytes = 0;
    bool estimate = false;  // elements of variable length: the data they point to is not counted
  };
  Extent extent_of(const Selection& selection) const;

  // How many bytes a chunk takes in the file.
  uint64_t chunk_size(Id dataset, const uint64_t* offset) const;

 private:
  uint64_t library() const;
  bool valid(Id object) const;
  int64_t points_of(const Selection& selection) const;
  Names ask_names(Id object) const;

  const void* caller_;
};

}  // namespace millrace::trace
