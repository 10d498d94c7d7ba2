// MPI_Init, MPI_Finalize, and calls on MPI files that transfer no data.
#include "trace/preload/mpiio.h"

using namespace millrace::trace;

namespace {

template <typename Function, typename... Arguments>
int on_init(Foreign<Function>& real, const void* caller, Arguments... arguments) {
  Function* function = real.get(caller);
  if (function == nullptr) return kMpiFailure;
  if (recording(Level::kNone)) mpi_will_begin(mpi_library(caller));
  const int code = function(arguments...);
  if (code == kMpiSuccess && recording(Level::kNone)) mpi_has_begun(mpi_library(caller));
  return code;
}

}  // namespace

extern "C" {

int MPI_Init(int* count, char*** arguments) {
  static constinit Foreign<decltype(MPI_Init)> real{"MPI_Init"};
  return on_init(real, __builtin_return_address(0), count, arguments);
}

int MPI_Init_thread(int* count, char*** arguments, int required, int* provided) {
  static constinit Foreign<decltype(MPI_Init_thread)> real{"MPI_Init_thread"};
  return on_init(real, __builtin_return_address(0), count, arguments, required, provided);
}

int MPI_Finalize() {
  static constinit Foreign<decltype(MPI_Finalize)> real{"MPI_Finalize"};
  const void* caller = __builtin_return_address(0);
  auto* function = real.get(caller);
  if (function == nullptr) return kMpiFailure;
  // Also on a rank that no longer records: the others count on it.
  mpi_is_ending(mpi_library(caller));
  const int code = function();
  mpi_has_ended();
  return code;
}

int MPI_File_open(Handle comm, const char* path, int mode, Handle info, Handle* file) {
  static constinit Foreign<decltype(MPI_File_open)> real{"MPI_File_open"};
  const void* caller = __builtin_return_address(0);
  auto* function = real.get(caller);
  if (function == nullptr) return kMpiFailure;
  if (!recording(Level::kMpiio)) return function(comm, path, mode, info, file);
  const NameId name = intern_mpi_path(path);
  const uint64_t begin = now();
  const int code = function(comm, path, mode, info, file);
  const uint64_t end = now();
  const int saved_errno = errno;
  if (code == kMpiSuccess && mpi_library(caller).known()) keep_mpi_file(*file, name, mode);
  if (!ignored(name)) {
    record_mpi_call(Call::kMpiFileOpen, name, {.detail = static_cast<uint32_t>(mode)}, begin, end,
                    code);
  }
  errno = saved_errno;
  return code;
}

int MPI_File_close(Handle* file) {
  static constinit Foreign<decltype(MPI_File_close)> real{"MPI_File_close"};
  const void* caller = __builtin_return_address(0);
  auto* function = real.get(caller);
  if (function == nullptr) return kMpiFailure;
  if (!recording(Level::kMpiio)) return function(file);
  // Forgotten before the call: once it is closed, another thread may get the same handle.
  MpiFile known;
  if (file != nullptr && mpi_library(caller).known()) {
    known = find_mpi_file(*file);
    forget_mpi_file(*file);
  }
  if (ignored(known.name)) return function(file);
  const uint64_t begin = now();
  const int code = function(file);
  const uint64_t end = now();
  record_mpi_call(Call::kMpiFileClose, known.name, {}, begin, end, code);
  return code;
}

int MPI_File_delete(const char* path, Handle info) {
  static constinit Foreign<decltype(MPI_File_delete)> real{"MPI_File_delete"};
  auto* function = real.get(__builtin_return_address(0));
  if (function == nullptr) return kMpiFailure;
  if (!recording(Level::kMpiio)) return function(path, info);
  const NameId name = intern_mpi_path(path);
  if (ignored(name)) return function(path, info);
  const uint64_t begin = now();
  const int code = function(path, info);
  const uint64_t end = now();
  record_mpi_call(Call::kMpiFileDelete, name, {}, begin, end, code);
  return code;
}

int MPI_File_seek(Handle file, Offset offset, int whence) {
  return on_mpi_file_then<Call::kMpiFileSeek>(
      [=](const MpiLibrary& mpi, const MpiFile& known) {
        return Described{.offset = byte_position(mpi, known, file),
                         .detail = static_cast<uint32_t>(whence)};
      },
      file, offset, whence);
}

int MPI_File_seek_shared(Handle file, Offset offset, int whence) {
  return on_mpi_file<Call::kMpiFileSeekShared>({.detail = static_cast<uint32_t>(whence)}, file,
                                               offset, whence);
}

int MPI_File_set_view(Handle file, Offset displacement, Handle element, Handle type,
                      const char* layout, Handle info) {
  return on_mpi_file<Call::kMpiFileSetView>({.offset = static_cast<uint64_t>(displacement)}, file,
                                            displacement, element, type, layout, info);
}

int MPI_File_set_size(Handle file, Offset size) {
  return on_mpi_file<Call::kMpiFileSetSize>({.size = static_cast<uint64_t>(size)}, file, size);
}

int MPI_File_preallocate(Handle file, Offset size) {
  return on_mpi_file<Call::kMpiFilePreallocate>({.size = static_cast<uint64_t>(size)}, file, size);
}

int MPI_File_get_size(Handle file, Offset* size) {
  return on_mpi_file_then<Call::kMpiFileGetSize>(
      [=](const MpiLibrary&, const MpiFile&) { return Described{.result = *size}; }, file, size);
}

int MPI_File_sync(Handle file) { return on_mpi_file<Call::kMpiFileSync>({}, file); }

}  // extern "C"
