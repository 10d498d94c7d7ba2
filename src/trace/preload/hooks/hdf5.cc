// HDF5 files and datasets.
#include "trace/preload/hdf5.h"

namespace millrace::trace {
namespace {

struct Span {
  uint64_t begin;
  uint64_t end;
};

// A call on an open file or dataset: H5Fflush, H5Dclose. Returns the result of `body`.
template <typename Function, typename Body>
int on_object(Foreign<Function>& real, const void* caller, Call call, Id object, Body body) {
  Function* function = real.get(caller);
  if (function == nullptr) return kHdf5Failure;
  if (!recording(Level::kHdf5)) return body(function);
  const int saved_errno = errno;
  const Hdf5::Names names = Hdf5(caller).names_of(object);
  errno = saved_errno;
  if (ignored(names.file)) return body(function);
  return traced({.call = call, .file = names.name}, [&] { return body(function); });
}

// A close: the identifier is invalid afterwards.
template <typename Function>
int on_close(Foreign<Function>& real, const void* caller, Call call, Id object) {
  return on_object(real, caller, call, object, [&](Function* function) {
    const int status = function(object);
    if (status >= 0 && recording(Level::kHdf5)) Hdf5(caller).forget(object);
    return status;
  });
}

// H5Fopen and H5Fcreate. The result of an event is 0: identifiers have no meaning to a reader.
template <typename Function, typename Body>
Id on_open_file(Foreign<Function>& real, const void* caller, Call call, const char* path,
                unsigned flags, Body body) {
  Function* function = real.get(caller);
  if (function == nullptr) return kHdf5Failure;
  if (!recording(Level::kHdf5)) return body(function);
  const NameId name = intern_path(path);
  const uint64_t begin = now();
  const Id file = body(function);
  const uint64_t end = now();
  const int saved_errno = errno;
  const Hdf5 library(caller);
  if (file >= 0 && library.known()) {
    library.keep(file, {name, name});
    library.keep_path(path, name);
  }
  if (!ignored(name)) {
    record({.call = call, .file = name, .detail = flags},
           {begin, end, file < 0 ? -1 : 0, file < 0 ? saved_errno : 0});
  }
  errno = saved_errno;
  return file;
}

// All versions of H5Dopen and H5Dcreate. A dataset that could not be opened is recorded under its
// file.
template <typename Function, typename Body>
Id on_open_dataset(Foreign<Function>& real, const void* caller, Call call, Id location, Body body) {
  Function* function = real.get(caller);
  if (function == nullptr) return kHdf5Failure;
  if (!recording(Level::kHdf5)) return body(function);
  const Hdf5 library(caller);
  const int errno_before = errno;
  Hdf5::Names names = library.names_of(location);
  errno = errno_before;
  const uint64_t begin = now();
  const Id dataset = body(function);
  const uint64_t end = now();
  const int saved_errno = errno;
  if (dataset >= 0) {
    library.forget(dataset);  // stale, from before H5close
    names = library.names_of(dataset);
  }
  if (!ignored(names.file)) {
    record({.call = call, .file = names.name}, {begin, end, dataset < 0 ? -1 : 0});
  }
  errno = saved_errno;
  return dataset;
}

void record_transfer(Call call, NameId name, const Span& span, const Hdf5::Extent& extent,
                     uint32_t detail = 0) {
  record({.call = call,
          .file = name,
          .size = extent.bytes,
          .detail = detail,
          .flags = extent.estimate ? wire::kFlagEstimate : uint8_t{0}},
         {span.begin, span.end, static_cast<int64_t>(extent.bytes)});
}

// A transfer of one dataset. `extent_of(library)` measures it after a successful call.
template <typename Function, typename Body, typename ExtentOf>
int on_transfer(Foreign<Function>& real, const void* caller, Call call, Id dataset, Body body,
                ExtentOf extent_of) {
  Function* function = real.get(caller);
  if (function == nullptr) return kHdf5Failure;
  if (!recording(Level::kHdf5)) return body(function);
  const Hdf5 library(caller);
  const int errno_before = errno;
  const Hdf5::Names names = library.names_of(dataset);
  errno = errno_before;
  if (ignored(names.file)) return body(function);
  Span span{.begin = now()};
  const int status = body(function);
  span.end = now();
  const int saved_errno = errno;
  if (status >= 0) {
    record_transfer(call, names.name, span, extent_of(library));
  } else {
    record({.call = call, .file = names.name}, {span.begin, span.end, status, saved_errno});
  }
  errno = saved_errno;
  return status;
}

// H5Dread and H5Dwrite.
template <typename Function, typename Body>
int on_selection(Foreign<Function>& real, const void* caller, Call call,
                 const Hdf5::Selection& selection, Body body) {
  return on_transfer(real, caller, call, selection.dataset, body,
                     [&](const Hdf5& library) { return library.extent_of(selection); });
}

// All versions of H5Dread_chunk: one chunk as stored in the file.
template <typename Function, typename... Rest>
int on_read_chunk(Foreign<Function>& real, const void* caller, Id dataset, Id transfer,
                  const uint64_t* offset, Rest... rest) {
  return on_transfer(
      real, caller, Call::kH5DreadChunk, dataset,
      [&](Function* function) { return function(dataset, transfer, offset, rest...); },
      [&](const Hdf5& library) { return Hdf5::Extent{library.chunk_size(dataset, offset)}; });
}

// H5Dread_multi and H5Dwrite_multi: one event under the first dataset; `detail` is their count.
struct Multi {
  size_t count;
  const Id* datasets;
  const Id* types;
  const Id* memory_spaces;
  const Id* file_spaces;
};
template <typename Function, typename Body>
int on_multi(Foreign<Function>& real, const void* caller, Call call, const Multi& multi,
             Body body) {
  Function* function = real.get(caller);
  if (function == nullptr) return kHdf5Failure;
  if (!recording(Level::kHdf5) || multi.count == 0) return body(function);
  const Hdf5 library(caller);
  Span span{.begin = now()};
  const int status = body(function);
  span.end = now();
  const int saved_errno = errno;
  const auto detail = static_cast<uint32_t>(multi.count);
  if (status < 0) {
    record({.call = call, .detail = detail}, {span.begin, span.end, status, saved_errno});
    errno = saved_errno;
    return status;
  }
  const Hdf5::Names names = library.names_of(multi.datasets[0]);
  Hdf5::Extent sum;
  for (size_t i = 0; i < multi.count; ++i) {
    const Hdf5::Extent one = library.extent_of({.dataset = multi.datasets[i],
                                                .type = multi.types[i],
                                                .memory_space = multi.memory_spaces[i],
                                                .file_space = multi.file_spaces[i]});
    sum.bytes += one.bytes;
    sum.estimate = sum.estimate || one.estimate;
  }
  if (!ignored(names.file)) record_transfer(call, names.name, span, sum, detail);
  errno = saved_errno;
  return status;
}

}  // namespace
}  // namespace millrace::trace

