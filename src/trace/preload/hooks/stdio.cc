// Opening, closing and positioning streams.
#include "trace/preload/hooks/stdio.h"

#include <fcntl.h>
#include <string.h>

namespace millrace::trace {

hook::Description* describe_stream(FILE* stream) { return describe(fileno_unlocked(stream)); }

uint64_t stream_position(FILE* stream, const hook::Description* description) {
  if (description == nullptr ||
      (description->flags.load(std::memory_order_relaxed) & hook::kNotSeekable) != 0) {
    return kNoOffset;
  }
  static constinit Real<off_t(FILE*)> real{"ftello"};
  const int saved_errno = errno;
  const off_t position = real(stream);
  errno = saved_errno;
  return position < 0 ? kNoOffset : static_cast<uint64_t>(position);
}

namespace {

// A mode such as "r+" as flags of open(2), for the event's detail.
uint32_t flags_of_mode(const char* mode) {
  if (mode == nullptr) return 0;
  const bool both = strchr(mode, '+') != nullptr;
  switch (mode[0]) {
    case 'w':
      return (both ? O_RDWR : O_WRONLY) | O_CREAT | O_TRUNC;
    case 'a':
      return (both ? O_RDWR : O_WRONLY) | O_CREAT | O_APPEND;
    default:
      return both ? O_RDWR : O_RDONLY;
  }
}

// `name_after(error)` gives the name after the call.
template <typename NameAfter, typename Body>
FILE* opening_stream(Call call, NameAfter name_after, const char* mode, Body body) {
  const uint64_t begin = now();
  FILE* stream = body();
  const uint64_t end = now();
  const int error = stream == nullptr ? errno : 0;
  const NameId name = name_after(error);
  if (stream != nullptr) {
    // The stream reads ahead, so the position of the descriptor is not that of the program.
    const int fd = fileno_unlocked(stream);
    if (fd >= 0 && name != kNoName) note_opened(fd, name, hook::kPositionUnknown);
  }
  if (!ignored(name) && recording(Level::kStdio)) {
    record({.call = call, .file = name, .detail = flags_of_mode(mode)},
           {begin, end, stream == nullptr ? -1 : 0, error});
  }
  return stream;
}

template <typename Body>
auto closing_stream(Call call, FILE* stream, Body body) {
  if (!tracking()) return body();
  const int fd = fileno_unlocked(stream);
  const hook::Description* description = recorder.descriptors.find(fd);
  const bool unwanted = ignored(description) || !recording(Level::kStdio);
  const NameId file = file_of(description);
  note_closed(fd);
  if (unwanted) return body();
  return traced({.call = call, .file = file}, body);
}

}  // namespace
}  // namespace millrace::trace

using namespace millrace::trace;

