#include "trace/preload/mpi_library.h"

#include <atomic>
#include <cstring>
#include <string_view>

#include "hook/scratch.h"
#include "hook/syscall.h"
#include "trace/preload/foreign.h"

namespace millrace::trace {
namespace {

constinit MpiLibrary library{};
constinit std::atomic<bool> identified{false};
constinit std::atomic<bool> identifying{false};

Handle handle_of(const void* pointer) { return reinterpret_cast<Handle>(pointer); }

template <typename Function>
void resolve(Function*& function, const char* name, const void* caller) {
  function = reinterpret_cast<Function*>(find_unhooked(name, caller));
}

// Allowed at any time, even before MPI_Init. MPI_MAX_LIBRARY_VERSION_STRING is at most 8192.
MpiFamily family_by_version(const void* caller) {
  int (*get_version)(char*, int*) = nullptr;
  int (*get_abi)(int*, int*) = nullptr;
  resolve(get_version, "PMPI_Get_library_version", caller);
  resolve(get_abi, "PMPI_Abi_get_version", caller);
  int major = -1;
  int minor = -1;
  // The common ABI of MPI 5 has different handles from both families.
  if (get_abi != nullptr && (get_abi(&major, &minor) != kMpiSuccess || major >= 1)) {
    return MpiFamily::kUnknown;
  }
  struct Version {
    char text[8200] = {};
  };
  const hook::Scratch<Version> version;
  if (!version) return MpiFamily::kUnknown;
  char* text = version->text;
  int length = 0;
  if (get_version == nullptr || get_version(text, &length) != kMpiSuccess) {
    return MpiFamily::kUnknown;
  }
  if (std::strstr(text, "Open MPI") != nullptr) return MpiFamily::kOpenMpi;
  for (const char* name : {"MPICH", "Intel(R) MPI", "MVAPICH"}) {
    if (std::strstr(text, name) != nullptr) return MpiFamily::kMpich;
  }
  return MpiFamily::kUnknown;
}

bool set_open_mpi_handles(const void* caller) {
  const void* world = find_unhooked("ompi_mpi_comm_world", caller);
  const void* bytes = find_unhooked("ompi_mpi_byte", caller);
  const void* no_info = find_unhooked("ompi_mpi_info_null", caller);
  library.status_ignore = nullptr;
  library.world = handle_of(world);
  library.bytes = handle_of(bytes);
  library.no_info = handle_of(no_info);
  library.shared_type = 0;
  return world != nullptr && bytes != nullptr && no_info != nullptr;
}

// The ABI shared by MPICH, Intel MPI, MVAPICH and Cray MPICH.
void set_mpich_handles() {
  library.status_ignore = reinterpret_cast<void*>(1);
  library.world = 0x44000000;
  library.bytes = 0x4c00010d;
  library.no_info = 0x1c000000;
  library.shared_type = 1;
}

bool resolve_functions(const void* caller) {
  resolve(library.type_size, "PMPI_Type_size", caller);
  resolve(library.get_count, "PMPI_Get_count", caller);
  resolve(library.get_position, "PMPI_File_get_position", caller);
  resolve(library.get_byte_offset, "PMPI_File_get_byte_offset", caller);
  resolve(library.comm_rank, "PMPI_Comm_rank", caller);
  resolve(library.comm_size, "PMPI_Comm_size", caller);
  resolve(library.comm_split, "PMPI_Comm_split", caller);
  resolve(library.comm_split_type, "PMPI_Comm_split_type", caller);
  resolve(library.comm_free, "PMPI_Comm_free", caller);
  resolve(library.send, "PMPI_Send", caller);
  resolve(library.receive, "PMPI_Recv", caller);
  return library.type_size != nullptr && library.get_count != nullptr &&
         library.get_position != nullptr && library.get_byte_offset != nullptr &&
         library.comm_rank != nullptr && library.comm_size != nullptr &&
         library.comm_split != nullptr && library.comm_split_type != nullptr &&
         library.comm_free != nullptr && library.send != nullptr && library.receive != nullptr;
}

void identify(const void* caller) {
  MpiFamily family = family_by_version(caller);
  if (family == MpiFamily::kOpenMpi && !set_open_mpi_handles(caller)) family = MpiFamily::kUnknown;
  if (family == MpiFamily::kMpich) set_mpich_handles();
  if (!resolve_functions(caller)) family = MpiFamily::kUnknown;
  library.family = family;
}

}  // namespace

const MpiLibrary& mpi_library(const void* caller) {
  if (__builtin_expect(!identified.load(std::memory_order_acquire), 0)) {
    if (!identifying.exchange(true)) {
      identify(caller);
      identified.store(true, std::memory_order_release);
    }
    while (!identified.load(std::memory_order_acquire)) hook::sys_yield();
  }
  return library;
}

}  // namespace millrace::trace
