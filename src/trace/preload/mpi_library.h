// MpiLibrary: the MPI that the program runs on, as far as the recorder must know it.
//
// There is no common binary interface of the MPI libraries, and one preload library must serve them
// all. So handles are machine words that are passed on as they came: Open MPI's are pointers,
// MPICH's are ints, and both travel in one register. What must be known beyond that (the world,
// the type of bytes, the status that is to be ignored) is known for these two families, which a
// process's MPI is asked for once. Of any other only times are recorded.
#pragma once

#include <cstdint>

namespace millrace::trace {

using Handle = long;  // a machine word that means something to MPI alone
using Offset = long;  // MPI_Offset

inline constexpr int kMpiSuccess = 0;
inline constexpr int kMpiFailure = 16;  // not 0; returned where there is no MPI to call

// Whether this is an MPI whose handles are known. Asked for on the first call.
enum class MpiFamily : uint32_t { kUnasked, kUnknown, kOpenMpi, kMpich };

struct MpiLibrary {
  MpiFamily family;
  void* status_ignore;
  Handle world;
  Handle bytes;  // MPI_BYTE
  Handle no_info;
  int shared_type;  // MPI_COMM_TYPE_SHARED

  // By their profiling names, so that another tool does not take our calls for the program's.
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

// What is done around MPI_Init and MPI_Finalize: which rank this is, and how its host's clock
// stands to that of rank 0.
void mpi_will_begin(const MpiLibrary& mpi);
void mpi_has_begun(const MpiLibrary& mpi);
void mpi_is_ending(const MpiLibrary& mpi);
void mpi_has_ended();

}  // namespace millrace::trace
