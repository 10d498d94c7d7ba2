// MPI-IO transfers. wire/trace_call.h is the table of all calls; a hook adds its arguments.
//
// A nonblocking transfer is recorded when it is started, with the requested size. The halves of a
// split collective transfer are two events; the first has the bytes.
//
// The byte offset is queried before the call, the sizes after it, and only if it succeeded: with an
// invalid type, MPI_File_read returns an error, but MPI_Type_size would end the program.
#include "trace/preload/mpiio.h"

#include <string_view>
#include <type_traits>

namespace millrace::trace {
namespace {

// Where in the file a transfer begins.
enum class OffsetOrigin : uint8_t {
  kExplicit,    // given by the call, in units of the view
  kAtPosition,  // at the rank's own file pointer
  kUnknown,     // at the shared file pointer, which any rank may move at any time
};

consteval OffsetOrigin pointer_of(Call call) {
  const std::string_view name = wire::call_info(call)->name;
  const bool is_shared = name.find("_shared") != name.npos || name.find("_ordered") != name.npos;
  return is_shared ? OffsetOrigin::kUnknown : OffsetOrigin::kAtPosition;
}

struct Transfer {
  Call call;
  Handle file;
  OffsetOrigin origin;
  Offset offset = 0;
  int count;
  Handle type;
};

// Queries before the call, records after it.
class TracedTransfer {
 public:
  TracedTransfer(const Transfer& transfer, const void* caller);

  // An argument to call with. The status is the only `void*`: it is replaced if the program ignores
  // it, because it tells how much was transferred.
  template <typename Argument>
  Argument pass(Argument argument) {
    if constexpr (std::is_same_v<Argument, void*>) return take_status(argument);
    return argument;
  }

  // Returns `code`, as the hook does.
  int finish(int code);

 private:
  struct Amounts {
    uint64_t size = 0;
    int64_t moved = 0;
  };
  Amounts amounts() const;
  void* take_status(void* status);

  Transfer transfer_;
  const MpiLibrary* mpi_ = nullptr;  // null: do not record
  MpiFile file_;
  uint64_t offset_ = kNoOffset;
  uint64_t begin_ = 0;
  void* status_ = nullptr;            // null: the call has none
  alignas(16) char own_status_[128];  // Open MPI's takes 24 bytes, MPICH's 20
};

TracedTransfer::TracedTransfer(const Transfer& transfer, const void* caller) : transfer_(transfer) {
  if (!recording(Level::kMpiio)) return;
  file_ = find_mpi_file(transfer.file);
  if (ignored(file_.name)) return;
  const int saved_errno = errno;
  mpi_ = &mpi_library(caller);
  if (transfer.origin == OffsetOrigin::kExplicit) {
    offset_ = byte_offset(*mpi_, file_, transfer.file, transfer.offset);
  } else if (transfer.origin == OffsetOrigin::kAtPosition) {
    offset_ = byte_position(*mpi_, file_, transfer.file);
  }
  errno = saved_errno;
  begin_ = now();
}

void* TracedTransfer::take_status(void* status) {
  const bool is_ignored = mpi_ != nullptr && mpi_->known() && status == mpi_->status_ignore;
  status_ = is_ignored ? own_status_ : status;
  return status_;
}

TracedTransfer::Amounts TracedTransfer::amounts() const {
  int type_size = 0;
  if (!mpi_->known() || transfer_.count < 0 ||
      mpi_->type_size(transfer_.type, &type_size) != kMpiSuccess || type_size < 0) {
    return {};
  }
  Amounts result;
  result.size = static_cast<uint64_t>(transfer_.count) * static_cast<uint64_t>(type_size);
  result.moved = static_cast<int64_t>(result.size);
  int count = 0;
  // In bytes, because a read may end in the middle of an element. Sizes beyond an int have no count
  // and are assumed to be complete.
  if (status_ != nullptr && mpi_->get_count(status_, mpi_->bytes, &count) == kMpiSuccess &&
      count >= 0 && result.size <= INT32_MAX) {
    result.moved = count;
  }
  return result;
}

int TracedTransfer::finish(int code) {
  if (mpi_ == nullptr) return code;
  const uint64_t end = now();
  const int saved_errno = errno;
  if (code == kMpiSuccess) {
    const Amounts done = amounts();
    record({.call = transfer_.call, .file = file_.name, .offset = offset_, .size = done.size},
           {begin_, end, done.moved});
  } else {
    record({.call = transfer_.call,
            .file = file_.name,
            .offset = offset_,
            .detail = static_cast<uint32_t>(code)},
           {begin_, end, -1});
  }
  errno = saved_errno;
  return code;
}

// Inlined into the hook, so that the return address is in the program.
template <typename... Arguments>
[[gnu::always_inline]] inline int call_traced(int (*function)(Arguments...),
                                              const Transfer& transfer, Arguments... arguments) {
  if (function == nullptr) return kMpiFailure;
  TracedTransfer traced(transfer, __builtin_return_address(0));
  return traced.finish(function(traced.pass(arguments)...));
}

// At the file pointer. `last` is a status, a request or nothing.
template <Call call, typename... Last>
[[gnu::always_inline]] inline int transfer(Handle file, const void* data, int count, Handle type,
                                           Last... last) {
  return call_traced(
      next_mpi_function<call, Handle, const void*, int, Handle, Last...>(
          __builtin_return_address(0)),
      {.call = call, .file = file, .origin = pointer_of(call), .count = count, .type = type}, file,
      data, count, type, last...);
}

template <Call call, typename... Last>
[[gnu::always_inline]] inline int transfer_at(Handle file, Offset offset, const void* data,
                                              int count, Handle type, Last... last) {
  return call_traced(next_mpi_function<call, Handle, Offset, const void*, int, Handle, Last...>(
                         __builtin_return_address(0)),
                     {.call = call,
                      .file = file,
                      .origin = OffsetOrigin::kExplicit,
                      .offset = offset,
                      .count = count,
                      .type = type},
                     file, offset, data, count, type, last...);
}

}  // namespace
}  // namespace millrace::trace

