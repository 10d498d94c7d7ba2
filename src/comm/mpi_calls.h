// Shared by the files that call MPI. No other file may include this: it includes an mpi.h.
#pragma once

#include <mpi.h>

#include <exception>
#include <string>

#include "base/result.h"

namespace millrace::comm {

inline std::string mpi_text(int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return std::string(text, static_cast<size_t>(length));
}

inline Status make_room(std::string& bytes, uint64_t size_bytes) {
  try {
    // Not filled with zeros if the library allows it: MPI overwrites all of it.
#ifdef __cpp_lib_string_resize_and_overwrite
    // The library of g++ 12 passes the capacity to the function, not the size.
    bytes.resize_and_overwrite(size_bytes, [size_bytes](char*, size_t) { return size_bytes; });
#else
    bytes.resize(size_bytes);
#endif
    return {};
  } catch (const std::exception&) {  // bad_alloc, or length_error
    return fail(Errc::kExhausted, "out of memory for a message of {} bytes", size_bytes);
  }
}

}  // namespace millrace::comm
