#include "format/hdf5/library.h"

#include <dlfcn.h>

#include <cstring>

#include "base/system/own_library.h"
#include "base/text/text.h"

namespace millrace::format {
namespace {

// RTLD_LOCAL: another libhdf5 in the process, such as h5py's, must not get our symbols. Never
// unloaded: libhdf5 leaves handlers behind that run at exit.
Result<const Hdf5Library*> load() {
  ASSIGN_OR_RETURN(const auto path, find_own_library("libmillrace_hdf5.so"));
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return fail(Errc::kUnsupported, "HDF5 files cannot be read or written: {}; install libhdf5",
                printable(dlerror()));
  }
  const auto* entry = static_cast<const Hdf5Library*>(dlsym(library, kHdf5EntryName));
  if (entry == nullptr || std::strcmp(entry->version, MILLRACE_VERSION) != 0) {
    return fail(Errc::kUnsupported,
                "{}: belongs to another version of Millrace; this is version {}",
                printable(path.string()), MILLRACE_VERSION);
  }
  return entry;
}

}  // namespace

Result<const Hdf5Library*> hdf5_library() {
  static const Result<const Hdf5Library*> loaded = load();
  return loaded;
}

}  // namespace millrace::format
