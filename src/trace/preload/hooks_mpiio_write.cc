// MPI-IO writes, recorded like reads (hooks_mpiio_read.cc).
#include "trace/preload/mpiio.h"

using namespace millrace::trace;

extern "C" {

int MPI_File_write(Handle file, const void* data, int count, Handle type, void* status) {
  static constinit Foreign<decltype(MPI_File_write)> real{"MPI_File_write"};
  return on_transfer(
      real, __builtin_return_address(0),
      {.call = Call::kMpiFileWrite,
       .file = file,
       .place = OffsetOrigin::kAtPosition,
       .count = count,
       .type = type,
       .status = status,
       .has_status = true},
      [&](auto* function, void* to) { return function(file, data, count, type, to); });
}

int MPI_File_write_all(Handle file, const void* data, int count, Handle type, void* status) {
  static constinit Foreign<decltype(MPI_File_write_all)> real{"MPI_File_write_all"};
  return on_transfer(
      real, __builtin_return_address(0),
      {.call = Call::kMpiFileWriteAll,
       .file = file,
       .place = OffsetOrigin::kAtPosition,
       .count = count,
       .type = type,
       .status = status,
       .has_status = true},
      [&](auto* function, void* to) { return function(file, data, count, type, to); });
}

int MPI_File_write_at(Handle file, Offset offset, const void* data, int count, Handle type,
                      void* status) {
  static constinit Foreign<decltype(MPI_File_write_at)> real{"MPI_File_write_at"};
  return on_transfer(
      real, __builtin_return_address(0),
      {.call = Call::kMpiFileWriteAt,
       .file = file,
       .place = OffsetOrigin::kExplicit,
       .offset = offset,
       .count = count,
       .type = type,
       .status = status,
       .has_status = true},
      [&](auto* function, void* to) { return function(file, offset, data, count, type, to); });
}

int MPI_File_write_at_all(Handle file, Offset offset, const void* data, int count, Handle type,
                          void* status) {
  static constinit Foreign<decltype(MPI_File_write_at_all)> real{"MPI_File_write_at_all"};
  return on_transfer(
      real, __builtin_return_address(0),
      {.call = Call::kMpiFileWriteAtAll,
       .file = file,
       .place = OffsetOrigin::kExplicit,
       .offset = offset,
       .count = count,
       .type = type,
       .status = status,
       .has_status = true},
      [&](auto* function, void* to) { return function(file, offset, data, count, type, to); });
}

int MPI_File_write_shared(Handle file, const void* data, int count, Handle type, void* status) {
  static constinit Foreign<decltype(MPI_File_write_shared)> real{"MPI_File_write_shared"};
  return on_transfer(
      real, __builtin_return_address(0),
      {.call = Call::kMpiFileWriteShared,
       .file = file,
       .place = OffsetOrigin::kUnknown,
       .count = count,
       .type = type,
       .status = status,
       .has_status = true},
      [&](auto* function, void* to) { return function(file, data, count, type, to); });
}

int MPI_File_write_ordered(Handle file, const void* data, int count, Handle type, void* status) {
  static constinit Foreign<decltype(MPI_File_write_ordered)> real{"MPI_File_write_ordered"};
  return on_transfer(
      real, __builtin_return_address(0),
      {.call = Call::kMpiFileWriteOrdered,
       .file = file,
       .place = OffsetOrigin::kUnknown,
       .count = count,
       .type = type,
       .status = status,
       .has_status = true},
      [&](auto* function, void* to) { return function(file, data, count, type, to); });
}

int MPI_File_iwrite(Handle file, const void* data, int count, Handle type, Handle* request) {
  static constinit Foreign<decltype(MPI_File_iwrite)> real{"MPI_File_iwrite"};
  return on_transfer(
      real, __builtin_return_address(0),
      {.call = Call::kMpiFileIwrite,
       .file = file,
       .place = OffsetOrigin::kAtPosition,
       .count = count,
       .type = type},
      [&](auto* function, void*) { return function(file, data, count, type, request); });
}

int MPI_File_iwrite_all(Handle file, const void* data, int count, Handle type, Handle* request) {
  static constinit Foreign<decltype(MPI_File_iwrite_all)> real{"MPI_File_iwrite_all"};
  return on_transfer(
      real, __builtin_return_address(0),
      {.call = Call::kMpiFileIwriteAll,
       .file = file,
       .place = OffsetOrigin::kAtPosition,
       .count = count,
       .type = type},
      [&](auto* function, void*) { return function(file, data, count, type, request); });
}

int MPI_File_iwrite_at(Handle file, Offset offset, const void* data, int count, Handle type,
                       Handle* request) {
  static constinit Foreign<decltype(MPI_File_iwrite_at)> real{"MPI_File_iwrite_at"};
  return on_transfer(
      real, __builtin_return_address(0),
      {.call = Call::kMpiFileIwriteAt,
       .file = file,
       .place = OffsetOrigin::kExplicit,
       .offset = offset,
       .count = count,
       .type = type},
      [&](auto* function, void*) { return function(file, offset, data, count, type, request); });
}

int MPI_File_iwrite_at_all(Handle file, Offset offset, const void* data, int count, Handle type,
                           Handle* request) {
  static constinit Foreign<decltype(MPI_File_iwrite_at_all)> real{"MPI_File_iwrite_at_all"};
  return on_transfer(
      real, __builtin_return_address(0),
      {.call = Call::kMpiFileIwriteAtAll,
       .file = file,
       .place = OffsetOrigin::kExplicit,
       .offset = offset,
       .count = count,
       .type = type},
      [&](auto* function, void*) { return function(file, offset, data, count, type, request); });
}

int MPI_File_iwrite_shared(Handle file, const void* data, int count, Handle type, Handle* request) {
  static constinit Foreign<decltype(MPI_File_iwrite_shared)> real{"MPI_File_iwrite_shared"};
  return on_transfer(
      real, __builtin_return_address(0),
      {.call = Call::kMpiFileIwriteShared,
       .file = file,
       .place = OffsetOrigin::kUnknown,
       .count = count,
       .type = type},
      [&](auto* function, void*) { return function(file, data, count, type, request); });
}

int MPI_File_write_all_begin(Handle file, const void* data, int count, Handle type) {
  static constinit Foreign<decltype(MPI_File_write_all_begin)> real{"MPI_File_write_all_begin"};
  return on_transfer(real, __builtin_return_address(0),
                     {.call = Call::kMpiFileWriteAllBegin,
                      .file = file,
                      .place = OffsetOrigin::kAtPosition,
                      .count = count,
                      .type = type},
                     [&](auto* function, void*) { return function(file, data, count, type); });
}

int MPI_File_write_all_end(Handle file, const void* data, void* status) {
  static constinit Foreign<decltype(MPI_File_write_all_end)> real{"MPI_File_write_all_end"};
  return on_mpi_file(real, __builtin_return_address(0), Call::kMpiFileWriteAllEnd, file,
                     [&](auto* function) { return function(file, data, status); });
}

int MPI_File_write_at_all_begin(Handle file, Offset offset, const void* data, int count,
                                Handle type) {
  static constinit Foreign<decltype(MPI_File_write_at_all_begin)> real{
      "MPI_File_write_at_all_begin"};
  return on_transfer(
      real, __builtin_return_address(0),
      {.call = Call::kMpiFileWriteAtAllBegin,
       .file = file,
       .place = OffsetOrigin::kExplicit,
       .offset = offset,
       .count = count,
       .type = type},
      [&](auto* function, void*) { return function(file, offset, data, count, type); });
}

int MPI_File_write_at_all_end(Handle file, const void* data, void* status) {
  static constinit Foreign<decltype(MPI_File_write_at_all_end)> real{"MPI_File_write_at_all_end"};
  return on_mpi_file(real, __builtin_return_address(0), Call::kMpiFileWriteAtAllEnd, file,
                     [&](auto* function) { return function(file, data, status); });
}

int MPI_File_write_ordered_begin(Handle file, const void* data, int count, Handle type) {
  static constinit Foreign<decltype(MPI_File_write_ordered_begin)> real{
      "MPI_File_write_ordered_begin"};
  return on_transfer(real, __builtin_return_address(0),
                     {.call = Call::kMpiFileWriteOrderedBegin,
                      .file = file,
                      .place = OffsetOrigin::kUnknown,
                      .count = count,
                      .type = type},
                     [&](auto* function, void*) { return function(file, data, count, type); });
}

int MPI_File_write_ordered_end(Handle file, const void* data, void* status) {
  static constinit Foreign<decltype(MPI_File_write_ordered_end)> real{"MPI_File_write_ordered_end"};
  return on_mpi_file(real, __builtin_return_address(0), Call::kMpiFileWriteOrderedEnd, file,
                     [&](auto* function) { return function(file, data, status); });
}

}  // extern "C"
