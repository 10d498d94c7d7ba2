#include "comm/mpi.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>

#include "base/system/own_library.h"
#include "base/system/subprocess.h"
#include "base/text/text.h"

namespace millrace::comm {
namespace {

using Variable = std::function<const char*(const char*)>;
using Path = std::filesystem::path;

// A kind of MPI: all MPIs that share one ABI.
struct Kind {
  std::string_view name;
  std::string_view module;                 // our library for it
  std::span<const char* const> libraries;  // the MPI's library, by the names that the linker knows
};

constexpr const char* kOpenMpiLibraries[] = {"libmpi.so.40"};
// Intel MPI, MVAPICH and Cray MPICH share this ABI. Debian uses a different name.
constexpr const char* kMpichLibraries[] = {"libmpi.so.12", "libmpich.so.12"};

constexpr Kind kOpenMpi = {"Open MPI", "libmillrace_mpi_openmpi.so", kOpenMpiLibraries};
constexpr Kind kMpich = {"MPICH", "libmillrace_mpi_mpich.so", kMpichLibraries};
// For a build with an MPI that is neither. It is linked with that MPI, so there is no search.
constexpr Kind kOther = {"another MPI", "libmillrace_mpi_other.so", {}};

// A launcher belongs to one MPI; under it, ranks of another MPI would not find each other. Slurm
// starts both kinds: Open MPI mostly with PMIx, MPICH mostly with PMI-2.
std::vector<const Kind*> kinds_for(const Variable& variable) {
  if (variable("OMPI_COMM_WORLD_SIZE") != nullptr) return {&kOpenMpi, &kOther};
  const bool by_slurm = variable("SLURM_STEP_NUM_TASKS") != nullptr;
  if (variable("PMIX_RANK") == nullptr &&
      (variable("PMI_SIZE") != nullptr || variable("MV2_COMM_WORLD_SIZE") != nullptr)) {
    if (!by_slurm) return {&kMpich, &kOther};
    return {&kMpich, &kOpenMpi, &kOther};
  }
  return {&kOpenMpi, &kMpich, &kOther};
}

// An MPI that the program has loaded itself, as Python's mpi4py does.
const Kind* loaded_kind() {
  for (const Kind* kind : {&kOpenMpi, &kMpich}) {
    for (const char* name : kind->libraries) {
      // This also makes it visible to its plugins and to our module.
      if (dlopen(name, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD) != nullptr) return kind;
    }
  }
  return nullptr;
}

// An MPI outside the linker's search path (conda, Spack, pip) has its libraries near its launcher,
// and that launcher most likely started us.
std::vector<std::string> libraries_of(const Kind& kind) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const char* launcher : {"mpirun", "mpiexec"}) {
    const Path program = std::filesystem::canonical(find_in_path(launcher), error);
    if (error) continue;
    for (const char* folder : {"lib", "lib64"}) {
      for (const char* name : kind.libraries) {
        const Path path = program.parent_path().parent_path() / folder / name;
        if (std::filesystem::exists(path, error)) paths.push_back(path.string());
      }
    }
  }
  paths.insert(paths.end(), kind.libraries.begin(), kind.libraries.end());
  return paths;
}

// Makes the symbols of an MPI visible to our module for it, which is not linked with it.
// RTLD_GLOBAL, because the MPI's own plugins also look for its symbols there.
Status load_mpi(const Kind& kind) {
  if (kind.libraries.empty()) return {};
  std::vector<std::string> reasons;
  for (const std::string& path : libraries_of(kind)) {
    if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return {};
    reasons.push_back(printable(dlerror()));
  }
  return fail(Errc::kUnsupported, "{} cannot be loaded ({})", kind.name, join(reasons, ", "));
}

// Never unloaded: an MPI leaves threads and handlers behind.
Result<void*> open_library(const Path& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library != nullptr) return library;
  return fail(Errc::kUnsupported, "cannot be loaded ({})", printable(dlerror()))
      .within(path.string());
}

Result<const MpiEntry*> load_module(const Path& path) {
  ASSIGN_OR_RETURN(void* const library, open_library(path));
  const auto* entry = static_cast<const MpiEntry*>(dlsym(library, kMpiEntryName));
  if (entry == nullptr || std::strcmp(entry->version, MILLRACE_VERSION) != 0) {
    return fail(Errc::kUnsupported, "belongs to another version of Millrace; this is version {}",
                MILLRACE_VERSION)
        .within(path.string());
  }
  return entry;
}

// MILLRACE_MPI_LIBRARY may name our module for an MPI, or the library of an MPI itself.
Result<const MpiEntry*> load_named(const Path& path) {
  for (const Kind* kind : {&kOpenMpi, &kMpich}) {
    if (path.filename() != kind->module) continue;
    if (loaded_kind() != kind) RETURN_IF_ERROR(load_mpi(*kind));
    return load_module(path);
  }
  ASSIGN_OR_RETURN(void* const library, open_library(path));
  if (dlsym(library, "MPI_Init_thread") == nullptr) return load_module(path);
  const bool is_open_mpi = dlsym(library, "ompi_mpi_comm_world") != nullptr;
  ASSIGN_OR_RETURN(const Path module,
                   find_own_library(is_open_mpi ? kOpenMpi.module : kMpich.module));
  return load_module(module);
}

// Why the kind cannot be used. If ok, its symbols are loaded.
Status try_kind(const Kind& kind, bool is_loaded, Path& module) {
  auto found = find_own_library(kind.module);
  if (!found.ok()) {
    return fail(Errc::kNotFound, "this build of Millrace has no {} for {}", kind.module, kind.name);
  }
  module = *std::move(found);
  if (is_loaded) return {};
  return load_mpi(kind);
}

Result<const MpiEntry*> load_entry(const Launch& launch) {
  ASSIGN_OR_RETURN(const Path named, library_named_by("MILLRACE_MPI_LIBRARY"));
  if (!named.empty()) return load_named(named);
  const Kind* const loaded = loaded_kind();
  std::vector<std::string> reasons;
  for (const Kind* kind : loaded != nullptr ? std::vector{loaded} : kinds_for(::getenv)) {
    Path module;
    const Status usable = try_kind(*kind, loaded != nullptr, module);
    if (usable.ok()) return load_module(module);
    if (kind != &kOther) reasons.push_back(usable.error().message());
  }
  return fail(Errc::kUnsupported,
              "no MPI can be used for the ranks of this job ({}): {}. Load the cluster's MPI "
              "module, add the folder of its library to LD_LIBRARY_PATH, or set "
              "MILLRACE_MPI_LIBRARY to its path; 'millrace doctor' shows what is available",
              launch.by, join(reasons, "; "));
}

}  // namespace

Result<std::unique_ptr<Comm>> connect_mpi(const ConnectOptions& options, const Launch& launch) {
  ASSIGN_OR_RETURN(const MpiEntry* const entry, load_entry(launch));
  return entry->connect(options, launch);
}

Result<std::string> describe_mpi(const Launch& launch) {
  ASSIGN_OR_RETURN(const MpiEntry* const entry, load_entry(launch));
  return entry->describe();
}

std::vector<std::string_view> mpis_for(const Variable& variable) {
  std::vector<std::string_view> names;
  for (const Kind* kind : kinds_for(variable)) names.push_back(kind->name);
  return names;
}

}  // namespace millrace::comm
