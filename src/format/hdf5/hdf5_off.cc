#include "format/hdf5/library.h"

namespace millrace::format {

Result<const Hdf5Library*> hdf5_library() {
  return fail(
      Errc::kUnsupported,
      "this build cannot read or write HDF5; install libhdf5 (libhdf5-dev) and build again");
}

}  // namespace millrace::format
