// MpiLibrary: what the recorder must know about the MPI that the program uses.
//
// MPI libraries have no common binary interface, and one preload library must serve all of them. So
// handles are machine words that are passed on unchanged: Open MPI's are pointers, MPICH's are
// ints, and both fit into one register. Further values (the world, the byte type, the status to
// ignore) are known for these two families; the family is determined once per process. For any
// other MPI, only times are recorded.
#pragma once

#include <cstdint>

namespace millrace::trace {

using Handle = long;  // a machine word that only MPI understands
using Offset = long;  // MPI_Offset

inline constexpr int kMpiSuccess = 0;
inline constexpr int kMpiFailure = 16;  // not 0; returned if there is no MPI to call

// Whether the handles of this MPI are known. Determined on the first call.
enum class MpiFamily : uint32_t { kUnasked, kUnknown, kOpenMpi, kMpich };

struct MpiLibrary {
  MpiFamily family;
  void* status_ignore;
  Handle world;
  Handle bytes;  // MPI_BYTE
  Handle no_info;
  int shared_type;  // MPI_COMM_TYPE_SHARED

  // Under their profiling names, so that other tools do not mistake our calls for the program's.
  int (*type_size)(Handle type, int* size);
  int (*get_count)(const void* status, Handle type, int* count);
  int (*get_position)(Handle file, Offset* offset);
  int (*get_byte_offset)(Handle file, Offset offset, Offset* bytes);
  int (*comm_rank)(Handle comm, int* rank);
  int (*comm_size)(Handle comm, int* size);
  int (*comm_split)(Handle comm, int colour, int key, Handle* result);
  int (*comm_split_type)(Handle comm, int type, int key, Handle info, Handle* result);
  int (*comm_free)(Handle* comm);
  int (*send)(const void* data, int count, Handle type, int to, int tag, Handle comm);
  int (*receive)(void* data, int count, Handle type, int from, int tag, Handle comm, void* status);

  bool known() const { return family == MpiFamily::kOpenMpi || family == MpiFamily::kMpich; }
};

// `caller` is code that calls MPI.
const MpiLibrary& mpi_library(const void* caller);

// Called around MPI_Init and MPI_Finalize, to find the rank and the offset of this host's clock to
// rank 0's.
void mpi_will_begin(const MpiLibrary& mpi);
void mpi_has_begun(const MpiLibrary& mpi);
void mpi_is_ending(const MpiLibrary& mpi);
void mpi_has_ended();

}  // namespace millrace::trace
