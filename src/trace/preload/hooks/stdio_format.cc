// Formatted reading and writing. Variadic calls use the va_list forms.
#include <stdarg.h>
#include <stdio.h>

#include "trace/preload/hooks/stdio.h"

namespace millrace::trace {
namespace {

// The number of bytes is known only afterwards, so no size is requested.
template <typename Body>
int formatting(Call call, FILE* stream, Body body) {
  return on_stream(call, stream, 0, body);
}

template <typename Body>
int on_descriptor_formatted(int fd, Body body) {
  if (!recording(Level::kStdio)) return body();
  hook::Description* description = describe(fd);
  if (ignored(description)) return body();
  const uint64_t begin = now();
  const int written = body();
  const uint64_t end = now();
  const int error = written < 0 ? errno : 0;
  const uint64_t moved = written > 0 ? static_cast<uint64_t>(written) : 0;
  uint64_t offset = kNoOffset;
  if (description != nullptr) offset = recorder.descriptors.moved_from(*description, fd, moved);
  record({.call = Call::kFprintf, .file = file_of(description), .offset = offset},
         {begin, end, written, error});
  return written;
}

}  // namespace
}  // namespace millrace::trace

using namespace millrace::trace;

extern "C" {

int vfprintf(FILE* stream, const char* format, va_list arguments) {
  static constinit Real<int(FILE*, const char*, va_list)> real{"vfprintf"};
  return formatting(Call::kFprintf, stream, [&] { return real.get()(stream, format, arguments); });
}

int fprintf(FILE* stream, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int result = vfprintf(stream, format, arguments);
  va_end(arguments);
  return result;
}

int vprintf(const char* format, va_list arguments) {
  static constinit Real<int(FILE*, const char*, va_list)> real{"vfprintf"};
  return formatting(Call::kPrintf, stdout, [&] { return real.get()(stdout, format, arguments); });
}

int printf(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int result = vprintf(format, arguments);
  va_end(arguments);
  return result;
}

int __vfprintf_chk(FILE* stream, int level, const char* format, va_list arguments) {
  static constinit Real<int(FILE*, int, const char*, va_list)> real{"__vfprintf_chk"};
  return formatting(Call::kFprintf, stream,
                    [&] { return real.get()(stream, level, format, arguments); });
}

int __fprintf_chk(FILE* stream, int level, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int result = __vfprintf_chk(stream, level, format, arguments);
  va_end(arguments);
  return result;
}

int __vprintf_chk(int level, const char* format, va_list arguments) {
  static constinit Real<int(FILE*, int, const char*, va_list)> real{"__vfprintf_chk"};
  return formatting(Call::kPrintf, stdout,
                    [&] { return real.get()(stdout, level, format, arguments); });
}

int __printf_chk(int level, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int result = __vprintf_chk(level, format, arguments);
  va_end(arguments);
  return result;
}

// To a descriptor: a single write at the end, which the C library makes itself.
int vdprintf(int fd, const char* format, va_list arguments) {
  static constinit Real<int(int, const char*, va_list)> real{"vdprintf"};
  return on_descriptor_formatted(fd, [&] { return real.get()(fd, format, arguments); });
}

int dprintf(int fd, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int result = vdprintf(fd, format, arguments);
  va_end(arguments);
  return result;
}

int __vdprintf_chk(int fd, int level, const char* format, va_list arguments) {
  static constinit Real<int(int, int, const char*, va_list)> real{"__vdprintf_chk"};
  return on_descriptor_formatted(fd, [&] { return real.get()(fd, level, format, arguments); });
}

int __dprintf_chk(int fd, int level, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int result = __vdprintf_chk(fd, level, format, arguments);
  va_end(arguments);
  return result;
}

// Defined by label: headers map the plain names to one of these, depending on the language version.
int millrace_plain_vfscanf(FILE* stream, const char* format, va_list arguments) asm("vfscanf");
int millrace_plain_vfscanf(FILE* stream, const char* format, va_list arguments) {
  static constinit Real<int(FILE*, const char*, va_list)> real{"vfscanf"};
  return on_stream_moved(Call::kFscanf, stream,
                         [&] { return real.get()(stream, format, arguments); });
}

int millrace_plain_fscanf(FILE* stream, const char* format, ...) asm("fscanf");
int millrace_plain_fscanf(FILE* stream, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int result = millrace_plain_vfscanf(stream, format, arguments);
  va_end(arguments);
  return result;
}

int millrace_c99_vfscanf(FILE* stream, const char* format,
                         va_list arguments) asm("__isoc99_vfscanf");
int millrace_c99_vfscanf(FILE* stream, const char* format, va_list arguments) {
  static constinit Real<int(FILE*, const char*, va_list)> real{"__isoc99_vfscanf"};
  return on_stream_moved(Call::kFscanf, stream,
                         [&] { return real.get()(stream, format, arguments); });
}

int millrace_c99_fscanf(FILE* stream, const char* format, ...) asm("__isoc99_fscanf");
int millrace_c99_fscanf(FILE* stream, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int result = millrace_c99_vfscanf(stream, format, arguments);
  va_end(arguments);
  return result;
}

// glibc 2.38 and newer.
int millrace_c23_vfscanf(FILE* stream, const char* format,
                         va_list arguments) asm("__isoc23_vfscanf");
int millrace_c23_vfscanf(FILE* stream, const char* format, va_list arguments) {
  static constinit Real<int(FILE*, const char*, va_list)> real{"__isoc23_vfscanf"};
  return on_stream_moved(Call::kFscanf, stream,
                         [&] { return real.get()(stream, format, arguments); });
}

int millrace_c23_fscanf(FILE* stream, const char* format, ...) asm("__isoc23_fscanf");
int millrace_c23_fscanf(FILE* stream, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int result = millrace_c23_vfscanf(stream, format, arguments);
  va_end(arguments);
  return result;
}

}  // extern "C"
