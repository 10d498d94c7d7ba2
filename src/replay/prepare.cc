#include "replay/prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <unordered_map>

#include "base/concurrency/mutex.h"
#include "base/concurrency/thread_pool.h"
#include "base/io/file.h"
#include "base/numbers/counter_random.h"
#include "base/system/cpus.h"
#include "base/system/progress.h"
#include "base/text/text.h"
#include "base/text/units.h"

namespace millrace::replay {
namespace {

constexpr size_t kFillBytes = size_t{1} << 20;
constexpr size_t kFillPageBytes = 4096;
constexpr size_t kFilesPerTask = 64;

bool is_needed(const Path& path) { return path.is_used && path.before == Existence::kPresent; }

bool is_stopped(const PrepareOptions& options) {
  return options.stop != nullptr && options.stop->load(std::memory_order_relaxed);
}

// The directory of a name below the folder.
std::string_view above_of(std::string_view name) {
  const size_t slash = name.rfind('/');
  return slash == std::string_view::npos ? "" : name.substr(0, slash);
}

class Preparation {
 public:
  Preparation(const Plan& plan, const PrepareOptions& options) : plan_(plan), options_(options) {}

  Result<Prepared> run() {
    ASSIGN_OR_RETURN(prepared_.folder,
                     Folder::open({.path = options_.onto, .only_reads = options_.only_existing}));
    prepared_.existed.resize(plan_.paths.size());
    is_directory_there_[""] = true;
    Status status = check();
    if (status.ok() && folder().may_create()) status = make();
    if (status.ok()) status = drop_caches();
    if (status.ok()) return std::move(prepared_);
    clean(plan_, prepared_, Keep::kNothing);
    return std::move(status).error();
  }

 private:
  Folder& folder() const { return *prepared_.folder; }
  std::string shown(std::string_view name) const { return printable(folder().place_of(name)); }

  Status check() {
    if (!folder().may_create()) RETURN_IF_ERROR(check_only_reads());
    for (uint32_t path = 0; path < plan_.paths.size(); ++path) {
      if (plan_.paths[path].is_used) RETURN_IF_ERROR(look_at(path));
    }
    return folder().may_create() ? check_space() : check_all_exist();
  }

  Status make() {
    RETURN_IF_ERROR(folder().mark());
    for (uint32_t path = 0; path < plan_.paths.size(); ++path) {
      RETURN_IF_ERROR(make_directories_of(path));
    }
    return make_files();
  }

  Status check_only_reads() const {
    for (uint32_t index = 0; index < plan_.paths.size(); ++index) {
      const Path& path = plan_.paths[index];
      if (!path.is_used || (!path.is_created && !path.is_modified)) continue;
      const std::string name = printable(plan_.names.text(index));
      if (options_.only_existing) {
        return fail(Errc::kInvalidArgument,
                    "the trace creates or modifies {}; without --existing, it is replayed in a "
                    "folder of its own",
                    name);
      }
      return fail(Errc::kInvalidArgument,
                  "{} was not made by a replay, so it is only read, but the trace creates or "
                  "modifies {}; use a new folder, or select what only reads (--root, --function)",
                  shown(""), name);
    }
    return {};
  }

  Status check_all_exist() const {
    for (uint32_t index = 0; index < plan_.paths.size(); ++index) {
      if (!is_needed(plan_.paths[index]) || prepared_.existed[index]) continue;
      return fail(Errc::kNotFound, "{}: the trace reads it, but it does not exist{}",
                  shown(plan_.relative(index)),
                  options_.only_existing ? ""
                                         : ", and files are created only in folders that were made "
                                           "by a replay; use a new folder");
    }
    return {};
  }

