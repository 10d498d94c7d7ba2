#include "trace/summary/untraced.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/io/file.h"
#include "base/system/subprocess.h"
#include "base/text/phrases.h"

namespace millrace::trace {
namespace {

constexpr size_t kProgramHeadersMax = 256;
#if defined(__aarch64__)
constexpr uint16_t kOwnMachine = EM_AARCH64;
#else
constexpr uint16_t kOwnMachine = EM_X86_64;
#endif

// Whether an ELF program has a dynamic linker. Without one, nothing can be preloaded.
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

constexpr int kInterpretersMax = 4;  // a script's interpreter may itself be a script

// Whether the loader ignores LD_PRELOAD because the program gains rights when it is started.
bool gains_rights(const struct stat& file) {
  return ((file.st_mode & S_ISUID) != 0 && file.st_uid != geteuid()) ||
         ((file.st_mode & S_ISGID) != 0 && file.st_gid != getegid());
}

// The program in the first line of a script.
std::string interpreter_of(std::string_view first_line) {
  constexpr std::string_view kBlank = " \t\n";
  first_line.remove_prefix(std::min(first_line.find_first_not_of(kBlank, 2), first_line.size()));
  return std::string(first_line.substr(0, first_line.find_first_of(kBlank)));
}

std::optional<std::string> why_no_library(const std::string& path, int interpreters_left) {
  struct stat status{};
  if (path.empty() || stat(path.c_str(), &status) != 0) return std::nullopt;
  char first[256] = {};
  const auto file = File::open(path, O_RDONLY);  // fails for some setuid programs
  const auto read = file.ok() ? file->read_at(0, std::as_writable_bytes(std::span(first))) : 0;
  const std::string_view text(first, read.ok() ? *read : 0);
  if (text.starts_with("#!")) {
    if (interpreters_left == 0) return std::nullopt;
    return why_no_library(interpreter_of(text), interpreters_left - 1);
  }
  if (gains_rights(status)) return "setuid or setgid: libraries cannot be preloaded";
  Elf64_Ehdr head{};
  if (text.size() < sizeof(head) || !text.starts_with(ELFMAG)) return std::nullopt;
  std::memcpy(&head, first, sizeof(head));
  if (head.e_ident[EI_CLASS] != ELFCLASS64) return "a 32-bit program: the recorder is 64-bit";
  if (head.e_machine != kOwnMachine) return "a program for another architecture";
  if (has_interpreter(*file, head)) return std::nullopt;
  return "statically linked: libraries cannot be preloaded; use 'millrace trace --all'";
}

// The same for a program that is known to have left no events.
std::string why_untraced(const std::string& path) {
  if (auto why = why_no_library(path, kInterpretersMax)) return *std::move(why);
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return "its file does not exist";
  char first[4] = {};
  const auto file = File::open(path, O_RDONLY);
  if (!file.ok() || !file->read_exactly_at(0, std::as_writable_bytes(std::span(first))).ok()) {
    return "its file cannot be read";
  }
  const std::string_view text(first, sizeof(first));
  if (text.starts_with("#!")) return "a script; its interpreter left no events";
  if (text != ELFMAG) return "not an ELF program";
  return "dynamically linked, but the recorder is not in it; its environment may have been cleared";
}

bool began_after(const Trace& trace, const ProgramStart& start) {
  const Process& parent = trace.processes()[static_cast<size_t>(start.process)];
  const uint32_t pid = start.child_pid != 0 ? start.child_pid : parent.pid;
  for (const Process& process : trace.processes()) {
    if (process.session != parent.session || process.pid != pid) continue;
    // The process that called exec has the same PID, but began earlier.
    if (process.start_ns >= start.begin_ns) return true;
  }
  return false;
}

}  // namespace

std::optional<std::string> why_no_library(const std::string& path) {
  return why_no_library(path, kInterpretersMax);
}

std::string find_program(const std::string& command) {
  return command.find('/') == std::string::npos ? find_in_path(command) : command;
}

std::vector<UntracedProgram> find_unseen_commands(const Trace& trace) {
  std::vector<bool> has_events(trace.processes().size());
  for (const BlockInfo& block : trace.blocks())
    has_events[static_cast<size_t>(block.process)] = true;
  std::map<NameIndex, uint64_t> times;
  for (size_t i = 0; i < has_events.size(); ++i) {
    if (!has_events[i]) ++times[trace.processes()[i].executable];
  }
  std::vector<UntracedProgram> found;
  for (const auto& [program, count] : times) {
    const std::string path(trace.name(program));
    if (auto why = why_no_library(path)) {
      found.push_back({.path = path, .why = *std::move(why), .times = count});
    }
  }
  return found;
}

std::string untraced_text(const UntracedProgram& program) {
  return fmt::format("{} was started {} and left no events: {}",
                     program.path.empty() ? "a program" : program.path,
                     counted(program.times, "time", "times"), program.why);
}

std::vector<UntracedProgram> find_untraced(const Trace& trace,
                                           const std::vector<ProgramStart>& starts) {
  std::map<NameIndex, uint64_t> times;
  for (const ProgramStart& start : starts) {
    if (!began_after(trace, start)) ++times[start.program];
  }
  std::vector<UntracedProgram> found = find_unseen_commands(trace);
  for (const auto& [program, count] : times) {
    const std::string path(trace.name(program));
    found.push_back({.path = path, .why = why_untraced(path), .times = count});
  }
  return found;
}

}  // namespace millrace::trace
