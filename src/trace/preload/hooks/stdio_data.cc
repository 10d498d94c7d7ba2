// Reading and writing streams.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "trace/preload/hooks/stdio.h"

namespace millrace::trace {
namespace {

int64_t length_or_failure(const char* line) {
  return line == nullptr ? 0 : static_cast<int64_t>(strlen(line));
}

// The end of a file is not a failure: nothing was read.
int64_t one_or_none(int character) { return character == EOF ? 0 : 1; }

template <typename Body>
char* reading_line(FILE* stream, int size, Body body) {
  const auto room = size > 0 ? static_cast<uint64_t>(size) : 0;
  return on_stream(Call::kFgets, stream, room, body, length_or_failure);
}

template <typename Body>
size_t moving_items(Call call, FILE* stream, size_t size, size_t count, Body body) {
  return on_stream(call, stream, size * count, body,
                   [&](size_t items) { return static_cast<int64_t>(items * size); });
}

}  // namespace
}  // namespace millrace::trace

using namespace millrace::trace;

extern "C" {

size_t fread(void* buffer, size_t size, size_t count, FILE* stream) {
  static constinit Real<size_t(void*, size_t, size_t, FILE*)> real{"fread"};
  return moving_items(Call::kFread, stream, size, count,
                      [&] { return real(buffer, size, count, stream); });
}

size_t fread_unlocked(void* buffer, size_t size, size_t count, FILE* stream) {
  static constinit Real<size_t(void*, size_t, size_t, FILE*)> real{"fread_unlocked"};
  return moving_items(Call::kFread, stream, size, count,
                      [&] { return real(buffer, size, count, stream); });
}

size_t __fread_chk(void* buffer, size_t room, size_t size, size_t count, FILE* stream) {
  static constinit Real<size_t(void*, size_t, size_t, size_t, FILE*)> real{"__fread_chk"};
  return moving_items(Call::kFread, stream, size, count,
                      [&] { return real(buffer, room, size, count, stream); });
}

size_t __fread_unlocked_chk(void* buffer, size_t room, size_t size, size_t count, FILE* stream) {
  static constinit Real<size_t(void*, size_t, size_t, size_t, FILE*)> real{"__fread_unlocked_chk"};
  return moving_items(Call::kFread, stream, size, count,
                      [&] { return real(buffer, room, size, count, stream); });
}

size_t fwrite(const void* buffer, size_t size, size_t count, FILE* stream) {
  static constinit Real<size_t(const void*, size_t, size_t, FILE*)> real{"fwrite"};
  return moving_items(Call::kFwrite, stream, size, count,
                      [&] { return real(buffer, size, count, stream); });
}

size_t fwrite_unlocked(const void* buffer, size_t size, size_t count, FILE* stream) {
  static constinit Real<size_t(const void*, size_t, size_t, FILE*)> real{"fwrite_unlocked"};
  return moving_items(Call::kFwrite, stream, size, count,
                      [&] { return real(buffer, size, count, stream); });
}

char* fgets(char* line, int size, FILE* stream) {
  static constinit Real<char*(char*, int, FILE*)> real{"fgets"};
  return reading_line(stream, size, [&] { return real(line, size, stream); });
}

char* fgets_unlocked(char* line, int size, FILE* stream) {
  static constinit Real<char*(char*, int, FILE*)> real{"fgets_unlocked"};
  return reading_line(stream, size, [&] { return real(line, size, stream); });
}

char* __fgets_chk(char* line, size_t room, int size, FILE* stream) {
  static constinit Real<char*(char*, size_t, int, FILE*)> real{"__fgets_chk"};
  return reading_line(stream, size, [&] { return real(line, room, size, stream); });
}

char* __fgets_unlocked_chk(char* line, size_t room, int size, FILE* stream) {
  static constinit Real<char*(char*, size_t, int, FILE*)> real{"__fgets_unlocked_chk"};
  return reading_line(stream, size, [&] { return real(line, room, size, stream); });
}

int fputs(const char* text, FILE* stream) {
  static constinit Real<int(const char*, FILE*)> real{"fputs"};
  const size_t size = strlen(text);
  return on_stream(
      Call::kFputs, stream, size, [&] { return real(text, stream); },
      [&](int result) { return result < 0 ? -1 : static_cast<int64_t>(size); });
}

int fputs_unlocked(const char* text, FILE* stream) {
  static constinit Real<int(const char*, FILE*)> real{"fputs_unlocked"};
  const size_t size = strlen(text);
  return on_stream(
      Call::kFputs, stream, size, [&] { return real(text, stream); },
      [&](int result) { return result < 0 ? -1 : static_cast<int64_t>(size); });
}

int puts(const char* text) {
  static constinit Real<int(const char*)> real{"puts"};
  const size_t size = strlen(text) + 1;
  return on_stream(
      Call::kPuts, stdout, size, [&] { return real(text); },
      [&](int result) { return result < 0 ? -1 : static_cast<int64_t>(size); });
}

int fgetc(FILE* stream) {
  static constinit Real<int(FILE*)> real{"fgetc"};
  return on_stream(Call::kFgetc, stream, 1, [&] { return real(stream); }, one_or_none);
}

int fgetc_unlocked(FILE* stream) {
  static constinit Real<int(FILE*)> real{"fgetc_unlocked"};
  return on_stream(Call::kFgetc, stream, 1, [&] { return real(stream); }, one_or_none);
}

int fputc(int character, FILE* stream) {
  static constinit Real<int(int, FILE*)> real{"fputc"};
  return on_stream(Call::kFputc, stream, 1, [&] { return real(character, stream); }, one_or_none);
}

int fputc_unlocked(int character, FILE* stream) {
  static constinit Real<int(int, FILE*)> real{"fputc_unlocked"};
  return on_stream(Call::kFputc, stream, 1, [&] { return real(character, stream); }, one_or_none);
}

int putchar(int character) { return fputc(character, stdout); }
int getchar() { return fgetc(stdin); }

int ungetc(int character, FILE* stream) {
  static constinit Real<int(int, FILE*)> real{"ungetc"};
  return on_stream(Call::kUngetc, stream, 1, [&] { return real(character, stream); }, one_or_none);
}

ssize_t getdelim(char** line, size_t* room, int delimiter, FILE* stream) {
  static constinit Real<ssize_t(char**, size_t*, int, FILE*)> real{"getdelim"};
  return on_stream(
      Call::kGetdelim, stream, 0, [&] { return real(line, room, delimiter, stream); },
      [](ssize_t size) { return size < 0 ? 0 : static_cast<int64_t>(size); });
}

// What headers call if they inline getline.
ssize_t __getdelim(char** line, size_t* room, int delimiter, FILE* stream) {
  static constinit Real<ssize_t(char**, size_t*, int, FILE*)> real{"__getdelim"};
  return on_stream(
      delimiter == '\n' ? Call::kGetline : Call::kGetdelim, stream, 0,
      [&] { return real(line, room, delimiter, stream); },
      [](ssize_t size) { return size < 0 ? 0 : static_cast<int64_t>(size); });
}

ssize_t getline(char** line, size_t* room, FILE* stream) {
  static constinit Real<ssize_t(char**, size_t*, FILE*)> real{"getline"};
  return on_stream(
      Call::kGetline, stream, 0, [&] { return real(line, room, stream); },
      [](ssize_t size) { return size < 0 ? 0 : static_cast<int64_t>(size); });
}

wint_t fgetwc(FILE* stream) {
  static constinit Real<wint_t(FILE*)> real{"fgetwc"};
  return on_stream(
      Call::kFgetwc, stream, 1, [&] { return real(stream); },
      [](wint_t character) { return int64_t{character == WEOF ? 0 : 1}; });
}

wint_t fputwc(wchar_t character, FILE* stream) {
  static constinit Real<wint_t(wchar_t, FILE*)> real{"fputwc"};
  return on_stream(
      Call::kFputwc, stream, 1, [&] { return real(character, stream); },
      [](wint_t written) { return int64_t{written == WEOF ? 0 : 1}; });
}

wchar_t* fgetws(wchar_t* line, int size, FILE* stream) {
  static constinit Real<wchar_t*(wchar_t*, int, FILE*)> real{"fgetws"};
  return on_stream(
      Call::kFgetws, stream, size > 0 ? static_cast<uint64_t>(size) : 0,
      [&] { return real(line, size, stream); },
      [](const wchar_t* read) { return read == nullptr ? 0 : static_cast<int64_t>(wcslen(read)); });
}

int fputws(const wchar_t* text, FILE* stream) {
  static constinit Real<int(const wchar_t*, FILE*)> real{"fputws"};
  const size_t size = wcslen(text);
  return on_stream(
      Call::kFputws, stream, size, [&] { return real(text, stream); },
      [&](int result) { return result < 0 ? -1 : static_cast<int64_t>(size); });
}

}  // extern "C"

// Other names of the same calls: for 64-bit files, and internal to the C library. Defined in
// assembly, because headers declare some of them with types of their own, of the same layout.
asm(R"(
  .globl getc
  .set getc, fgetc
  .globl _IO_getc
  .set _IO_getc, fgetc
  .globl getc_unlocked
  .set getc_unlocked, fgetc_unlocked
  .globl putc
  .set putc, fputc
  .globl _IO_putc
  .set _IO_putc, fputc
  .globl putc_unlocked
  .set putc_unlocked, fputc_unlocked
  .globl getwc
  .set getwc, fgetwc
  .globl putwc
  .set putwc, fputwc
)");
