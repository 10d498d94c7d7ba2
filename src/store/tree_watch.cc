#include "store/tree_watch.h"

#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/text.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kWatched = IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO |
                              IN_ATTRIB | IN_ONLYDIR | IN_DONT_FOLLOW;
constexpr std::chrono::milliseconds kHalfPatience{1};
constexpr size_t kEventBytes = size_t{64} << 10;

}  // namespace

bool is_at_or_below(std::string_view path, std::string_view directory) {
  if (directory.empty()) return true;
  return path.starts_with(directory) &&
         (path.size() == directory.size() || path[directory.size()] == '/');
}

Result<std::unique_ptr<TreeWatch>> TreeWatch::create(const Catalogue& catalogue, fs::path tree) {
  File inotify(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!inotify.is_open()) {
    return fail_os(errno, "cannot watch the tree (fs.inotify.max_user_instances)");
  }
  return std::unique_ptr<TreeWatch>(new TreeWatch(catalogue, std::move(tree), std::move(inotify)));
}

Status TreeWatch::watch(const std::string& directory) {
  const fs::path path = tree_ / directory;
  const std::lock_guard lock(mutex_);
  const int watch = ::inotify_add_watch(inotify_.fd(), path.c_str(), kWatched);
  if (watch >= 0) {
    directories_[watch] = directory;
    return {};
  }
  return fail_os(errno, errno == ENOSPC ? "cannot watch it: fs.inotify.max_user_watches is reached"
                                        : "cannot watch it")
      .within(printable(path.string()));
}

std::vector<TreeChange> TreeWatch::take() {
  while (read_events()) {
  }
  if (!moved_from_.path.empty()) {
    // The kernel queues the two halves one after the other.
    std::this_thread::sleep_for(kHalfPatience);
    while (read_events()) {
    }
  }
  settle_moved_from();
  return std::exchange(changes_, {});
}

// False if there are none.
bool TreeWatch::read_events() {
  alignas(inotify_event) char buffer[kEventBytes];
  const ssize_t size = ::read(inotify_.fd(), buffer, sizeof(buffer));
  if (size <= 0) return false;
  for (ssize_t at = 0; at < size;) {
    inotify_event head{};
    std::memcpy(&head, buffer + at, sizeof(head));
    const char* name = buffer + at + sizeof(head);
    at += static_cast<ssize_t>(sizeof(head) + head.len);
    if ((head.mask & IN_IGNORED) != 0) {
      const std::lock_guard lock(mutex_);
      directories_.erase(head.wd);
    } else if ((head.mask & IN_Q_OVERFLOW) != 0) {
      see({.mask = head.mask, .cookie = 0, .path = {}});
    } else if (head.len != 0) {  // not about the directory itself
      std::string path = path_of(head.wd, name);
      if (path.empty() || catalogue_.find(path)) continue;
      see({.mask = head.mask, .cookie = head.cookie, .path = std::move(path)});
    }
  }
  return true;
}

std::string TreeWatch::path_of(int watch, std::string_view name) {
  const std::lock_guard lock(mutex_);
  const auto found = directories_.find(watch);
  if (found == directories_.end()) return {};
  return found->second.empty() ? std::string(name) : fmt::format("{}/{}", found->second, name);
}

void TreeWatch::see(const Event& event) {
  const bool follows = (event.mask & IN_MOVED_TO) != 0 && !moved_from_.path.empty() &&
                       event.cookie == moved_from_.cookie;
  if (follows) {
    const std::string from = std::exchange(moved_from_, {}).path;
    see_moved(from, event);
    return;
  }
  settle_moved_from();
  if ((event.mask & IN_Q_OVERFLOW) != 0) {
    changes_.push_back({.kind = TreeChange::Kind::kLost, .path = {}, .to = {}});
  } else if ((event.mask & IN_MOVED_FROM) != 0) {
    moved_from_ = event;
  } else if ((event.mask & IN_DELETE) != 0) {
    changes_.push_back({.kind = TreeChange::Kind::kRemove, .path = event.path, .to = {}});
  } else if ((event.mask & (IN_CREATE | IN_MOVED_TO)) != 0) {
    see_created(event);
  } else {  // closed by a writer, or a new mode
    changes_.push_back({.kind = TreeChange::Kind::kPut, .path = event.path, .to = {}});
  }
}

// A new file is still open and its close will be seen, unless it is another name of one.
void TreeWatch::see_created(const Event& event) {
  if ((event.mask & IN_ISDIR) != 0) {
    enter(event.path);
    return;
  }
  struct stat status{};
  if (::lstat((tree_ / event.path).c_str(), &status) != 0) return;
  const bool is_complete = (event.mask & IN_MOVED_TO) != 0 || S_ISLNK(status.st_mode) ||
                           (S_ISREG(status.st_mode) && status.st_nlink > 1);
  if (is_complete) {
    changes_.push_back({.kind = TreeChange::Kind::kPut, .path = event.path, .to = {}});
  }
}

void TreeWatch::see_moved(const std::string& from, const Event& event) {
  if ((event.mask & IN_ISDIR) != 0) rename_watches(from, event.path);
  changes_.push_back({.kind = TreeChange::Kind::kMove, .path = from, .to = event.path});
}

// A directory that a program has created, with what is in it already. What is created after
// watch() has an event, what was before is found here, and some things twice.
void TreeWatch::enter(const std::string& directory) {
  if (!watch(directory).ok()) {
    struct stat status{};
    if (::lstat((tree_ / directory).c_str(), &status) != 0) return;  // it is gone
    changes_.push_back({.kind = TreeChange::Kind::kLost, .path = directory, .to = {}});
    return;
  }
  changes_.push_back({.kind = TreeChange::Kind::kPut, .path = directory, .to = {}});
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(tree_ / directory, error)) {
    std::string path = directory + '/' + entry.path().filename().string();
    if (entry.is_directory(error) && !entry.is_symlink(error)) {
      enter(path);
    } else {
      changes_.push_back({.kind = TreeChange::Kind::kPut, .path = std::move(path), .to = {}});
    }
  }
}

void TreeWatch::rename_watches(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  for (auto& [watch, directory] : directories_) {
    if (is_at_or_below(directory, from)) directory = to + directory.substr(from.size());
  }
}

void TreeWatch::drop_watches(const std::string& directory) {
  const std::lock_guard lock(mutex_);
  for (const auto& [watch, path] : directories_) {
    if (is_at_or_below(path, directory)) ::inotify_rm_watch(inotify_.fd(), watch);
  }
}

// Nothing followed: it has left the tree.
void TreeWatch::settle_moved_from() {
  if (moved_from_.path.empty()) return;
  const Event event = std::exchange(moved_from_, {});
  if ((event.mask & IN_ISDIR) != 0) drop_watches(event.path);
  changes_.push_back(
      {.kind = TreeChange::Kind::kRemove, .path = event.path, .to = {}, .has_left = true});
}

}  // namespace millrace::store