using namespace millrace::trace;

extern "C" {

Id H5Fcreate(const char* path, unsigned flags, Id creation, Id access) {
  static constinit Foreign<decltype(H5Fcreate)> real{"H5Fcreate"};
  return on_open_file(real, __builtin_return_address(0), Call::kH5Fcreate, path, flags,
                      [&](auto* function) { return function(path, flags, creation, access); });
}

Id H5Fopen(const char* path, unsigned flags, Id access) {
  static constinit Foreign<decltype(H5Fopen)> real{"H5Fopen"};
  return on_open_file(real, __builtin_return_address(0), Call::kH5Fopen, path, flags,
                      [&](auto* function) { return function(path, flags, access); });
}

int H5Fclose(Id file) {
  static constinit Foreign<decltype(H5Fclose)> real{"H5Fclose"};
  return on_close(real, __builtin_return_address(0), Call::kH5Fclose, file);
}

int H5Fflush(Id object, int scope) {
  static constinit Foreign<decltype(H5Fflush)> real{"H5Fflush"};
  return on_object(real, __builtin_return_address(0), Call::kH5Fflush, object,
                   [&](auto* function) { return function(object, scope); });
}

Id H5Dcreate1(Id location, const char* name, Id type, Id space, Id creation) {
  static constinit Foreign<decltype(H5Dcreate1)> real{"H5Dcreate1"};
  return on_open_dataset(
      real, __builtin_return_address(0), Call::kH5Dcreate, location,
      [&](auto* function) { return function(location, name, type, space, creation); });
}

Id H5Dcreate2(Id location, const char* name, Id type, Id space, Id link, Id creation, Id access) {
  static constinit Foreign<decltype(H5Dcreate2)> real{"H5Dcreate2"};
  return on_open_dataset(real, __builtin_return_address(0), Call::kH5Dcreate, location,
                         [&](auto* function) {
                           return function(location, name, type, space, link, creation, access);
                         });
}

Id H5Dopen1(Id location, const char* name) {
  static constinit Foreign<decltype(H5Dopen1)> real{"H5Dopen1"};
  return on_open_dataset(real, __builtin_return_address(0), Call::kH5Dopen, location,
                         [&](auto* function) { return function(location, name); });
}

Id H5Dopen2(Id location, const char* name, Id access) {
  static constinit Foreign<decltype(H5Dopen2)> real{"H5Dopen2"};
  return on_open_dataset(real, __builtin_return_address(0), Call::kH5Dopen, location,
                         [&](auto* function) { return function(location, name, access); });
}

int H5Dclose(Id dataset) {
  static constinit Foreign<decltype(H5Dclose)> real{"H5Dclose"};
  return on_close(real, __builtin_return_address(0), Call::kH5Dclose, dataset);
}

int H5Dread(Id dataset, Id type, Id memory_space, Id file_space, Id transfer, void* data) {
  static constinit Foreign<decltype(H5Dread)> real{"H5Dread"};
  return on_selection(
      real, __builtin_return_address(0), Call::kH5Dread,
      {.dataset = dataset, .type = type, .memory_space = memory_space, .file_space = file_space},
      [&](auto* function) {
        return function(dataset, type, memory_space, file_space, transfer, data);
      });
}

int H5Dwrite(Id dataset, Id type, Id memory_space, Id file_space, Id transfer, const void* data) {
  static constinit Foreign<decltype(H5Dwrite)> real{"H5Dwrite"};
  return on_selection(
      real, __builtin_return_address(0), Call::kH5Dwrite,
      {.dataset = dataset, .type = type, .memory_space = memory_space, .file_space = file_space},
      [&](auto* function) {
        return function(dataset, type, memory_space, file_space, transfer, data);
      });
}

int H5Dflush(Id dataset) {
  static constinit Foreign<decltype(H5Dflush)> real{"H5Dflush"};
  return on_object(real, __builtin_return_address(0), Call::kH5Dflush, dataset,
                   [&](auto* function) { return function(dataset); });
}

int H5Dwrite_chunk(Id dataset, Id transfer, uint32_t filters, const uint64_t* offset, size_t size,
                   const void* data) {
  static constinit Foreign<decltype(H5Dwrite_chunk)> real{"H5Dwrite_chunk"};
  return on_transfer(
      real, __builtin_return_address(0), Call::kH5DwriteChunk, dataset,
      [&](auto* function) { return function(dataset, transfer, filters, offset, size, data); },
      [&](const Hdf5&) { return Hdf5::Extent{size}; });
}

int H5Dread_chunk(Id dataset, Id transfer, const uint64_t* offset, uint32_t* filters, void* data) {
  static constinit Foreign<decltype(H5Dread_chunk)> real{"H5Dread_chunk"};
  return on_read_chunk(real, __builtin_return_address(0), dataset, transfer, offset, filters, data);
}

int H5Dread_chunk1(Id dataset, Id transfer, const uint64_t* offset, uint32_t* filters, void* data) {
  static constinit Foreign<decltype(H5Dread_chunk1)> real{"H5Dread_chunk1"};
  return on_read_chunk(real, __builtin_return_address(0), dataset, transfer, offset, filters, data);
}

int H5Dread_chunk2(Id dataset, Id transfer, const uint64_t* offset, uint32_t* filters, void* data,
                   size_t* size) {
  static constinit Foreign<decltype(H5Dread_chunk2)> real{"H5Dread_chunk2"};
  return on_read_chunk(real, __builtin_return_address(0), dataset, transfer, offset, filters, data,
                       size);
}

int H5Dread_multi(size_t count, Id* datasets, Id* types, Id* memory_spaces, Id* file_spaces,
                  Id transfer, void** data) {
  static constinit Foreign<decltype(H5Dread_multi)> real{"H5Dread_multi"};
  return on_multi(real, __builtin_return_address(0), Call::kH5DreadMulti,
                  {count, datasets, types, memory_spaces, file_spaces}, [&](auto* function) {
                    return function(count, datasets, types, memory_spaces, file_spaces, transfer,
                                    data);
                  });
}

int H5Dwrite_multi(size_t count, Id* datasets, Id* types, Id* memory_spaces, Id* file_spaces,
                   Id transfer, const void** data) {
  static constinit Foreign<decltype(H5Dwrite_multi)> real{"H5Dwrite_multi"};
  return on_multi(real, __builtin_return_address(0), Call::kH5DwriteMulti,
                  {count, datasets, types, memory_spaces, file_spaces}, [&](auto* function) {
                    return function(count, datasets, types, memory_spaces, file_spaces, transfer,
                                    data);
                  });
}

}  // extern "C"