  // What a name below the folder is; nothing if it does not exist.
  std::optional<struct stat> look(std::string_view name) const {
    const Folder::Name found = folder().find(name);
    struct stat status{};
    if (found.error != 0 ||
        fstatat(found.fd(), found.last.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      return std::nullopt;
    }
    return status;
  }

  // Whether a directory on the way to a file exists. Fails if it is something else.
  Result<bool> is_there(std::string_view directory) {
    const auto known = is_directory_there_.find(std::string(directory));
    if (known != is_directory_there_.end()) return known->second;
    ASSIGN_OR_RETURN(const bool above, is_there(above_of(directory)));
    const auto status = above ? look(directory) : std::nullopt;
    if (status && !S_ISDIR(status->st_mode)) {
      return fail(Errc::kInvalidArgument,
                  "{} is {}, but the trace has a directory there; use another folder for --onto",
                  shown(directory),
                  S_ISLNK(status->st_mode) ? "a symbolic link" : "not a directory");
    }
    is_directory_there_[std::string(directory)] = status.has_value();
    return status.has_value();
  }

  Status look_at(uint32_t index) {
    const Path& path = plan_.paths[index];
    const std::string_view name = plan_.relative(index);
    if (path.is_directory || name.empty()) {
      ASSIGN_OR_RETURN(const bool found, is_there(name));
      prepared_.existed[index] = found;
      if (!found || !path.is_modified || name.empty()) return {};
      return refuse_to_modify(name);
    }
    ASSIGN_OR_RETURN(const bool above, is_there(above_of(name)));
    const auto status = above ? look(name) : std::nullopt;
    if (!status) return {};
    prepared_.existed[index] = true;
    return check_existing(path, name, *status);
  }

  Error refuse_to_modify(std::string_view name) const {
    return fail(Errc::kAlreadyExists,
                "{} exists, and the trace modifies it, but a replay changes only what it has made "
                "itself; remove it, or use a new folder",
                shown(name));
  }

  Status check_existing(const Path& path, std::string_view name, const struct stat& status) {
    if (!S_ISREG(status.st_mode)) {
      return fail(Errc::kInvalidArgument,
                  "{} is {}, but the trace has a file there; use another folder for --onto",
                  shown(name), S_ISLNK(status.st_mode) ? "a symbolic link" : "not a regular file");
    }
    if (path.is_modified) return refuse_to_modify(name);
    if (!is_needed(path)) return {};
    ++prepared_.existing_count;
    if (static_cast<uint64_t>(status.st_size) < path.size_bytes) ++prepared_.too_small_count;
    return {};
  }

  Status check_space() const {
    uint64_t needed = plan_.unnamed_peak_bytes;
    for (uint32_t index = 0; index < plan_.paths.size(); ++index) {
      const Path& path = plan_.paths[index];
      if (!path.is_used) continue;
      const bool filled = options_.fill && is_needed(path) && !prepared_.existed[index];
      const uint64_t written = path.is_modified ? path.written_end : 0;
      needed = add_saturating(needed, std::max(written, filled ? path.size_bytes : 0));
    }
    struct statvfs status{};
    if (statvfs(folder().path().c_str(), &status) != 0 || status.f_blocks == 0) return {};
    const uint64_t free_bytes = uint64_t{status.f_bavail} * status.f_frsize;
    // A tenth is left to others: a trace may claim anything.
    if (needed <= free_bytes - free_bytes / 10) return {};
    return fail(
        Errc::kExhausted,
        "{}: the replay needs {}, but only {} are free, of which it uses 90 %; select a part "
        "of the trace, or use another folder",
        shown(""), format_bytes(needed), format_bytes(free_bytes));
  }

  // Creates the directories above a path, and itself if it is one, except those that the trace
  // creates.
  Status make_directories_of(uint32_t index) {
    const Path& path = plan_.paths[index];
    const std::string_view name = plan_.relative(index);
    if (!path.is_used || path.before == Existence::kUnknown || name.empty()) return {};
    if (path.before == Existence::kAbsent && !path.is_created) return {};
    const bool is_itself = path.is_directory && is_needed(path);
    RETURN_IF_ERROR(make_directory(is_itself ? name : above_of(name)));
    return {};
  }

  Result<bool> make_directory(std::string_view name) {
    const std::string text(name);
    if (const auto known = is_directory_there_.find(text);
        known != is_directory_there_.end() && known->second) {
      return true;
    }
    const uint32_t index = plan_.names.find(clean_path(name, plan_.root));
    if (index != kNoPath && plan_.paths[index].is_created) return false;
    ASSIGN_OR_RETURN(const bool above, make_directory(above_of(name)));
    if (!above) return false;
    const Outcome made = folder().make_directory(name);
    if (made.result != 0) {
      return fail_os(made.error, "cannot create the directory").within(shown(name));
    }
    prepared_.directories.push_back(text);
    is_directory_there_[text] = true;
    return true;
  }

  Status make_files() {
    std::vector<uint32_t> wanted;
    uint64_t total = 0;
    for (uint32_t index = 0; index < plan_.paths.size(); ++index) {
      const Path& path = plan_.paths[index];
      if (!is_needed(path) || path.is_directory || prepared_.existed[index]) continue;
      wanted.push_back(index);
      total += path.size_bytes;
    }
    Progress progress({.label = "preparing files",
                       .total = options_.fill ? total : wanted.size(),
                       .counts_bytes = options_.fill});
    return for_each(wanted, [&](uint32_t index) { return make_file(index, progress); });
  }

  Status drop_caches() const {
    if (!options_.drop_cache) return {};
    std::vector<uint32_t> wanted;
    for (uint32_t index = 0; index < plan_.paths.size(); ++index) {
      const Path& path = plan_.paths[index];
      if (is_needed(path) && !path.is_directory && prepared_.existed[index])
        wanted.push_back(index);
    }
    return for_each(wanted, [&](uint32_t index) -> Status {
      // A file that cannot be opened will be reported by the replay.
      const Outcome opened = folder().open_file(plan_.relative(index), O_RDONLY);
      const File file(static_cast<int>(opened.result));
      if (file.is_open()) posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
      return {};
    });
  }

  static Status for_each(const std::vector<uint32_t>& paths,
                         const std::function<Status(uint32_t)>& work) {
    ThreadPool pool(usable_cpu_count());
    const size_t tasks = (paths.size() + kFilesPerTask - 1) / kFilesPerTask;
    return pool.parallel_for(tasks, [&](size_t task) -> Status {
      const size_t end = std::min(paths.size(), (task + 1) * kFilesPerTask);
      for (size_t i = task * kFilesPerTask; i < end; ++i) RETURN_IF_ERROR(work(paths[i]));
      return {};
    });
  }

  Status make_file(uint32_t index, Progress& progress) {
    if (is_stopped(options_)) return fail(Errc::kCancelled, "interrupted while preparing files");
    const std::string_view name = plan_.relative(index);
    const Path& path = plan_.paths[index];
    const Outcome opened = folder().open_file(name, O_RDWR | O_CREAT | O_EXCL);
    if (opened.result < 0) {
      return fail_os(opened.error, "cannot create").within(shown(name)).within("preparing");
    }
    File file(static_cast<int>(opened.result));
    if (options_.fill) {
      RETURN_IF_ERROR(fill(file, index, progress).within(shown(name)));
    } else if (ftruncate(file.fd(), static_cast<off_t>(path.size_bytes)) != 0) {
      return fail_os(errno, "cannot extend the file").within(shown(name));
    }
    RETURN_IF_ERROR(file.close().within(shown(name)));
    if (!options_.fill) progress.add(1);
    const MutexLock lock(mutex_);
    ++prepared_.file_count;
    prepared_.size_bytes += path.size_bytes;
    return {};
  }

  // Random bytes that repeat every MiB, except that each page begins with a number of its own: fast
  // to make, and neither compressed nor deduplicated by a file system.
  Status fill(const File& file, uint32_t index, Progress& progress) const {
    const uint64_t size = plan_.paths[index].size_bytes;
    std::vector<uint64_t> block(kFillBytes / sizeof(uint64_t));
    CounterRandom random(0, index);
    const size_t used = std::min<size_t>(block.size(), size / sizeof(uint64_t) + 1);
    for (size_t i = 0; i < used; ++i) block[i] = random.next();
    constexpr size_t kPageWords = kFillPageBytes / sizeof(uint64_t);
    for (uint64_t at = 0; at < size; at += kFillBytes) {
      if (is_stopped(options_)) return fail(Errc::kCancelled, "interrupted while preparing files");
      for (size_t word = 0; word < used; word += kPageWords) block[word] = random.next();
      const size_t length = std::min<uint64_t>(kFillBytes, size - at);
      RETURN_IF_ERROR(file.write_at(at, std::as_bytes(std::span(block)).first(length)));
      progress.add(length);
    }
    RETURN_IF_ERROR(file.sync());
    posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
    return {};
  }

  const Plan& plan_;
  const PrepareOptions& options_;
  Prepared prepared_;
  Mutex mutex_;  // guards the counts of prepared_ while files are made
  std::unordered_map<std::string, bool> is_directory_there_;  // by name
};

}  // namespace

Result<Prepared> prepare(const Plan& plan, const PrepareOptions& options) {
  return Preparation(plan, options).run();
}

std::vector<std::string> clean(const Plan& plan, const Prepared& prepared, Keep keep) {
  Folder& folder = *prepared.folder;
  std::vector<std::string> left;
  for (uint32_t index = 0; index < plan.paths.size(); ++index) {
    const Path& path = plan.paths[index];
    if (!path.is_used || prepared.existed[index]) continue;
    if (keep == Keep::kInputs && !path.is_modified) continue;
    folder.remove_created(plan.relative(index), left);
  }
  if (keep == Keep::kInputs) return left;
  for (auto name = prepared.directories.rbegin(); name != prepared.directories.rend(); ++name) {
    folder.remove_created(*name, left);
  }
  folder.remove_itself();
  return left;
}

}  // namespace millrace::replay
