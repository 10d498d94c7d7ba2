// MPI-IO reads. A nonblocking read is recorded when it is started, with the requested size. The
// halves of a split collective read are two events; the first has the bytes.
#include "trace/preload/mpiio.h"

using namespace millrace::trace;

extern "C" {

int MPI_File_read(Handle file, void* data, int count, Handle type, void* status) {
  static constinit Foreign<decltype(MPI_File_read)> real{"MPI_File_read"};
  return on_transfer(
      real, __builtin_return_address(0),
      {.call = Call::kMpiFileRead,
       .file = file,
       .place = OffsetOrigin::kAtPosition,
       .count = count,
       .type = type,
       .status = status,
       .has_status = true},
      [&](auto* function, void* to) { return function(file, data, count, type, to); });
}

int MPI_File_read_all(Handle file, void* data, int count, Handle type, void* status) {
  static constinit Foreign<decltype(MPI_File_read_all)> real{"MPI_File_read_all"};
  return on_transfer(
      real, __builtin_return_address(0),
      {.call = Call::kMpiFileReadAll,
       .file = file,
       .place = OffsetOrigin::kAtPosition,
       .count = count,
       .type = type,
       .status = status,
       .has_status = true},
      [&](auto* function, void* to) { return function(file, data, count, type, to); });
}

int MPI_File_read_at(Handle file, Offset offset, void* data, int count, Handle type, void* status) {
  static constinit Foreign<decltype(MPI_File_read_at)> real{"MPI_File_read_at"};
  return on_transfer(
      real, __builtin_return_address(0),
      {.call = Call::kMpiFileReadAt,
       .file = file,
       .place = OffsetOrigin::kExplicit,
       .offset = offset,
       .count = count,
       .type = type,
       .status = status,
       .has_status = true},
      [&](auto* function, void* to) { return function(file, offset, data, count, type, to); });
}

int MPI_File_read_at_all(Handle file, Offset offset, void* data, int count, Handle type,
                         void* status) {
  static constinit Foreign<decltype(MPI_File_read_at_all)> real{"MPI_File_read_at_all"};
  return on_transfer(
      real, __builtin_return_address(0),
      {.call = Call::kMpiFileReadAtAll,
       .file = file,
       .place = OffsetOrigin::kExplicit,
       .offset = offset,
       .count = count,
       .type = type,
       .status = status,
       .has_status = true},
      [&](auto* function, void* to) { return function(file, offset, data, count, type, to); });
}

int MPI_File_read_shared(Handle file, void* data, int count, Handle type, void* status) {
  static constinit Foreign<decltype(MPI_File_read_shared)> real{"MPI_File_read_shared"};
  return on_transfer(
      real, __builtin_return_address(0),
      {.call = Call::kMpiFileReadShared,
       .file = file,
       .place = OffsetOrigin::kUnknown,
       .count = count,
       .type = type,
       .status = status,
       .has_status = true},
      [&](auto* function, void* to) { return function(file, data, count, type, to); });
}

int MPI_File_read_ordered(Handle file, void* data, int count, Handle type, void* status) {
  static constinit Foreign<decltype(MPI_File_read_ordered)> real{"MPI_File_read_ordered"};
  return on_transfer(
      real, __builtin_return_address(0),
      {.call = Call::kMpiFileReadOrdered,
       .file = file,
       .place = OffsetOrigin::kUnknown,
       .count = count,
       .type = type,
       .status = status,
       .has_status = true},
      [&](auto* function, void* to) { return function(file, data, count, type, to); });
}

int MPI_File_iread(Handle file, void* data, int count, Handle type, Handle* request) {
  static constinit Foreign<decltype(MPI_File_iread)> real{"MPI_File_iread"};
  return on_transfer(
      real, __builtin_return_address(0),
      {.call = Call::kMpiFileIread,
       .file = file,
       .place = OffsetOrigin::kAtPosition,
       .count = count,
       .type = type},
      [&](auto* function, void*) { return function(file, data, count, type, request); });
}

int MPI_File_iread_all(Handle file, void* data, int count, Handle type, Handle* request) {
  static constinit Foreign<decltype(MPI_File_iread_all)> real{"MPI_File_iread_all"};
  return on_transfer(
      real, __builtin_return_address(0),
      {.call = Call::kMpiFileIreadAll,
       .file = file,
       .place = OffsetOrigin::kAtPosition,
       .count = count,
       .type = type},
      [&](auto* function, void*) { return function(file, data, count, type, request); });
}

int MPI_File_iread_at(Handle file, Offset offset, void* data, int count, Handle type,
                      Handle* request) {
  static constinit Foreign<decltype(MPI_File_iread_at)> real{"MPI_File_iread_at"};
  return on_transfer(
      real, __builtin_return_address(0),
      {.call = Call::kMpiFileIreadAt,
       .file = file,
       .place = OffsetOrigin::kExplicit,
       .offset = offset,
       .count = count,
       .type = type},
      [&](auto* function, void*) { return function(file, offset, data, count, type, request); });
}

int MPI_File_iread_at_all(Handle file, Offset offset, void* data, int count, Handle type,
                          Handle* request) {
  static constinit Foreign<decltype(MPI_File_iread_at_all)> real{"MPI_File_iread_at_all"};
  return on_transfer(
      real, __builtin_return_address(0),
      {.call = Call::kMpiFileIreadAtAll,
       .file = file,
       .place = OffsetOrigin::kExplicit,
       .offset = offset,
       .count = count,
       .type = type},
      [&](auto* function, void*) { return function(file, offset, data, count, type, request); });
}

int MPI_File_iread_shared(Handle file, void* data, int count, Handle type, Handle* request) {
  static constinit Foreign<decltype(MPI_File_iread_shared)> real{"MPI_File_iread_shared"};
  return on_transfer(
      real, __builtin_return_address(0),
      {.call = Call::kMpiFileIreadShared,
       .file = file,
       .place = OffsetOrigin::kUnknown,
       .count = count,
       .type = type},
      [&](auto* function, void*) { return function(file, data, count, type, request); });
}

int MPI_File_read_all_begin(Handle file, void* data, int count, Handle type) {
  static constinit Foreign<decltype(MPI_File_read_all_begin)> real{"MPI_File_read_all_begin"};
  return on_transfer(real, __builtin_return_address(0),
                     {.call = Call::kMpiFileReadAllBegin,
                      .file = file,
                      .place = OffsetOrigin::kAtPosition,
                      .count = count,
                      .type = type},
                     [&](auto* function, void*) { return function(file, data, count, type); });
}

int MPI_File_read_all_end(Handle file, void* data, void* status) {
  static constinit Foreign<decltype(MPI_File_read_all_end)> real{"MPI_File_read_all_end"};
  return on_mpi_file(real, __builtin_return_address(0), Call::kMpiFileReadAllEnd, file,
                     [&](auto* function) { return function(file, data, status); });
}

int MPI_File_read_at_all_begin(Handle file, Offset offset, void* data, int count, Handle type) {
  static constinit Foreign<decltype(MPI_File_read_at_all_begin)> real{"MPI_File_read_at_all_begin"};
  return on_transfer(
      real, __builtin_return_address(0),
      {.call = Call::kMpiFileReadAtAllBegin,
       .file = file,
       .place = OffsetOrigin::kExplicit,
       .offset = offset,
       .count = count,
       .type = type},
      [&](auto* function, void*) { return function(file, offset, data, count, type); });
}

int MPI_File_read_at_all_end(Handle file, void* data, void* status) {
  static constinit Foreign<decltype(MPI_File_read_at_all_end)> real{"MPI_File_read_at_all_end"};
  return on_mpi_file(real, __builtin_return_address(0), Call::kMpiFileReadAtAllEnd, file,
                     [&](auto* function) { return function(file, data, status); });
}

int MPI_File_read_ordered_begin(Handle file, void* data, int count, Handle type) {
  static constinit Foreign<decltype(MPI_File_read_ordered_begin)> real{
      "MPI_File_read_ordered_begin"};
  return on_transfer(real, __builtin_return_address(0),
                     {.call = Call::kMpiFileReadOrderedBegin,
                      .file = file,
                      .place = OffsetOrigin::kUnknown,
                      .count = count,
                      .type = type},
                     [&](auto* function, void*) { return function(file, data, count, type); });
}

int MPI_File_read_ordered_end(Handle file, void* data, void* status) {
  static constinit Foreign<decltype(MPI_File_read_ordered_end)> real{"MPI_File_read_ordered_end"};
  return on_mpi_file(real, __builtin_return_address(0), Call::kMpiFileReadOrderedEnd, file,
                     [&](auto* function) { return function(file, data, status); });
}

}  // extern "C"
