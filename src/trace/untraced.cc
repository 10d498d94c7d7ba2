#include "trace/untraced.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/file.h"

namespace millrace::trace {
namespace {

constexpr size_t kProgramHeadersMax = 256;

// Whether an ELF program asks for a dynamic linker; a static one has none to preload by.
bool has_interpreter(const File& file, const Elf64_Ehdr& head) {
  const size_t count = std::min<size_t>(head.e_phnum, kProgramHeadersMax);
  for (size_t i = 0; i < count; ++i) {
    Elf64_Phdr program{};
    const uint64_t offset = head.e_phoff + i * sizeof(program);
    const auto out = std::as_writable_bytes(std::span(&program, 1));
    if (!file.read_exactly_at(offset, out).ok()) return false;
    if (program.p_type == PT_INTERP) return true;
  }
  return false;
}

bool began_after(const Trace& trace, const ProgramStart& start) {
  const Process& parent = trace.processes()[static_cast<size_t>(start.process)];
  const uint32_t pid = start.child_pid != 0 ? start.child_pid : parent.pid;
  for (const Process& process : trace.processes()) {
    if (process.session != parent.session || process.pid != pid) continue;
    // The process that called exec has the number too, but began before.
    if (process.start_ns >= start.begin_ns) return true;
  }
  return false;
}

}  // namespace

std::string why_untraced(const std::string& path) {
  struct stat status{};
  if (path.empty() || stat(path.c_str(), &status) != 0) return "its file is not there to look at";
  if ((status.st_mode & (S_ISUID | S_ISGID)) != 0)
    return "setuid or setgid: no library is preloaded";
  const auto file = File::open(path, O_RDONLY);
  if (!file.ok()) return "its file cannot be read";
  Elf64_Ehdr head{};
  const auto read = file->read_at(0, std::as_writable_bytes(std::span(&head, 1)));
  if (!read.ok() || *read < 4) return "its file cannot be read";
  if (std::memcmp(head.e_ident, "#!", 2) == 0) return "a script; its interpreter left no events";
  if (*read < sizeof(head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) {
    return "no ELF program";
  }
  if (head.e_ident[EI_CLASS] != ELFCLASS64) return "a 32-bit program: the library is for 64 bits";
  if (!has_interpreter(*file, head)) return "statically linked: no library is preloaded";
  return "dynamically linked, yet the library was not in it; its environment may have been cleared";
}

std::vector<UntracedProgram> find_untraced(const Trace& trace,
                                           const std::vector<ProgramStart>& starts) {
  std::map<NameIndex, uint64_t> times;
  for (const ProgramStart& start : starts) {
    if (!began_after(trace, start)) ++times[start.program];
  }
  std::vector<UntracedProgram> found;
  for (const auto& [program, count] : times) {
    const std::string path(trace.name(program));
    found.push_back({.path = path, .why = why_untraced(path), .times = count});
  }
  return found;
}

}  // namespace millrace::trace
