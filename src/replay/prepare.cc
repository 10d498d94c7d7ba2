#include "replay/prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/counter_random.h"
#include "base/cpus.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "base/units.h"

namespace millrace::replay {
namespace {

constexpr mode_t kDirectoryMode = 0700;
constexpr mode_t kFileMode = 0600;
constexpr size_t kFillBytes = size_t{1} << 20;
constexpr size_t kFillPageBytes = 4096;
constexpr size_t kFilesPerTask = 64;

bool is_needed(const Path& path) { return path.is_used && path.before == Existence::kPresent; }

bool is_stopped(const PrepareOptions& options) {
  return options.stop != nullptr && options.stop->load(std::memory_order_relaxed);
}

class Preparation {
 public:
  Preparation(const Plan& plan, const PrepareOptions& options) : plan_(plan), options_(options) {}

  Result<Prepared> run() {
    RETURN_IF_ERROR(open_folder());
    prepared_.existed.resize(plan_.paths.size());
    if (options_.only_existing) RETURN_IF_ERROR(check_only_reads());
    for (uint32_t path = 0; path < plan_.paths.size(); ++path) {
      if (plan_.paths[path].is_used) RETURN_IF_ERROR(look_at(path));
    }
    if (options_.only_existing) RETURN_IF_ERROR(check_all_exist());
    RETURN_IF_ERROR(check_writable());
    RETURN_IF_ERROR(check_space());
    for (uint32_t path = 0; path < plan_.paths.size(); ++path) {
      RETURN_IF_ERROR(make_directories_of(path));
    }
    RETURN_IF_ERROR(make_files());
    return std::move(prepared_);
  }

 private:
  std::string place(uint32_t path) const { return place_of(plan_, prepared_.onto, path); }

  Status open_folder() {
    struct stat status{};
    if (stat(options_.onto.c_str(), &status) != 0) {
      if (errno != ENOENT) {
        return fail_os(errno, "cannot use this folder").within(printable(options_.onto));
      }
      if (options_.only_existing) {
        return fail(Errc::kNotFound, "{}: no such folder", printable(options_.onto));
      }
      RETURN_IF_ERROR(make_directories(options_.onto));
      made_folder_ = true;
    } else if (!S_ISDIR(status.st_mode)) {
      return fail(Errc::kInvalidArgument, "{}: not a directory; give a folder for --onto",
                  printable(options_.onto));
    }
    const std::unique_ptr<char, decltype(&free)> real(realpath(options_.onto.c_str(), nullptr),
                                                      &free);
    if (!real) return fail_os(errno, "cannot use this folder").within(printable(options_.onto));
    prepared_.onto = real.get();
    if (made_folder_) prepared_.directories.push_back(prepared_.onto);
    is_directory_there_[prepared_.onto] = true;
    return {};
  }

  // Before anything is looked at: looking at a file that the trace creates removes it.
  Status check_only_reads() const {
    for (uint32_t index = 0; index < plan_.paths.size(); ++index) {
      const Path& path = plan_.paths[index];
      if (!path.is_used || (!path.is_created && !path.is_modified)) continue;
      return fail(
          Errc::kInvalidArgument,
          "the trace creates or modifies {}; without --existing, it is replayed in a folder "
          "of its own",
          printable(plan_.names.text(index)));
    }
    return {};
  }

  Status check_all_exist() const {
    for (uint32_t index = 0; index < plan_.paths.size(); ++index) {
      if (!is_needed(plan_.paths[index]) || prepared_.existed[index]) continue;
      return fail(Errc::kNotFound, "{}: the trace reads it, but it does not exist",
                  printable(place(index)));
    }
    return {};
  }

  // Whether a directory on the way to a file exists. Fails if it is something else.
  Result<bool> is_there(std::string_view directory) {
    const auto known = is_directory_there_.find(std::string(directory));
    if (known != is_directory_there_.end()) return known->second;
    ASSIGN_OR_RETURN(const bool above, is_there(parent_of(directory)));
    const std::string text(directory);
    struct stat status{};
    bool found = above && lstat(text.c_str(), &status) == 0;
    if (found && !S_ISDIR(status.st_mode)) {
      return fail(Errc::kInvalidArgument,
                  "{} is {}, but the trace has a directory there; use another folder for --onto",
                  printable(text), S_ISLNK(status.st_mode) ? "a symbolic link" : "not a directory");
    }
    is_directory_there_[text] = found;
    return found;
  }

