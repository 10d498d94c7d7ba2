// Assigns open files and names to the steps of a plan. See plan.h for the rules.
#include <errno.h>
#include <fcntl.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "replay/plan.h"

namespace millrace::replay {
namespace {

constexpr uint32_t kNoProcess = ~uint32_t{0};
constexpr int kAncestorsMax = 8;

bool is_write_only(uint32_t flags) { return (flags & O_ACCMODE) == O_WRONLY; }
bool is_read_only(uint32_t flags) { return (flags & O_ACCMODE) == O_RDONLY; }

uint32_t with_both_modes(uint32_t flags) {
  return (flags & ~static_cast<uint32_t>(O_ACCMODE)) | O_RDWR;
}

// A file that is open at the current point of the plan.
struct OpenFile {
  uint32_t handle = 0;
  uint32_t thread = 0;
  uint32_t number = 0;  // its descriptor in the recorded process; 0: unknown
  uint32_t duplicates = 0;
  uint64_t position = 0;  // kNoOffset: unknown
};

class Resolver {
 public:
  Resolver(const trace::Trace& trace, Plan& plan) : trace_(trace), plan_(plan) {
    find_ancestors();
    for (uint32_t path = 0; path < plan_.paths.size(); ++path) {
      plan_.paths[path].parent = plan_.names.text(path) == "/"
                                     ? kNoPath
                                     : plan_.names.find(parent_of(plan_.names.text(path)));
    }
  }

  void run() {
    find_lower_levels();
    for (Step& step : plan_.steps) resolve(step);
  }

 private:
  using Key = uint64_t;
  static Key key(uint32_t process, uint32_t path) { return uint64_t{process} << 32 | path; }

  uint32_t process_of(const Step& step) const {
    const auto& threads = trace_.threads();
    return step.thread < threads.size() ? static_cast<uint32_t>(threads[step.thread].process)
                                        : kNoProcess;
  }

  // The process from which each one inherits descriptors: itself before exec, or its parent.
  void find_ancestors() {
    const auto& processes = trace_.processes();
    std::unordered_map<Key, std::vector<uint32_t>> by_pid;
    for (uint32_t index = 0; index < processes.size(); ++index) {
      by_pid[key(processes[index].session, processes[index].pid)].push_back(index);
    }
    const auto latest = [&](uint32_t child, uint32_t pid) {
      uint32_t best = kNoProcess;
      for (const uint32_t other : by_pid[key(processes[child].session, pid)]) {
        if (other == child || processes[other].start_ns > processes[child].start_ns) continue;
        if (best == kNoProcess || processes[other].start_ns > processes[best].start_ns) {
          best = other;
        }
      }
      return best;
    };
    for (uint32_t index = 0; index < processes.size(); ++index) {
      const uint32_t itself = latest(index, processes[index].pid);
      ancestor_.push_back(itself != kNoProcess ? itself
                                               : latest(index, processes[index].parent_pid));
    }
  }

  // If fread contains a read of the same file, the trace has the I/O of that stream twice. MPI-IO
  // is recorded twice if the process has POSIX calls on the file at all: they may be made by other
  // threads of the library.
  void find_lower_levels() {
    struct Upper {
      uint64_t end_ns = 0;
      uint32_t path = kNoPath;
    };
    std::vector<Upper> uppers(trace_.threads().size());
    for (const Step& step : plan_.steps) {
      const Action action = action_of(step.call);
      if (step.thread >= uppers.size()) continue;
      Upper& upper = uppers[step.thread];
      const wire::Level level = wire::level_of(step.call);
      if (level == wire::Level::kStdio) {
        upper = {step.begin_ns + static_cast<uint64_t>(step.duration_ns), step.target};
      } else if (level == wire::Level::kPosix && moves_bytes(action)) {
        const Key place = key(process_of(step), step.target);
        has_posix_data_.insert(place);
        if (upper.path == step.target && step.begin_ns <= upper.end_ns) {
          has_posix_below_stdio_.insert(place);
        }
      }
    }
  }

  bool is_recorded_below(const Step& step) const {
    const wire::Level level = wire::level_of(step.call);
    const Key place = key(process_of(step), step.target);
    if (level == wire::Level::kStdio) return has_posix_below_stdio_.contains(place);
    return level == wire::Level::kMpiio && has_posix_data_.contains(place);
  }

