#include "store/preload/program_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hook/program_memory.h"
#include "hook/syscall.h"
#include "store/preload/lookup.h"

namespace millrace::store {
namespace {

constexpr size_t kHeadBytes = 256;  // what the kernel looks at
constexpr size_t kHeadersAtOnce = 8;

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#else
constexpr uint16_t kMachine = EM_AARCH64;
#endif

bool is_blank(char c) { return c == ' ' || c == '\t'; }

// Splits "#! INTERPRETER ARGUMENT" like the kernel. The argument may contain blanks.
void parse_script(size_t size, ProgramFile& file) {
  char* const text = file.text;
  const void* newline = memchr(text, '\n', size);
  size_t end =
      newline == nullptr ? size : static_cast<size_t>(static_cast<const char*>(newline) - text);
  while (end > 2 && is_blank(text[end - 1])) --end;
  size_t begin = 2;
  while (begin < end && is_blank(text[begin])) ++begin;
  size_t name_end = begin;
  while (name_end < end && !is_blank(text[name_end]) && text[name_end] != '\0') ++name_end;
  // A path that was cut, or none: the kernel refuses it.
  if (name_end == begin || (newline == nullptr && size == kHeadBytes && name_end == end)) return;
  text[end] = '\0';
  size_t argument = name_end;
  while (argument < end && is_blank(text[argument])) ++argument;
  file.argument = argument < end ? text + (argument - begin) : nullptr;
  text[name_end] = '\0';
  memmove(text, text + begin, end + 1 - begin);
  file.kind = ProgramKind::kScript;
}

// Whether a segment of notes has one of the Go linker.
[[gnu::noinline]] bool has_go_note(int fd, const Elf64_Phdr& segment) {
  char notes[512];
  const size_t wanted = segment.p_filesz < sizeof(notes) ? segment.p_filesz : sizeof(notes);
  const long size = hook::sys_pread(fd, notes, wanted, segment.p_offset);
  size_t at = 0;
  while (size > 0 && at + sizeof(Elf64_Nhdr) + 4 <= static_cast<size_t>(size)) {
    Elf64_Nhdr note;
    memcpy(&note, notes + at, sizeof(note));
    if (note.n_namesz == 4 && memcmp(notes + at + sizeof(note), "Go\0", 4) == 0) return true;
    const uint64_t align = segment.p_align == 8 ? 8 : 4;
    const uint64_t name = (uint64_t{note.n_namesz} + align - 1) / align * align;
    at += sizeof(note) + name + (uint64_t{note.n_descsz} + align - 1) / align * align;
  }
  return false;
}

// Whether a file without an interpreter is a program: the dynamic loader is like that, too.
[[gnu::noinline]] bool is_position_independent_program(int fd, const Elf64_Phdr& segment) {
  Elf64_Dyn parts[16];
  for (uint64_t at = 0; at < segment.p_filesz; at += sizeof(parts)) {
    const long size = hook::sys_pread(fd, parts, sizeof(parts), segment.p_offset + at);
    for (size_t i = 0; size > 0 && i < static_cast<size_t>(size) / sizeof(Elf64_Dyn); ++i) {
      if (parts[i].d_tag == DT_NULL) return false;
      if (parts[i].d_tag == DT_FLAGS_1) return (parts[i].d_un.d_val & DF_1_PIE) != 0;
    }
    if (size < static_cast<long>(sizeof(parts))) break;
  }
  return false;
}

struct Segments {
  bool has_interpreter = false;
  bool is_go = false;
  bool is_program = false;
};

Segments look_at_segments(int fd, const Elf64_Ehdr& header) {
  Segments found{.is_program = header.e_type == ET_EXEC};
  Elf64_Phdr segments[kHeadersAtOnce];
  for (size_t begin = 0; begin < header.e_phnum; begin += kHeadersAtOnce) {
    const long size = hook::sys_pread(fd, segments, sizeof(segments),
                                      header.e_phoff + begin * sizeof(Elf64_Phdr));
    const size_t count = size < 0 ? 0 : static_cast<size_t>(size) / sizeof(Elf64_Phdr);
    for (size_t i = 0; i < count && begin + i < header.e_phnum; ++i) {
      if (segments[i].p_type == PT_INTERP) found.has_interpreter = true;
      if (segments[i].p_type == PT_NOTE && has_go_note(fd, segments[i])) found.is_go = true;
      if (segments[i].p_type == PT_DYNAMIC && is_position_independent_program(fd, segments[i])) {
        found.is_program = true;
      }
    }
  }
  return found;
}

// The loader ignores LD_PRELOAD in a program that gets other rights.
bool changes_rights(int fd) {
  struct stat status;
  if (hook::sys_fstat(fd, &status) != 0) return false;
  const bool sets_group = (status.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP);
  return ((status.st_mode & S_ISUID) != 0 && status.st_uid != getuid()) ||
         (sets_group && status.st_gid != getgid());
}

void look_at_binary(int fd, size_t size, ProgramFile& file) {
  Elf64_Ehdr header;
  if (size < sizeof(header)) return;
  memcpy(&header, file.text, sizeof(header));
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kMachine) {
    file.reason = "is of another architecture";
  } else if (header.e_phentsize == sizeof(Elf64_Phdr)) {
    const Segments found = look_at_segments(fd, header);
    if (found.is_go) {
      file.reason = "is a Go program, which does not use the C library";
    } else if (!found.has_interpreter && found.is_program) {
      file.reason = "is statically linked";
    } else if (!found.has_interpreter) {
      file.kind = ProgramKind::kLoader;
    } else if (changes_rights(fd)) {
      file.reason = "runs with the rights of another user";
    }
  }
  if (file.reason != nullptr) file.kind = ProgramKind::kBlind;
}

bool names_root(char* const* arguments) {
  if (is_bad(arguments) || !hook::can_read_strings(arguments)) return false;
  for (; *arguments != nullptr; ++arguments) {
    const void* found =
        memmem(*arguments, strlen(*arguments), client.root.data(), client.root.size());
    if (found != nullptr) return true;
  }
  return false;
}

// A file in the directory of the node remembers it: a shell may start the program a thousand times.
bool is_first_report(std::string_view name) {
  const hook::Scratch<RealPath> mark;
  if (!mark) return true;
  Text(mark->text).add(client.node).add("/told-").add(name);
  const int fd = hook::sys_open(mark->text, O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (fd >= 0) hook::sys_close(fd);
  return fd != -EEXIST;
}

}  // namespace

int ProgramFile::read(const char* real) {
  *this = {};
  const int fd = hook::sys_open(real, O_RDONLY | O_NONBLOCK);
  if (fd < 0) return -fd;
  const long size = hook::sys_pread(fd, text, kHeadBytes, 0);
  if (size > 2 && text[0] == '#' && text[1] == '!') {
    parse_script(static_cast<size_t>(size), *this);
  } else if (size > SELFMAG && memcmp(text, ELFMAG, SELFMAG) == 0) {
    look_at_binary(fd, static_cast<size_t>(size), *this);
  }
  hook::sys_close(fd);
  return size < 0 ? static_cast<int>(-size) : 0;
}

void report_blind(const char* program, const ProgramFile& file, char* const* arguments) {
  if (working_directory_entry() == wire::kNoEntry && !names_root(arguments)) return;
  const char* slash = strrchr(program, '/');
  if (!is_first_report(slash == nullptr ? program : slash + 1)) return;
  std::atomic<bool> was_said{false};
  say_once(was_said, [&](Text& text) {
    text.add(program).add(" ").add(file.reason);
    text.add(": it does not see the store at ").add(client.root);
    text.add(". Use millrace store mount for it. This is reported once for each program\n");
  });
}

bool find_blind_directory(RealPath& out) {
  const uint32_t directory = working_directory_entry();
  if (directory == wire::kNoEntry) return false;
  struct stat status;
  if (!client.origin.empty() && out.in_origin(directory) &&
      hook::sys_lstat(out.text, &status) == 0 && S_ISDIR(status.st_mode)) {
    return true;
  }
  // Empty, and even root cannot create a file in it.
  Text(out.text).add("/proc/tty/ldisc");
  if (hook::sys_lstat(out.text, &status) == 0 && S_ISDIR(status.st_mode)) return true;
  Text(out.text).add(client.node).add("/empty");
  const int error = hook::sys_mkdir(out.text, 0555);
  return error == 0 || error == -EEXIST;
}

}  // namespace millrace::store
