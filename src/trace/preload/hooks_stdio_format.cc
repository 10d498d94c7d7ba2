// Formatted reading and writing. The variadic calls become their va_list forms.
#include <stdarg.h>
#include <stdio.h>

#include "trace/preload/hooks_stdio.h"

namespace millrace::trace {
namespace {

// How many bytes are known only afterwards: nothing is asked for.
template <typename Body>
int formatting(Call call, FILE* stream, Body body) {
  return on_stream(call, stream, 0, body);
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

// By labels: the headers give the plain names to whichever of these the language version asks for.
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