  void drop(Step& step, uint64_t& counter) {
    step.flags |= kDropped;
    ++counter;
  }

  void resolve(Step& step) {
    if (is_recorded_below(step)) return drop(step, plan_.skipped.covered);
    const Action action = action_of(step.call);
    if (action == Action::kDuplicate) return duplicate(step);
    if (closes(action)) return close_file(step, action);
    plan_.paths[step.target].is_used = true;
    if (opens(action)) return open_file(step, action);
    if (action == Action::kTransfer) return use_two_files(step);
    if (is_on_name(action)) return use_name(step, action);
    use_file(step, action, step.target, step.offset);
  }

  // ---- names --------------------------------------------------------------------------------

  static void found(Path& path) {
    if (path.now != Existence::kPresent && !path.is_created) path.before = Existence::kPresent;
    path.now = Existence::kPresent;
  }
  static void missing(Path& path) {
    if (path.now != Existence::kUnknown) return;
    path.now = path.before = Existence::kAbsent;
  }
  static void created(Path& path) {
    if (path.before == Existence::kUnknown) path.before = Existence::kAbsent;
    path.now = Existence::kPresent;
    path.is_created = true;
    path.is_modified = true;
  }
  static void removed(Path& path) {
    found(path);
    path.now = Existence::kAbsent;
    path.is_modified = true;
  }
  // The file has at least this size, and the trace did not write it that far.
  static void has_size(Path& path, uint64_t size_bytes) {
    if (size_bytes == 0 || size_bytes <= path.written_end) return;
    if (path.is_created && !path.may_be_older) return;
    if (path.may_be_older) path.before = Existence::kPresent;
    path.size_bytes = std::max(path.size_bytes, size_bytes);
  }
  // At `offset`; kNoOffset: after what was written before. What is written to a directory goes to a
  // file without a name (O_TMPFILE).
  static void written(Path& path, uint64_t offset, uint64_t size_bytes) {
    if (offset == wire::kNoOffset) offset = path.written_end;
    path.written_end = std::max(path.written_end, add_saturating(offset, size_bytes));
    path.is_modified = path.is_modified || !path.is_directory;
  }

  // What is removed while it is open takes its room until it is closed. A trace may remove a name
  // again and again.
  void keep_open_bytes(Path& path) {
    if (path.open_count == 0) return;
    path.has_unnamed = true;
    add_unnamed(path, path.written_end);
  }
  void add_unnamed(Path& path, uint64_t size_bytes) {
    path.unnamed_bytes = add_saturating(path.unnamed_bytes, size_bytes);
    unnamed_bytes_ = add_saturating(unnamed_bytes_, size_bytes);
    plan_.unnamed_peak_bytes = std::max(plan_.unnamed_peak_bytes, unnamed_bytes_);
  }
  void opened(Path& path) { ++path.open_count; }
  void closed(Path& path) {
    if (--path.open_count > 0) return;
    unnamed_bytes_ -= std::min(unnamed_bytes_, path.unnamed_bytes);
    path.unnamed_bytes = 0;
    path.has_unnamed = false;
  }

  // How many calls on the path must come before this one.
  static uint64_t order(Path& path, bool changes) {
    const uint32_t before = changes ? path.calls : path.changes;
    ++path.calls;
    if (changes) ++path.changes;
    return before;
  }

  void order_name(Step& step, uint32_t path, bool changes) {
    step.offset = order(plan_.paths[path], changes);
    if (changes) step.flags |= kChangesName;
    const uint32_t parent = plan_.paths[path].parent;
    if (parent == kNoPath || step.has(kHasOther)) return;
    step.flags |= kHasOther;
    step.size = parent;
    step.offset |= order(plan_.paths[parent], false) << 32;
  }

