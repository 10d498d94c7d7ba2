#include "comm/mpi.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/text.h"

namespace millrace::comm {
namespace {

constexpr const char* kLibraryName = "libmillrace_mpi.so";

Result<std::filesystem::path> find_library() {
  std::error_code error;
  if (const char* given = std::getenv("MILLRACE_MPI_LIBRARY")) {
    if (std::filesystem::exists(given, error)) return std::filesystem::absolute(given);
    return fail(Errc::kNotFound, "MILLRACE_MPI_LIBRARY names {}, which does not exist",
                printable(given));
  }
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  // Beside the program as it is built, and as it is installed.
  static constexpr const char* kPlaces[] = {"../lib", "../" MILLRACE_LIBDIR "/millrace"};
  for (const char* place : kPlaces) {
    const auto candidate = (program / place / kLibraryName).lexically_normal();
    if (std::filesystem::exists(candidate, error)) return candidate;
  }
  return fail(Errc::kNotFound,
              "{} is neither where this program was built nor where it would be installed (looked "
              "from {}); set MILLRACE_MPI_LIBRARY to its path",
              kLibraryName, program.string());
}

Result<const MpiEntry*> load_entry(const std::filesystem::path& path) {
  // Global, because the plugins of an MPI look for its symbols there. Never unloaded: an MPI leaves
  // threads and handlers behind.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    return fail(
        Errc::kUnsupported,
        "cannot be loaded ({}); install the MPI it was built with (Debian: libopenmpi3), or "
        "build Millrace with the MPI of this machine",
        printable(dlerror()));
  }
  const auto* entry = static_cast<const MpiEntry*>(dlsym(library, kMpiEntryName));
  if (entry == nullptr || std::strcmp(entry->version, MILLRACE_VERSION) != 0) {
    return fail(Errc::kUnsupported, "is of another version of Millrace; this one is {}",
                MILLRACE_VERSION);
  }
  return entry;
}

}  // namespace

Result<std::unique_ptr<Comm>> connect_mpi(const ConnectOptions& options, const Launch& launch) {
  ASSIGN_OR_RETURN(const std::filesystem::path path, find_library());
  ASSIGN_OR_RETURN(const MpiEntry* const entry, load_entry(path).within(path.string()));
  return entry->connect(options, launch);
}

}  // namespace millrace::comm
