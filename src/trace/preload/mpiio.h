// MPI-IO hooks: what is known about open MPI files, and templates for calls on them.
//
// A hook calls the next MPI_... function of its name, which may be another tool's. Further values
// are queried on the program's own thread.
#pragma once

#include "trace/preload/foreign.h"
#include "trace/preload/handle_table.h"
#include "trace/preload/mpi_library.h"
#include "trace/preload/recorder.h"

namespace millrace::trace {

// What is known about an open MPI file.
struct MpiFile {
  NameId name = kNoName;
  bool sequential = false;  // MPI_MODE_SEQUENTIAL: it has no positions
  bool known = false;
};
MpiFile find_mpi_file(Handle file);
void keep_mpi_file(Handle file, NameId name, int mode);
void forget_mpi_file(Handle file);

// A path as passed to MPI, which may begin with the name of a file system.
NameId intern_mpi_path(const char* path);

// The absolute byte offset of an offset in units of the file's view; kNoOffset if unknown.
uint64_t byte_offset(const MpiLibrary& mpi, const MpiFile& known, Handle file, Offset offset);
uint64_t byte_position(const MpiLibrary& mpi, const MpiFile& known, Handle file);

// A call on an MPI file that transfers no data: the values of its event if it succeeds. If they are
// known only after the call, `describe` supplies them.
struct Described {
  uint64_t offset = kNoOffset;
  uint64_t size = 0;
  int64_t result = 0;
  uint32_t detail = 0;
};
void record_mpi_call(Call call, NameId name, const Described& described, uint64_t begin,
                     uint64_t end, int code);

// The function that the code at `caller` would call without us, by its name in wire/trace_call.h.
template <Call call, typename... Arguments>
auto next_mpi_function(const void* caller) -> int (*)(Arguments...) {
  static constinit Foreign<int(Arguments...)> real{wire::call_info(call)->name};
  return real.get(caller);
}

// Inlined into the hook, so that the return address is in the program.
template <Call call, typename Describe, typename... Arguments>
[[gnu::always_inline]] inline int on_mpi_file_then(Describe describe, Handle file,
                                                   Arguments... arguments) {
  const void* caller = __builtin_return_address(0);
  auto* function = next_mpi_function<call, Handle, Arguments...>(caller);
  if (function == nullptr) return kMpiFailure;
  if (!recording(Level::kMpiio)) return function(file, arguments...);
  const MpiFile known = find_mpi_file(file);
  if (ignored(known.name)) return function(file, arguments...);
  const uint64_t begin = now();
  const int code = function(file, arguments...);
  const uint64_t end = now();
  const int saved_errno = errno;
  Described described;
  if (code == kMpiSuccess) described = describe(mpi_library(caller), known);
  record_mpi_call(call, known.name, described, begin, end, code);
  errno = saved_errno;
  return code;
}

template <Call call, typename... Arguments>
[[gnu::always_inline]] inline int on_mpi_file(const Described& described, Handle file,
                                              Arguments... arguments) {
  return on_mpi_file_then<call>([&](const MpiLibrary&, const MpiFile&) { return described; }, file,
                                arguments...);
}

}  // namespace millrace::trace