  void use_name(Step& step, Action action) {
    Path& path = plan_.paths[step.target];
    if (step.has(kFailedBefore)) {
      missing(path);
      return order_two_names(step, false);
    }
    switch (action) {
      case Action::kStat:
        found(path);
        has_size(path, step.size_bytes());
        break;
      case Action::kTruncateName:
        found(path);
        written(path, step.offset, 0);
        return;  // its offset is the new size: nothing waits for it
      case Action::kScanDirectory:
        found(path);
        path.is_directory = true;
        break;
      case Action::kMakeDirectory:
        created(path);
        path.is_directory = true;
        break;
      case Action::kRemoveDirectory:
        removed(path);
        path.is_directory = true;
        break;
      case Action::kUnlink:
        removed(path);
        keep_open_bytes(path);
        break;
      case Action::kRename:
      case Action::kLink:
        use_two_names(step, action);
        break;
      default:
        break;
    }
    order_two_names(step, action != Action::kStat && action != Action::kScanDirectory);
  }

  void use_two_names(Step& step, Action action) {
    Path& from = plan_.paths[step.target];
    Path& to = plan_.paths[step.size];
    to.is_used = true;
    found(from);
    if (to.now == Existence::kPresent) {
      to.is_modified = true;
      if (action == Action::kRename && &to != &from) keep_open_bytes(to);
    } else {
      created(to);
    }
    to.written_end = std::max({to.written_end, from.written_end, from.size_bytes});
    to.is_directory = to.is_directory || from.is_directory;
    if (action != Action::kRename) return;
    removed(from);
    from.written_end = 0;  // the bytes now count for the new name
  }

  void order_two_names(Step& step, bool changes) {
    if (!step.has(kHasOther)) return order_name(step, step.target, changes);
    step.offset = order(plan_.paths[step.target], changes);
    if (step.size == step.target) {
      step.flags &= static_cast<uint16_t>(~kHasOther);  // a rename to itself
    } else {
      step.offset |= order(plan_.paths[step.size], changes) << 32;
    }
    if (changes) step.flags |= kChangesName | kChangesOther;
  }

  // ---- open files ---------------------------------------------------------------------------

  uint32_t add_handle(uint32_t path, HandleKind kind, uint32_t flags) {
    plan_.handles.push_back({.path = path, .flags = flags, .kind = kind});
    plan_.open_peak = std::max(plan_.open_peak, ++open_count_);
    return static_cast<uint32_t>(plan_.handles.size() - 1);
  }

  void open_file(Step& step, Action action) {
    const uint32_t flags = open_flags(step.call, step.result);
    const uint32_t index = step.target;
    const uint32_t number = step.size;
    Path& path = plan_.paths[index];
    const bool creates = note_open(step, path, flags, action);
    step.target = add_handle(index, kind_of(action), flags);
    order_name(step, index, creates);
    if (step.has(kFailedBefore)) {
      --open_count_;
      return;
    }
    const uint32_t process = process_of(step);
    forget_number(process, number);
    opened(path);
    if ((flags & O_TMPFILE) == O_TMPFILE) path.has_unnamed = true;
    open_[key(process, index)].push_back(
        {.handle = step.target,
         .thread = step.thread,
         .number = number,
         .position = (flags & O_APPEND) != 0 ? wire::kNoOffset : 0});
    if (number != 0) numbers_[key(process, number)] = {index, step.target};
  }

  // Whether the call creates the file.
  bool note_open(const Step& step, Path& path, uint32_t flags, Action action) {
    if (step.has(kFailedBefore)) {
      missing(path);
      return false;
    }
    const bool creates = (flags & O_CREAT) != 0 && path.now != Existence::kPresent;
    const bool truncates = (flags & O_TRUNC) != 0;
    if (creates) {
      path.may_be_older = path.now == Existence::kUnknown && (flags & O_EXCL) == 0 && !truncates;
      created(path);
    } else {
      found(path);
    }
    if (truncates) path.is_modified = true;
    const bool is_directory = action == Action::kOpenDirectory || (flags & O_DIRECTORY) != 0;
    if (is_directory) path.is_directory = true;
    return creates;
  }

  // A descriptor that is opened again was closed, even if the trace lost the close.
  void forget_number(uint32_t process, uint32_t number) {
    if (number == 0) return;
    const auto known = numbers_.find(key(process, number));
    if (known == numbers_.end()) return;
    const auto [path, handle] = known->second;
    numbers_.erase(known);
    erase(process, path, handle);
  }