using namespace millrace::trace;

extern "C" {

int MPI_File_read(Handle file, void* data, int count, Handle type, void* status) {
  return transfer<Call::kMpiFileRead>(file, data, count, type, status);
}
int MPI_File_read_all(Handle file, void* data, int count, Handle type, void* status) {
  return transfer<Call::kMpiFileReadAll>(file, data, count, type, status);
}
int MPI_File_read_at(Handle file, Offset offset, void* data, int count, Handle type, void* status) {
  return transfer_at<Call::kMpiFileReadAt>(file, offset, data, count, type, status);
}
int MPI_File_read_at_all(Handle file, Offset offset, void* data, int count, Handle type,
                         void* status) {
  return transfer_at<Call::kMpiFileReadAtAll>(file, offset, data, count, type, status);
}
int MPI_File_read_shared(Handle file, void* data, int count, Handle type, void* status) {
  return transfer<Call::kMpiFileReadShared>(file, data, count, type, status);
}
int MPI_File_read_ordered(Handle file, void* data, int count, Handle type, void* status) {
  return transfer<Call::kMpiFileReadOrdered>(file, data, count, type, status);
}
int MPI_File_iread(Handle file, void* data, int count, Handle type, Handle* request) {
  return transfer<Call::kMpiFileIread>(file, data, count, type, request);
}
int MPI_File_iread_all(Handle file, void* data, int count, Handle type, Handle* request) {
  return transfer<Call::kMpiFileIreadAll>(file, data, count, type, request);
}
int MPI_File_iread_at(Handle file, Offset offset, void* data, int count, Handle type,
                      Handle* request) {
  return transfer_at<Call::kMpiFileIreadAt>(file, offset, data, count, type, request);
}
int MPI_File_iread_at_all(Handle file, Offset offset, void* data, int count, Handle type,
                          Handle* request) {
  return transfer_at<Call::kMpiFileIreadAtAll>(file, offset, data, count, type, request);
}
int MPI_File_iread_shared(Handle file, void* data, int count, Handle type, Handle* request) {
  return transfer<Call::kMpiFileIreadShared>(file, data, count, type, request);
}
int MPI_File_read_all_begin(Handle file, void* data, int count, Handle type) {
  return transfer<Call::kMpiFileReadAllBegin>(file, data, count, type);
}
int MPI_File_read_all_end(Handle file, void* data, void* status) {
  return on_mpi_file<Call::kMpiFileReadAllEnd>({}, file, data, status);
}
int MPI_File_read_at_all_begin(Handle file, Offset offset, void* data, int count, Handle type) {
  return transfer_at<Call::kMpiFileReadAtAllBegin>(file, offset, data, count, type);
}
int MPI_File_read_at_all_end(Handle file, void* data, void* status) {
  return on_mpi_file<Call::kMpiFileReadAtAllEnd>({}, file, data, status);
}
int MPI_File_read_ordered_begin(Handle file, void* data, int count, Handle type) {
  return transfer<Call::kMpiFileReadOrderedBegin>(file, data, count, type);
}
int MPI_File_read_ordered_end(Handle file, void* data, void* status) {
  return on_mpi_file<Call::kMpiFileReadOrderedEnd>({}, file, data, status);
}

int MPI_File_write(Handle file, const void* data, int count, Handle type, void* status) {
  return transfer<Call::kMpiFileWrite>(file, data, count, type, status);
}
int MPI_File_write_all(Handle file, const void* data, int count, Handle type, void* status) {
  return transfer<Call::kMpiFileWriteAll>(file, data, count, type, status);
}
int MPI_File_write_at(Handle file, Offset offset, const void* data, int count, Handle type,
                      void* status) {
  return transfer_at<Call::kMpiFileWriteAt>(file, offset, data, count, type, status);
}
int MPI_File_write_at_all(Handle file, Offset offset, const void* data, int count, Handle type,
                          void* status) {
  return transfer_at<Call::kMpiFileWriteAtAll>(file, offset, data, count, type, status);
}
int MPI_File_write_shared(Handle file, const void* data, int count, Handle type, void* status) {
  return transfer<Call::kMpiFileWriteShared>(file, data, count, type, status);
}
int MPI_File_write_ordered(Handle file, const void* data, int count, Handle type, void* status) {
  return transfer<Call::kMpiFileWriteOrdered>(file, data, count, type, status);
}
int MPI_File_iwrite(Handle file, const void* data, int count, Handle type, Handle* request) {
  return transfer<Call::kMpiFileIwrite>(file, data, count, type, request);
}
int MPI_File_iwrite_all(Handle file, const void* data, int count, Handle type, Handle* request) {
  return transfer<Call::kMpiFileIwriteAll>(file, data, count, type, request);
}
int MPI_File_iwrite_at(Handle file, Offset offset, const void* data, int count, Handle type,
                       Handle* request) {
  return transfer_at<Call::kMpiFileIwriteAt>(file, offset, data, count, type, request);
}
int MPI_File_iwrite_at_all(Handle file, Offset offset, const void* data, int count, Handle type,
                           Handle* request) {
  return transfer_at<Call::kMpiFileIwriteAtAll>(file, offset, data, count, type, request);
}
int MPI_File_iwrite_shared(Handle file, const void* data, int count, Handle type, Handle* request) {
  return transfer<Call::kMpiFileIwriteShared>(file, data, count, type, request);
}
int MPI_File_write_all_begin(Handle file, const void* data, int count, Handle type) {
  return transfer<Call::kMpiFileWriteAllBegin>(file, data, count, type);
}
int MPI_File_write_all_end(Handle file, const void* data, void* status) {
  return on_mpi_file<Call::kMpiFileWriteAllEnd>({}, file, data, status);
}
int MPI_File_write_at_all_begin(Handle file, Offset offset, const void* data, int count,
                                Handle type) {
  return transfer_at<Call::kMpiFileWriteAtAllBegin>(file, offset, data, count, type);
}
int MPI_File_write_at_all_end(Handle file, const void* data, void* status) {
  return on_mpi_file<Call::kMpiFileWriteAtAllEnd>({}, file, data, status);
}
int MPI_File_write_ordered_begin(Handle file, const void* data, int count, Handle type) {
  return transfer<Call::kMpiFileWriteOrderedBegin>(file, data, count, type);
}
int MPI_File_write_ordered_end(Handle file, const void* data, void* status) {
  return on_mpi_file<Call::kMpiFileWriteOrderedEnd>({}, file, data, status);
}

}  // extern "C"
