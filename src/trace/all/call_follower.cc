#include "trace/all/call_follower.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <unordered_set>

#include "hook/path.h"
#include "trace/all/remote.h"
#include "trace/preload/link_kind.h"

namespace millrace::trace {
namespace {

using wire::Call;
using wire::kNoName;
using wire::kNoOffset;
using wire::NameId;

// Flags of open that say nothing about the I/O. The last is O_LARGEFILE, of 32-bit programs.
#if defined(__x86_64__)
constexpr uint32_t kIrrelevantFlags = O_CLOEXEC | O_NOCTTY | 0100000;
#else
constexpr uint32_t kIrrelevantFlags = O_CLOEXEC | O_NOCTTY | 0400000;
#endif

// Results that the kernel reports to a tracer, but never to the program, when a signal interrupts a
// call: it restarts the call or returns EINTR.
bool is_interruption(int64_t result) {
  return result == -512 || result == -513 || result == -514 || result == -516;
}

int descriptor(uint64_t argument) { return static_cast<int>(argument); }

bool makes_descriptor(uint64_t fcntl_command) {
  return fcntl_command == F_DUPFD || fcntl_command == F_DUPFD_CLOEXEC;
}

// Calls that the library makes only for the program, from its own code.
bool is_for_program(const SystemCall& call) {
  return call.call == Call::kIoUringSetup || call.call == Call::kIoUringEnter ||
         call.call == Call::kIoUringRegister;
}

NameId name_of(const std::shared_ptr<OpenFile>& file) { return file ? file->file : kNoName; }

}  // namespace

// ---- recording ----------------------------------------------------------------------------------

RecordingWriter& CallFollower::writer_of(TracedProcess& process) {
  if (!process.writer) {
    const ProcessStat stat = read_stat(process.pid);
    process.image.start_time = stat.start_time;
    if (process.image.parent_pid == 0) process.image.parent_pid = stat.parent_pid;
    process.writer = std::make_unique<RecordingWriter>(session_, directory_, process.image);
    process.writer->record(process.pid, {.call = Call::kStart,
                                         .file = process.image.executable,
                                         .begin_ticks = process.image.start_ticks,
                                         .end_ticks = process.image.start_ticks});
  }
  return *process.writer;
}

void CallFollower::record(TracedThread& thread, const RecordedCall& call) {
  writer_of(*thread.process).record(thread.tid, call);
}

NameId CallFollower::intern(TracedProcess& process, std::string_view name) {
  const NameId id = names_.intern(name);
  if (id == kNoName && !name.empty() && process.writer) process.writer->count_lost_name();
  return id;
}

void CallFollower::count_foreign(TracedThread& thread) {
  if (!thread.process->recorded) return;
  writer_of(*thread.process).count_lost_event(now(), ENOSYS);
}

// ---- the first stop -----------------------------------------------------------------------------

bool CallFollower::begin(TracedThread& thread, const CallEntry& entry) {
  const SystemCall* system_call = find_system_call(entry.number);
  if (system_call == nullptr) return false;
  TracedProcess& process = *thread.process;
  bool ours = process.memory->is_own_code(entry.instruction) && !is_for_program(*system_call);
  if (system_call->effect == Effect::kForks) {
    thread.clone_flags = entry.arguments[0];
    if (entry.number == SYS_clone3) {
      thread.clone_flags = read_value<uint64_t>(thread.tid, entry.arguments[0]).value_or(0);
    }
#if defined(__x86_64__)
    if (entry.number == SYS_fork) thread.clone_flags = SIGCHLD;
    if (entry.number == SYS_vfork) thread.clone_flags = CLONE_VM | CLONE_VFORK | SIGCHLD;
#endif
    // The library's own tasks end without a signal; the vfork that it makes for the program does
    // not.
    ours = ours && (thread.clone_flags & CSIGNAL) == 0;
    thread.clone_is_ours = ours;
    thread.cloning = true;
    thread.clone_instruction = entry.instruction;
    thread.clone_stack = entry.stack;
  }
  if (ours || !process.recorded) return false;
  auto call = std::make_unique<PendingCall>();
  call->system_call = system_call;
  call->effect = system_call->effect;
  std::copy(std::begin(entry.arguments), std::end(entry.arguments), call->arguments);
  call->record.call = system_call->call;
  call->record.begin_ticks = now();
  drop_interrupted(thread, *call);
  if (!resolve(thread, *call)) return false;
  thread.pending = std::move(call);
  return true;
}

// A call interrupted by a signal either restarts now, and counts as one call, or has failed.
void CallFollower::drop_interrupted(TracedThread& thread, PendingCall& next) {
  if (!thread.interrupted) return;
  PendingCall& before = *thread.interrupted;
  if (before.system_call == next.system_call &&
      std::equal(std::begin(before.arguments), std::end(before.arguments), next.arguments)) {
    next.record.begin_ticks = before.record.begin_ticks;
  } else if (!before.ignored) {
    record(thread, before.record);
  }
  thread.interrupted.reset();
}

// Finds out what the call is about. False if its end is not needed.
bool CallFollower::resolve(TracedThread& thread, PendingCall& call) {
  const ArgumentPlaces& at = call.system_call->at;
  switch (call.effect) {
    case Effect::kForks:
      if ((thread.clone_flags & CLONE_THREAD) != 0) return false;
      if ((thread.clone_flags & CLONE_VFORK) != 0) call.record.call = Call::kVfork;
      return true;
    case Effect::kUnmaps:
    case Effect::kRemaps:
    case Effect::kOnMapping:
      return resolve_mapping(thread, call);
    case Effect::kMaps:
      if (descriptor(call.arguments[4]) < 0) return false;
      break;
    case Effect::kCloses:
    case Effect::kClosesRange:
      close_before(thread, call);
      return true;
    default:
      break;
  }
  if (at.fd >= 0) {
    call.file = file_behind(thread, descriptor(call.arguments[at.fd]));
    call.record.file = name_of(call.file);
    call.ignored = call.file && call.file->ignored;
  }
  if (at.other_fd >= 0) {
    call.other_file = file_behind(thread, descriptor(call.arguments[at.other_fd]));
    call.record.other_file = name_of(call.other_file);
    call.ignored = call.ignored && call.other_file && call.other_file->ignored;
  }
  if (at.path >= 0) resolve_paths(thread, call);
  // The end of an ignored call is not needed, unless the call changes tracked state.
  if (call.ignored && call.effect == Effect::kNone) return false;
  resolve_numbers(thread, call);
  resolve_flags(thread, call);
  if (call.effect == Effect::kExecutes) call.uses = uses_of_memory(thread);
  return true;
}

void CallFollower::resolve_paths(TracedThread& thread, PendingCall& call) {
  const ArgumentPlaces& at = call.system_call->at;
  const auto directory_at = [&](int8_t place) {
    return place < 0 ? AT_FDCWD : descriptor(call.arguments[place]);
  };
  const Location first = locate(thread, directory_at(at.directory), call.arguments[at.path]);
  call.record.file = first.name;
  if (first.is_descriptor && call.record.call == Call::kFstatat) call.record.call = Call::kFstat;
  if (first.is_descriptor && call.record.call == Call::kUtimensat) {
    call.record.call = Call::kFutimens;
  }
  call.ignored = names_.ignored(first.name);
  if (at.other_path >= 0) {
    call.record.other_file =
        locate(thread, directory_at(at.other_directory), call.arguments[at.other_path]).name;
    call.ignored = call.ignored && names_.ignored(call.record.other_file);
  }
}

void CallFollower::resolve_numbers(TracedThread& thread, PendingCall& call) {
  const ArgumentPlaces& at = call.system_call->at;
  const auto given = [&](int8_t place) { return call.arguments[place]; };
  const auto pointed_at = [&](int8_t place) {
    if (place < 0) return kNoOffset;
    return read_value<uint64_t>(thread.tid, given(place)).value_or(kNoOffset);
  };
  if (at.size >= 0) call.record.size = given(at.size);
  if (at.buffers >= 0) {
    // The count is an unsigned long, but the kernel accepts at most 1024.
    call.record.size = read_iovec_size(thread.tid, given(at.buffers), given(at.buffers + 1));
  }
  if (at.offset >= 0) call.record.offset = given(at.offset);
  if (at.offset_at >= 0) call.record.offset = pointed_at(at.offset_at);
  if (at.other_offset_at >= 0) call.record.other_offset = pointed_at(at.other_offset_at);
  if (at.detail >= 0) call.record.detail = static_cast<uint32_t>(given(at.detail));
  const auto number = call.system_call->number;
  if ((number == SYS_preadv2 || number == SYS_pwritev2) && call.record.offset == kNoOffset) {
    call.effect = Effect::kMoves;
  }
}

void CallFollower::resolve_flags(TracedThread& thread, PendingCall& call) {
  uint32_t& detail = call.record.detail;
  switch (call.system_call->number) {
    case SYS_openat2:
      detail = static_cast<uint32_t>(
          read_value<uint64_t>(thread.tid, call.arguments[2]).value_or(0));  // open_how::flags
      break;
#if defined(__x86_64__)
    case SYS_creat:
      detail = O_WRONLY | O_CREAT | O_TRUNC;
      break;
#endif
    case SYS_mmap:
      detail = static_cast<uint32_t>(call.arguments[2] | call.arguments[3] << 8);
      break;
    default:
      break;
  }
  if (call.effect == Effect::kOpens) detail &= ~kIrrelevantFlags;
  if (call.effect == Effect::kExecutes) detail = thread.process->pid;
}

bool CallFollower::resolve_mapping(TracedThread& thread, PendingCall& call) {
  const uint64_t begin = call.arguments[0];
  const uint64_t size = call.arguments[1];
  AddressSpace& memory = *thread.process->memory;
  const FileMapping* found = memory.find(begin, size);
  if (found == nullptr) return false;
  const FileMapping mapping = *found;
  call.record.file = mapping.file;
  call.record.offset = mapping.offset + (begin > mapping.begin ? begin - mapping.begin : 0);
  call.ignored = names_.ignored(mapping.file);
  resolve_numbers(thread, call);
  if (call.effect == Effect::kUnmaps) {
    for (const FileMapping& piece : memory.remove(begin, size)) {
      if (!call.ignored) record(thread, use_of(thread, piece));
    }
  }
  return !call.ignored || call.effect == Effect::kRemaps;
}

// Before the call, because afterwards another thread may already have opened a file under the
// number. Does not ask the kernel: programs close thousands of numbers that were never open.
void CallFollower::close_before(TracedThread& thread, PendingCall& call) {
  auto& table = thread.process->files;
  if (call.effect == Effect::kCloses) {
    const auto found = table->files.find(descriptor(call.arguments[0]));
    if (found == table->files.end()) {
      call.ignored = names_.has_include();
      return;
    }
    call.record.file = found->second->file;
    call.ignored = found->second->ignored;
    table->files.erase(found);
    return;
  }
  const auto first = static_cast<uint32_t>(call.arguments[0]);
  const auto last = static_cast<uint32_t>(call.arguments[1]);
  const auto flags = static_cast<uint32_t>(call.arguments[2]);
  call.record.offset = first;
  if ((flags & CLOSE_RANGE_UNSHARE) != 0) table = std::make_shared<FileTable>(*table);
  if ((flags & CLOSE_RANGE_CLOEXEC) != 0) return;
  std::erase_if(table->files, [&](const auto& entry) {
    const auto fd = static_cast<uint32_t>(entry.first);
    return fd >= first && fd <= last;
  });
}

// ---- which file ---------------------------------------------------------------------------------

const std::string& CallFollower::working_directory(TracedThread& thread) {
  std::string& path = thread.process->directory->path;
  if (path.empty()) path = read_link(thread.tid, "cwd");
  return path;
}

CallFollower::Location CallFollower::locate(TracedThread& thread, int directory, uint64_t path) {
  const std::optional<std::string> text = path == 0 ? std::string() : read_text(thread.tid, path);
  if (!text) return {};  // an invalid address: the call will fail
  if (text->empty()) {
    if (directory == AT_FDCWD) return {};
    return {name_of(file_behind(thread, directory)), true};
  }
  hook::PathBuffer buffer;
  if ((*text)[0] == '/') {
    hook::normalise_path({}, *text, buffer);
  } else if (directory == AT_FDCWD) {
    hook::normalise_path(working_directory(thread), *text, buffer);
  } else {
    const std::shared_ptr<OpenFile> base = file_behind(thread, directory);
    hook::normalise_path(base ? names_.text(base->file) : working_directory(thread), *text, buffer);
  }
  return {intern(*thread.process, buffer.view())};
}

std::shared_ptr<OpenFile> CallFollower::file_behind(TracedThread& thread, int fd) {
  if (fd < 0) return nullptr;
  auto& files = thread.process->files->files;
  if (const auto found = files.find(fd); found != files.end()) return found->second;
  const std::string link = read_descriptor_link(thread.tid, fd);
  if (link.empty()) return nullptr;
  auto file = std::make_shared<OpenFile>();
  file->file = intern(*thread.process, name_of_link(link));
  file->positioned = link.starts_with('/');
  file->ignored = names_.ignored(file->file);
  files[fd] = file;
  return file;
}

// ---- the second stop ----------------------------------------------------------------------------

void CallFollower::finish(TracedThread& thread, int64_t result) {
  if (!thread.pending) return;
  const std::unique_ptr<PendingCall> owned = std::move(thread.pending);
  PendingCall& call = *owned;
  call.record.end_ticks = now();
  call.record.result = result < 0 ? -1 : result;
  call.record.error = static_cast<uint16_t>(result < 0 ? -result : 0);
  if (is_interruption(result)) {
    call.record.error = EINTR;
    thread.interrupted = std::make_unique<PendingCall>(call);
    return;
  }
  apply(thread, call, result);
  if (call.system_call->at.attributes >= 0 && result == 0 && !call.ignored) {
    const uint64_t address = call.arguments[call.system_call->at.attributes];
    call.record.size = read_file_size(thread.tid, address, call.record.call == Call::kStatx);
  }
  if (call.record.call != Call::kEmpty && !call.ignored) record(thread, call.record);
}

void CallFollower::apply(TracedThread& thread, PendingCall& call, int64_t result) {
  // Addresses may be negative as signed numbers. Only the kernel's error range means failure.
  const bool failed = result < 0 && result > -4096;
  TracedProcess& process = *thread.process;
  switch (call.effect) {
    case Effect::kOpens:
    case Effect::kOpensUnknown:
    case Effect::kDuplicates:
      if (!failed) apply_descriptor(thread, call, static_cast<int>(result));
      break;
    case Effect::kMoves:
    case Effect::kSeeks:
    case Effect::kTransfers:
      apply_position(thread, call, result);
      break;
    case Effect::kMaps:
      call.record.result = failed ? -1 : 0;
      if (!failed) apply_map(thread, call, static_cast<uint64_t>(result));
      break;
    case Effect::kRemaps:
      call.record.result = failed ? -1 : 0;
      if (!failed) apply_remap(thread, call, static_cast<uint64_t>(result));
      break;
    case Effect::kChangesDirectory:
      if (!failed) process.directory->path.clear();
      break;
    case Effect::kUnshares:
      if (!failed && (call.arguments[0] & CLONE_FILES) != 0) {
        process.files = std::make_shared<FileTable>(*process.files);
      }
      if (!failed && (call.arguments[0] & CLONE_FS) != 0) {
        process.directory = std::make_shared<WorkingDirectory>(*process.directory);
      }
      break;
    default:
      break;
  }
}

// The call made a descriptor.
void CallFollower::apply_descriptor(TracedThread& thread, PendingCall& call, int fd) {
  auto& files = thread.process->files->files;
  RecordedCall& record = call.record;
  if (call.effect == Effect::kOpens) {
    files[fd] = std::make_shared<OpenFile>(OpenFile{.file = record.file,
                                                    .counted = (record.detail & O_APPEND) == 0,
                                                    .positioned = true,
                                                    .ignored = call.ignored});
  } else if (call.effect == Effect::kOpensUnknown) {
    files.erase(fd);
    record.file = name_of(file_behind(thread, fd));
  } else if (record.call != Call::kFcntl || makes_descriptor(record.detail)) {
    files.erase(fd);
    if (call.file) files[fd] = call.file;
  }
}

// The call used or set file positions.
void CallFollower::apply_position(TracedThread& thread, PendingCall& call, int64_t result) {
  const ArgumentPlaces& at = call.system_call->at;
  RecordedCall& record = call.record;
  if (call.effect == Effect::kSeeks) {
    if (result < 0) return;
    record.offset = static_cast<uint64_t>(result);
    if (call.file) call.file->position = record.offset;
    return;
  }
  if (at.offset_at < 0 || call.arguments[at.offset_at] == 0) {
    record.offset = moved_from(thread, call.file.get(), descriptor(call.arguments[at.fd]), result);
  }
  if (at.other_fd >= 0 && (at.other_offset_at < 0 || call.arguments[at.other_offset_at] == 0)) {
    record.other_offset =
        moved_from(thread, call.other_file.get(), descriptor(call.arguments[at.other_fd]), result);
  }
}

void CallFollower::apply_map(TracedThread& thread, PendingCall& call, uint64_t address) {
  AddressSpace& memory = *thread.process->memory;
  memory.add({address, call.arguments[1], call.record.offset, call.record.file});
  if ((call.arguments[2] & PROT_EXEC) == 0) return;
  const std::string_view name = names_.text(call.record.file);
  if (std::find(own_libraries_.begin(), own_libraries_.end(), name) != own_libraries_.end()) {
    memory.add_own_code(address, call.arguments[1]);
  }
}

void CallFollower::apply_remap(TracedThread& thread, PendingCall& call, uint64_t address) {
  AddressSpace& memory = *thread.process->memory;
  memory.remove(call.arguments[0], call.arguments[1]);
  memory.add({address, call.arguments[2], call.record.offset, call.record.file});
}

// Where a call at the file's position began. Updates the position.
uint64_t CallFollower::moved_from(TracedThread& thread, OpenFile* file, int fd, int64_t moved) {
  if (file == nullptr || !file->positioned) return kNoOffset;
  const uint64_t bytes = moved > 0 ? static_cast<uint64_t>(moved) : 0;
  if (file->counted) {
    file->position += bytes;
    return file->position - bytes;
  }
  if (file->ignored) return kNoOffset;
  const std::optional<uint64_t> position = read_position(thread.tid, fd);
  return position && *position >= bytes ? *position - bytes : kNoOffset;
}

RecordedCall CallFollower::use_of(TracedThread& thread, const FileMapping& mapping) {
  const uint64_t at = now();
  bool estimated = false;
  const uint64_t present = read_present_bytes(thread.tid, mapping.begin, mapping.size, &estimated);
  return {.call = Call::kMapped,
          .file = mapping.file,
          .offset = mapping.offset,
          .size = mapping.size,
          .flags = estimated ? wire::kFlagEstimate : uint8_t{0},
          .begin_ticks = at,
          .end_ticks = at,
          .result = static_cast<int64_t>(present)};
}

std::vector<RecordedCall> CallFollower::uses_of_memory(TracedThread& thread) {
  std::vector<RecordedCall> uses;
  // Shared memory stays: that of a vfork child belongs to its parent.
  if (thread.process->memory.use_count() > 1) return uses;
  for (const FileMapping& mapping : thread.process->memory->all()) {
    if (names_.ignored(mapping.file)) continue;
    // Small mappings can only be guessed, and every program has a hundred: its libraries.
    if (mapping.size > kGuessedBytes) uses.push_back(use_of(thread, mapping));
  }
  return uses;
}

// ---- the life of processes ----------------------------------------------------------------------

void CallFollower::executed(TracedThread& thread) {
  TracedProcess& process = *thread.process;
  if (thread.pending) {
    for (const RecordedCall& use : thread.pending->uses) record(thread, use);
    thread.pending->record.end_ticks = now();
    if (!thread.pending->ignored) record(thread, thread.pending->record);
    thread.pending.reset();
  }
  thread.interrupted.reset();
  // Does not rely on the close-on-exec flag, which many calls set: checks which descriptors are
  // left.
  const std::vector<int> open = list_descriptors(process.pid);
  const std::unordered_set<int> left(open.begin(), open.end());
  process.files = std::make_shared<FileTable>(*process.files);
  std::erase_if(process.files->files,
                [&](const auto& entry) { return !left.contains(entry.first); });
  process.directory = std::make_shared<WorkingDirectory>(*process.directory);
  process.memory = std::make_shared<AddressSpace>();
  process.writer.reset();
  process.recorded = true;
  const std::vector<std::string> environment = read_environment(process.pid);
  std::vector<char*> pointers;
  for (const std::string& variable : environment) {
    pointers.push_back(const_cast<char*>(variable.c_str()));
  }
  pointers.push_back(nullptr);
  const RankInfo rank = read_rank(pointers.data());
  process.image = {.pid = process.pid,
                   .origin = wire::ProcessOrigin::kProgram,
                   .rank = rank.rank,
                   .world_size = rank.world_size,
                   .rank_origin = rank.origin,
                   .start_ticks = now(),
                   .executable = names_.intern(read_link(process.pid, "exe")),
                   .command_line = names_.intern(read_command_line(process.pid)),
                   .working_directory = names_.intern(working_directory(thread))};
  writer_of(process);
}

void CallFollower::forked(TracedProcess& child, const TracedProcess& parent, uint64_t flags) {
  child.recorded = parent.recorded;
  child.image = parent.image;
  child.image.pid = child.pid;
  child.image.parent_pid = parent.pid;
  child.image.origin = wire::ProcessOrigin::kFork;
  child.image.start_ticks = now();
  child.files =
      (flags & CLONE_FILES) != 0 ? parent.files : std::make_shared<FileTable>(*parent.files);
  child.directory = (flags & CLONE_FS) != 0 ? parent.directory
                                            : std::make_shared<WorkingDirectory>(*parent.directory);
  child.memory =
      (flags & CLONE_VM) != 0 ? parent.memory : std::make_shared<AddressSpace>(*parent.memory);
}

void CallFollower::started(TracedProcess& child) {
  if (child.recorded) writer_of(child);
}

void CallFollower::ending(TracedThread& thread) {
  TracedProcess& process = *thread.process;
  if (!process.recorded || thread.tid != process.pid) return;
  const ProcessStat stat = read_stat(process.pid);
  process.end.major_faults = stat.major_faults;
  process.end.minor_faults = stat.minor_faults;
  writer_of(process);
  for (const RecordedCall& use : uses_of_memory(thread)) record(thread, use);
}

void CallFollower::ended(TracedProcess& process, int status) {
  if (!process.recorded || !process.writer) return;
  const bool exited = WIFEXITED(status);
  process.end.exited = exited ? 1 : 2;
  process.end.code = exited ? WEXITSTATUS(status) : WTERMSIG(status);
  const uint64_t at = now();
  if (exited) {
    process.writer->record(
        process.pid,
        {.call = Call::kExit, .begin_ticks = at, .end_ticks = at, .result = process.end.code});
  }
  process.writer->end(process.end);
}

}  // namespace millrace::trace