  void erase(uint32_t process, uint32_t path, uint32_t handle) {
    const auto files = open_.find(key(process, path));
    if (files == open_.end()) return;
    const size_t before = files->second.size();
    std::erase_if(files->second, [=](const OpenFile& file) { return file.handle == handle; });
    if (files->second.size() < before) {
      --open_count_;
      closed(plan_.paths[path]);
    }
    if (files->second.empty()) open_.erase(files);
  }

  struct Wanted {
    uint32_t path;
    uint64_t offset;
    HandleKind kind;
    bool to_read;
    bool to_write;
  };

  // How well an open file fits a call; negative: not at all.
  int fitness(const OpenFile& file, const Step& step, const Wanted& wanted) const {
    const Handle& handle = plan_.handles[file.handle];
    if (handle.kind != wanted.kind && wanted.kind != HandleKind::kDescriptor) return -1;
    const bool wrong_mode = (wanted.to_read && is_write_only(handle.flags)) ||
                            (wanted.to_write && is_read_only(handle.flags));
    const bool at_position = file.position == wanted.offset && wanted.offset != wire::kNoOffset;
    return (wrong_mode ? 0 : 16) + (handle.kind == wanted.kind ? 8 : 0) + (at_position ? 4 : 0) +
           (file.thread == step.thread ? 2 : 0);
  }

  struct Found {
    OpenFile* file = nullptr;
    uint32_t process = kNoProcess;
  };
  Found find_file(const Step& step, const Wanted& wanted) {
    uint32_t process = process_of(step);
    for (int depth = 0; depth < kAncestorsMax && process < ancestor_.size(); ++depth) {
      const auto files = open_.find(key(process, wanted.path));
      if (files != open_.end()) {
        OpenFile* best = nullptr;
        int best_fitness = 0;
        for (OpenFile& file : files->second) {
          const int fits = fitness(file, step, wanted);
          if (fits < best_fitness) continue;  // on a tie, the newest
          best = &file;
          best_fitness = fits;
        }
        if (best != nullptr) return {best, process};
      }
      process = ancestor_[process];
    }
    return {};
  }

  // Opens a file for a call whose open is not in the plan.
  OpenFile* imply_file(const Step& step, const Wanted& wanted) {
    Path& path = plan_.paths[wanted.path];
    uint32_t flags = wanted.to_write ? O_RDWR | O_CREAT : O_RDONLY;
    if (wanted.kind == HandleKind::kDirectory) {
      flags |= O_DIRECTORY;
      path.is_directory = true;
    }
    if (wanted.to_write && path.now != Existence::kPresent) {
      path.may_be_older = path.now == Existence::kUnknown;
      created(path);
    } else {
      found(path);
    }
    const uint32_t handle = add_handle(wanted.path, wanted.kind, flags);
    plan_.handles[handle].is_implied = true;
    opened(path);
    auto& files = open_[key(process_of(step), wanted.path)];
    files.push_back({.handle = handle, .thread = step.thread});
    return &files.back();
  }

  uint32_t use_file(Step& step, Action action, uint32_t path, uint64_t offset) {
    const Wanted wanted{
        .path = path,
        .offset = offset,
        .kind = kind_of(action),
        .to_read = reads(action),
        .to_write = writes(action) || action == Action::kTruncate || action == Action::kAllocate};
    OpenFile* file = find_file(step, wanted).file;
    if (file == nullptr) file = imply_file(step, wanted);
    Handle& handle = plan_.handles[file->handle];
    if (!step.has(kFailedBefore)) {
      // The trace says that it worked, so the mode must have allowed it: DFTracer has no flags.
      const bool wrong_mode = (wanted.to_read && is_write_only(handle.flags)) ||
                              (wanted.to_write && is_read_only(handle.flags));
      if (wrong_mode) handle.flags = with_both_modes(handle.flags);
      note_use(step, action, plan_.paths[path], place_of(action, *file, offset));
    }
    if (handle.use_count++ == 0) handle.user = step.thread;
    if (handle.user != step.thread) handle.is_shared = true;
    step.target = file->handle;
    move_position(step, action, *file, offset);
    return file->handle;
  }

