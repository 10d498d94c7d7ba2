// MPI-IO hooks: templates for the kinds of calls on MPI files.
//
// A hook calls the next MPI_... function of its name, which may be another tool's. Further values
// are queried on the program's own thread: the byte offset before the call, the sizes after it.
// Sizes are queried only if the call succeeded: with an invalid type, MPI_File_read returns an
// error, but MPI_Type_size would end the program.
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

// Where in the file a transfer begins.
enum class OffsetOrigin : uint8_t {
  kExplicit,    // given by the call, in units of the view
  kAtPosition,  // at the rank's own file pointer
  kUnknown,     // at the shared file pointer, which any rank may move at any time
};

struct Transfer {
  Call call;
  Handle file;
  OffsetOrigin place;
  Offset offset = 0;
  int count;
  Handle type;
  void* status = nullptr;
  bool has_status = false;  // the status tells, on return, how much was transferred
};

// A call that transfers data: queries before the call, records after it.
class TracedTransfer {
 public:
  TracedTransfer(const Transfer& transfer, const void* caller);

  // The status to call with: the program's, or ours if it passes none.
  void* status() { return status_; }

  // Returns `code`, as the hook does.
  int finish(int code);

 private:
  struct Amounts {
    uint64_t size = 0;
    int64_t moved = 0;
  };
  Amounts amounts() const;

  Transfer transfer_;
  const MpiLibrary* mpi_ = nullptr;  // null: do not record
  MpiFile file_;
  uint64_t offset_ = kNoOffset;
  uint64_t begin_ = 0;
  void* status_;
  alignas(16) char own_status_[128];  // Open MPI's takes 24 bytes, MPICH's 20
};

template <typename Function, typename Body>
int on_transfer(Foreign<Function>& real, const void* caller, const Transfer& transfer, Body body) {
  Function* function = real.get(caller);
  if (function == nullptr) return kMpiFailure;
  TracedTransfer traced(transfer, caller);
  return traced.finish(body(function, traced.status()));
}

// The absolute byte offset of an offset in units of the file's view; kNoOffset if unknown.
uint64_t byte_offset(const MpiLibrary& mpi, const MpiFile& known, Handle file, Offset offset);
uint64_t byte_position(const MpiLibrary& mpi, const MpiFile& known, Handle file);

// A call on an MPI file that transfers no data. After a successful call, `describe` supplies the
// event's values and the result.
struct Described {
  uint64_t offset = kNoOffset;
  uint64_t size = 0;
  int64_t result = 0;
  uint32_t detail = 0;
};
void record_mpi_call(Call call, NameId name, const Described& described, uint64_t begin,
                     uint64_t end, int code);

template <typename Function, typename Body, typename Describe>
int on_mpi_file(Foreign<Function>& real, const void* caller, Call call, Handle file, Body body,
                Describe describe) {
  Function* function = real.get(caller);
  if (function == nullptr) return kMpiFailure;
  if (!recording(Level::kMpiio)) return body(function);
  const MpiFile known = find_mpi_file(file);
  if (ignored(known.name)) return body(function);
  const uint64_t begin = now();
  const int code = body(function);
  const uint64_t end = now();
  const int saved_errno = errno;
  Described described;
  if (code == kMpiSuccess) described = describe(mpi_library(caller), known);
  record_mpi_call(call, known.name, described, begin, end, code);
  errno = saved_errno;
  return code;
}

template <typename Function, typename Body>
int on_mpi_file(Foreign<Function>& real, const void* caller, Call call, Handle file, Body body) {
  return on_mpi_file(real, caller, call, file, body,
                     [](const MpiLibrary&, const MpiFile&) { return Described{}; });
}

}  // namespace millrace::trace