extern "C" {

FILE* fopen(const char* path, const char* mode) {
  static constinit Real<FILE*(const char*, const char*)> real{"fopen"};
  if (!tracking()) return real(path, mode);
  return opening_stream(
      Call::kFopen, [&](int error) { return intern_path_after(error, AT_FDCWD, path); }, mode,
      [&] { return real(path, mode); });
}

FILE* freopen(const char* path, const char* mode, FILE* stream) {
  static constinit Real<FILE*(const char*, const char*, FILE*)> real{"freopen"};
  if (!tracking()) return real(path, mode, stream);
  const int fd = fileno_unlocked(stream);
  const NameId before = path == nullptr ? file_of(describe(fd)) : kNoName;
  note_closed(fd);
  return opening_stream(
      Call::kFreopen,
      [&](int error) {
        return path == nullptr ? before : intern_path_after(error, AT_FDCWD, path);
      },
      mode, [&] { return real(path, mode, stream); });
}

FILE* fdopen(int fd, const char* mode) {
  static constinit Real<FILE*(int, const char*)> real{"fdopen"};
  if (!tracking()) return real(fd, mode);
  millrace::hook::Description* description = describe(fd);
  if (description != nullptr) description->flags.fetch_or(millrace::hook::kPositionUnknown);
  if (ignored(description) || !recording(Level::kStdio)) return real(fd, mode);
  return traced({.call = Call::kFdopen, .file = file_of(description)},
                [&] { return real(fd, mode); });
}

FILE* tmpfile() {
  static constinit Real<FILE*()> real{"tmpfile"};
  if (!tracking()) return real();
  return opening_stream(
      Call::kTmpfile, [](int) { return intern("/tmp/(deleted)"); }, "w+", [&] { return real(); });
}

FILE* popen(const char* command, const char* mode) {
  static constinit Real<FILE*(const char*, const char*)> real{"popen"};
  if (!recording(Level::kStdio)) return real(command, mode);
  recorder.descriptors.shared_with_child();
  const uint64_t begin = now();
  FILE* stream = real(command, mode);
  const uint64_t end = now();
  const int error = stream == nullptr ? errno : 0;
  record({.call = Call::kPopen, .file = intern_unread_text(command)},
         {begin, end, result_number(stream), error});
  if (stream != nullptr) {
    note_opened(fileno_unlocked(stream), intern("<pipe>"), millrace::hook::kNotSeekable);
  }
  return stream;
}

int pclose(FILE* stream) {
  static constinit Real<int(FILE*)> real{"pclose"};
  return closing_stream(Call::kPclose, stream, [&] { return real(stream); });
}

int fclose(FILE* stream) {
  static constinit Real<int(FILE*)> real{"fclose"};
  return closing_stream(Call::kFclose, stream, [&] { return real(stream); });
}

int fcloseall() {
  static constinit Real<int()> real{"fcloseall"};
  return real();
}

int fseek(FILE* stream, long offset, int whence) {
  static constinit Real<int(FILE*, long, int)> real{"fseek"};
  return on_stream(Call::kFseek, stream, 0, [&] { return real(stream, offset, whence); });
}

int fseeko(FILE* stream, off_t offset, int whence) {
  static constinit Real<int(FILE*, off_t, int)> real{"fseeko"};
  return on_stream(Call::kFseek, stream, 0, [&] { return real(stream, offset, whence); });
}

long ftell(FILE* stream) {
  static constinit Real<long(FILE*)> real{"ftell"};
  return on_stream(Call::kFtell, stream, 0, [&] { return real(stream); });
}

off_t ftello(FILE* stream) {
  static constinit Real<off_t(FILE*)> real{"ftello"};
  return on_stream(Call::kFtell, stream, 0, [&] { return real(stream); });
}

void rewind(FILE* stream) {
  static constinit Real<void(FILE*)> real{"rewind"};
  on_stream(Call::kRewind, stream, 0, [&] {
    real(stream);
    return 0;
  });
}

int fgetpos(FILE* stream, fpos_t* position) {
  static constinit Real<int(FILE*, fpos_t*)> real{"fgetpos"};
  return on_stream(Call::kFgetpos, stream, 0, [&] { return real(stream, position); });
}

int fsetpos(FILE* stream, const fpos_t* position) {
  static constinit Real<int(FILE*, const fpos_t*)> real{"fsetpos"};
  return on_stream(Call::kFsetpos, stream, 0, [&] { return real(stream, position); });
}

int fflush(FILE* stream) {
  static constinit Real<int(FILE*)> real{"fflush"};
  if (stream == nullptr && recording(Level::kStdio)) {
    return traced({.call = Call::kFflush}, [&] { return real(stream); });
  }
  return on_stream(Call::kFflush, stream, 0, [&] { return real(stream); });
}

}  // extern "C"

// Other names of the same calls: for 64-bit files, and internal to the C library. Defined in
// assembly, because headers declare some of them with types of their own, of the same layout.
asm(R"(
  .globl fopen64
  .set fopen64, fopen
  .globl freopen64
  .set freopen64, freopen
  .globl tmpfile64
  .set tmpfile64, tmpfile
  .globl fseeko64
  .set fseeko64, fseeko
  .globl ftello64
  .set ftello64, ftello
  .globl fflush_unlocked
  .set fflush_unlocked, fflush
  .globl fgetpos64
  .set fgetpos64, fgetpos
  .globl fsetpos64
  .set fsetpos64, fsetpos
)");