  void note_use(const Step& step, Action action, Path& path, uint64_t offset) {
    const uint64_t start = offset == wire::kNoOffset ? 0 : offset;
    if (path.has_unnamed && writes(action)) add_unnamed(path, step.result_bytes());
    if (path.has_unnamed && action == Action::kAllocate) add_unnamed(path, step.size_bytes());
    if (action == Action::kStatOpen) return has_size(path, step.size_bytes());
    if (action == Action::kReadMapped) {
      // A mapping may be longer than its file, by less than a page if stat was not recorded.
      if (path.size_bytes == 0) has_size(path, add_saturating(start, step.size_bytes()));
      return;
    }
    if (reads(action)) return has_size(path, add_saturating(start, step.result_bytes()));
    if (writes(action)) return written(path, offset, step.result_bytes());
    if (action == Action::kTruncate) return written(path, start, 0);
    if (action == Action::kAllocate) return written(path, start, step.size_bytes());
    if (action == Action::kSeek && step.result == SEEK_END) has_size(path, start);
    if (kind_of(action) == HandleKind::kDirectory || action == Action::kReadEntries) {
      path.is_directory = true;
    }
  }

  static bool is_at_position(Action action) {
    return action == Action::kRead || action == Action::kWrite || action == Action::kReadStream ||
           action == Action::kWriteStream;
  }

  // Where a call reads or writes. DFTracer records no offset for calls at the position.
  static uint64_t place_of(Action action, const OpenFile& file, uint64_t offset) {
    return offset == wire::kNoOffset && is_at_position(action) ? file.position : offset;
  }

  static void move_position(Step& step, Action action, OpenFile& file, uint64_t offset) {
    const uint64_t place = place_of(action, file, offset);
    if (is_at_position(action)) {
      if (place == file.position) step.flags |= kAtPosition;
      file.position = place == wire::kNoOffset ? place : add_saturating(place, step.result_bytes());
    } else if (action == Action::kSeek && offset != wire::kNoOffset) {
      file.position = offset;
    }
  }

  void use_two_files(Step& step) {
    Transfer& transfer = plan_.transfers[step.offset];
    const uint32_t to = transfer.to;
    plan_.paths[to].is_used = true;
    transfer.to = use_file(step, Action::kWriteAt, to, transfer.to_offset);
    transfer.from = use_file(step, Action::kReadAt, transfer.from, transfer.from_offset);
  }

  void duplicate(Step& step) {
    const Wanted wanted{step.target, wire::kNoOffset, HandleKind::kDescriptor, false, false};
    const Found found_file = find_file(step, wanted);
    if (found_file.file != nullptr && !step.has(kFailedBefore)) ++found_file.file->duplicates;
    drop(step, plan_.skipped.covered);
  }

  void close_file(Step& step, Action action) {
    const Wanted wanted{step.target, wire::kNoOffset, kind_of(action), false, false};
    const Found found_file = find_file(step, wanted);
    // A child that closes what it inherited leaves it open for its parent.
    const bool is_own = found_file.process == process_of(step);
    if (found_file.file == nullptr || !is_own || step.has(kFailedBefore)) {
      return drop(step, plan_.skipped.unmatched);
    }
    if (found_file.file->duplicates > 0) {
      --found_file.file->duplicates;
      return drop(step, plan_.skipped.covered);
    }
    const OpenFile file = *found_file.file;
    Handle& handle = plan_.handles[file.handle];
    if (handle.is_implied || handle.kind != kind_of(action)) {
      // Nothing of the plan opened it as this kind, so the replay closes it itself.
      drop(step, plan_.skipped.unmatched);
    } else {
      handle.is_closed = true;
    }
    if (file.number != 0) numbers_.erase(key(found_file.process, file.number));
    erase(found_file.process, step.target, file.handle);
    step.target = file.handle;
  }

  const trace::Trace& trace_;
  Plan& plan_;
  std::vector<uint32_t> ancestor_;                                  // by process
  std::unordered_set<Key> has_posix_data_, has_posix_below_stdio_;  // by process and path
  std::unordered_map<Key, std::vector<OpenFile>> open_;             // by process and path
  struct Numbered {
    uint32_t path;
    uint32_t handle;
  };
  std::unordered_map<Key, Numbered> numbers_;  // by process and descriptor
  size_t open_count_ = 0;
  uint64_t unnamed_bytes_ = 0;  // of files that are removed, but still open
};

}  // namespace

void resolve_steps(const trace::Trace& trace, Plan& plan) { Resolver(trace, plan).run(); }

}  // namespace millrace::replay