  Status look_at(uint32_t index) {
    const Path& path = plan_.paths[index];
    const std::string text = place(index);
    if (text == prepared_.onto) {
      prepared_.existed[index] = true;
      return {};
    }
    if (path.is_directory) {
      ASSIGN_OR_RETURN(const bool found, is_there(text));
      prepared_.existed[index] = found;
      if (!found || !path.is_created || options_.overwrite) return {};
      return refuse_to_modify(text);
    }
    ASSIGN_OR_RETURN(const bool above, is_there(parent_of(text)));
    struct stat status{};
    if (!above || lstat(text.c_str(), &status) != 0) return {};
    prepared_.existed[index] = true;
    return check_existing(index, text, status);
  }

  static Error refuse_to_modify(const std::string& text) {
    return fail(Errc::kAlreadyExists,
                "{} exists, and the replay would modify it; use an empty folder, or --overwrite if "
                "its content may be lost",
                printable(text));
  }

  Status check_existing(uint32_t index, const std::string& text, const struct stat& status) {
    const Path& path = plan_.paths[index];
    if (!S_ISREG(status.st_mode)) {
      return fail(Errc::kInvalidArgument,
                  "{} is {}, but the trace has a file there; use another folder for --onto",
                  printable(text),
                  S_ISLNK(status.st_mode) ? "a symbolic link" : "not a regular file");
    }
    if (path.is_modified && !options_.overwrite) return refuse_to_modify(text);
    if (path.is_created && path.before == Existence::kAbsent) {
      // The trace creates it, so it must not be there.
      if (unlink(text.c_str()) != 0) return fail_os(errno, "cannot remove").within(printable(text));
      prepared_.existed[index] = false;
    }
    if (!is_needed(path)) return {};
    ++prepared_.existing_count;
    if (static_cast<uint64_t>(status.st_size) < path.size_bytes) ++prepared_.too_small_count;
    return {};
  }

  bool modifies() const {
    for (uint32_t index = 0; index < plan_.paths.size(); ++index) {
      const Path& path = plan_.paths[index];
      if (path.is_used && (path.is_modified || (is_needed(path) && !prepared_.existed[index]))) {
        return true;
      }
    }
    return false;
  }

  Status check_writable() const {
    if (made_folder_ || !modifies()) return {};
    std::string probe = prepared_.onto + "/.millrace-XXXXXX";
    const int fd = mkstemp(probe.data());
    if (fd < 0) return fail_os(errno, "cannot create files").within(printable(prepared_.onto));
    close(fd);
    unlink(probe.c_str());
    return {};
  }

  Status check_space() const {
    uint64_t needed = 0;
    for (uint32_t index = 0; index < plan_.paths.size(); ++index) {
      const Path& path = plan_.paths[index];
      if (!path.is_used) continue;
      const bool filled = options_.fill && is_needed(path) && !prepared_.existed[index];
      needed += std::max(path.is_modified ? path.written_end : 0, filled ? path.size_bytes : 0);
    }
    struct statvfs status{};
    if (statvfs(prepared_.onto.c_str(), &status) != 0 || status.f_blocks == 0) return {};
    const uint64_t free_bytes = uint64_t{status.f_bavail} * status.f_frsize;
    if (needed <= free_bytes) return {};
    return fail(Errc::kExhausted,
                "{}: the replay needs {}, but only {} are free; select a part of the trace, or use "
                "another folder",
                printable(prepared_.onto), format_bytes(needed), format_bytes(free_bytes));
  }

  // Creates the directories above a path, and itself if it is one, except those that the trace
  // creates.
  Status make_directories_of(uint32_t index) {
    const Path& path = plan_.paths[index];
    if (!path.is_used || path.before == Existence::kUnknown) return {};
    if (path.before == Existence::kAbsent && !path.is_created) return {};
    const std::string text = place(index);
    if (text == prepared_.onto) return {};
    const bool is_itself = path.is_directory && is_needed(path);
    RETURN_IF_ERROR(make_directory(is_itself ? std::string_view(text) : parent_of(text)));
    return {};
  }

  Result<bool> make_directory(std::string_view directory) {
    const std::string text(directory);
    if (const auto known = is_directory_there_.find(text);
        known != is_directory_there_.end() && known->second) {
      return true;
    }
    const uint32_t index = plan_.names.find(original_of(text));
    if (index != kNoPath && plan_.paths[index].is_created) return false;
    ASSIGN_OR_RETURN(const bool above, make_directory(parent_of(text)));
    if (!above) return false;
    if (mkdir(text.c_str(), kDirectoryMode) != 0 && errno != EEXIST) {
      return fail_os(errno, "cannot create the directory").within(printable(text));
    }
    prepared_.directories.push_back(text);
    is_directory_there_[text] = true;
    return true;
  }

  std::string original_of(std::string_view place) const {
    const std::string_view below = relative_to(place, prepared_.onto);
    return clean_path(below, plan_.root);
  }

  Status make_files() {
    std::vector<uint32_t> wanted;
    uint64_t total = 0;
    for (uint32_t index = 0; index < plan_.paths.size(); ++index) {
      const Path& path = plan_.paths[index];
      if (!is_needed(path) || path.is_directory) continue;
      if (prepared_.existed[index] && !options_.drop_cache) continue;
      wanted.push_back(index);
      total += path.size_bytes;
    }
    Progress progress({.label = "preparing files",
                       .total = options_.fill ? total : wanted.size(),
                       .counts_bytes = options_.fill});
    ThreadPool pool(usable_cpu_count());
    const size_t tasks = (wanted.size() + kFilesPerTask - 1) / kFilesPerTask;
    return pool.parallel_for(tasks, [&](size_t task) -> Status {
      const size_t end = std::min(wanted.size(), (task + 1) * kFilesPerTask);
      for (size_t i = task * kFilesPerTask; i < end; ++i) {
        RETURN_IF_ERROR(make_file(wanted[i], progress));
      }
      return {};
    });
  }

  Status make_file(uint32_t index, Progress& progress) {
    if (is_stopped(options_)) return fail(Errc::kCancelled, "interrupted while preparing files");
    const std::string text = place(index);
    const Path& path = plan_.paths[index];
    if (prepared_.existed[index]) {
      drop_cache(text);
      return {};
    }
    ASSIGN_OR_RETURN(
        File file,
        File::open(text, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, kFileMode).within("preparing"));
    if (options_.fill) {
      RETURN_IF_ERROR(fill(file, index, progress).within(printable(text)));
    } else if (ftruncate(file.fd(), static_cast<off_t>(path.size_bytes)) != 0) {
      return fail_os(errno, "cannot extend the file").within(printable(text));
    }
    RETURN_IF_ERROR(file.close().within(printable(text)));
    if (!options_.fill) progress.add(1);
    const std::lock_guard lock(mutex_);
    ++prepared_.file_count;
    prepared_.size_bytes += path.size_bytes;
    return {};
  }

  static void drop_cache(const std::string& text) {
    // A file that cannot be opened will be reported by the replay.
    const auto file = File::open(text, O_RDONLY | O_NOFOLLOW);
    if (file.ok()) posix_fadvise(file->fd(), 0, 0, POSIX_FADV_DONTNEED);
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
  std::mutex mutex_;  // guards the counts of prepared_ while files are made
  std::unordered_map<std::string, bool> is_directory_there_;  // by place
  bool made_folder_ = false;
};

}  // namespace

std::string place_of(const Plan& plan, const std::string& onto, uint32_t path) {
  const std::string_view below = plan.relative(path);
  if (below.empty()) return onto;
  std::string place = onto == "/" ? "" : onto;
  place += '/';
  place += below;
  return place;
}

Result<Prepared> prepare(const Plan& plan, const PrepareOptions& options) {
  return Preparation(plan, options).run();
}

uint64_t clean(const Plan& plan, const Prepared& prepared) {
  uint64_t left = 0;
  std::vector<std::string> directories = prepared.directories;
  for (uint32_t index = 0; index < plan.paths.size(); ++index) {
    const Path& path = plan.paths[index];
    if (!path.is_used || prepared.existed[index]) continue;
    if (path.before != Existence::kPresent && !path.is_created) continue;
    const std::string place = place_of(plan, prepared.onto, index);
    if (path.is_directory) {
      directories.push_back(place);
    } else if (unlink(place.c_str()) != 0 && errno != ENOENT && errno != ENOTDIR) {
      ++left;
    }
  }
  // Longer names first: children before their parents.
  std::sort(directories.begin(), directories.end(),
            [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  for (const std::string& directory : directories) rmdir(directory.c_str());
  return left;
}

}  // namespace millrace::replay
