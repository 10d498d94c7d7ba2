#include "store/announcer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/bytes.h"
#include "base/text.h"
#include "base/thread.h"
#include "store/remote_names.h"
#include "wire/store_name.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

using wire::PeerNameChange;

constexpr int kWriterPauseMs = 20;
constexpr int kWriterTries = 10;
constexpr size_t kTargetBytesMax = 4095;

// What can be the target of a program's symbolic link.
bool is_link_target(std::string_view target) {
  return !target.empty() && target.size() <= kTargetBytesMax &&
         target.find('\0') == std::string_view::npos && !wire::is_shown_target(target);
}

// Whether the second text of the news is what it must be.
bool has_right_second(const NameNews& news) {
  if (news.change == PeerNameChange::kMoved) return !news.to.empty() && is_safe_path(news.to);
  if (news.change == PeerNameChange::kPut && S_ISLNK(news.mode)) return is_link_target(news.to);
  return news.to.empty();
}

}  // namespace

std::string name_question(const NameNews& news) {
  const wire::PeerName head{.change = news.change,
                            .mode = news.mode,
                            .size_bytes = news.version.size_bytes,
                            .mtime_ns = news.version.mtime_ns,
                            .base_size_bytes = news.base.size_bytes,
                            .base_mtime_ns = news.base.mtime_ns,
                            .path_bytes = static_cast<uint32_t>(news.path.size()),
                            .to_bytes = static_cast<uint32_t>(news.to.size())};
  return std::string(text_of(std::as_bytes(std::span(&head, 1)))) + news.path + news.to;
}

Result<NameNews> parse_name_question(ByteView question) {
  ByteReader bytes(question);
  ASSIGN_OR_RETURN(const auto head, bytes.read<wire::PeerName>());
  ASSIGN_OR_RETURN(const ByteView path, bytes.take(head.path_bytes));
  ASSIGN_OR_RETURN(const ByteView to, bytes.take(head.to_bytes));
  NameNews news{
      .change = head.change,
      .path = std::string(text_of(path)),
      .to = std::string(text_of(to)),
      .version = {.size_bytes = head.size_bytes, .mtime_ns = head.mtime_ns, .inode = 0},
      .mode = head.mode,
      .base = {.size_bytes = head.base_size_bytes, .mtime_ns = head.base_mtime_ns, .inode = 0}};
  const bool is_known =
      head.change == PeerNameChange::kMoved || head.change == PeerNameChange::kPut ||
      head.change == PeerNameChange::kRemoved || head.change == PeerNameChange::kSaved;
  if (is_known && bytes.at_end() && !news.path.empty() && is_safe_path(news.path) &&
      has_right_second(news) && head.size_bytes <= INT64_MAX) {
    return news;
  }
  return fail(Errc::kCorrupt, "'{}' is not a name that a program can create", printable(news.path));
}

// A lease for reading is refused while anyone has the file open for writing. It is given back at
// once. SIGURG, which is ignored, instead of SIGIO, which would end us if a writer comes meanwhile.
bool has_writers(const File& file) {
  ::fcntl(file.fd(), F_SETSIG, SIGURG);
  if (::fcntl(file.fd(), F_SETLEASE, F_RDLCK) != 0) return errno == EAGAIN;
  ::fcntl(file.fd(), F_SETLEASE, F_UNLCK);
  return false;
}

Result<std::unique_ptr<Announcer>> Announcer::start(AnnouncerOptions options) {
  std::unique_ptr<Announcer> made(new Announcer(std::move(options)));
  made->waker_ = File(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made->waker_.is_open()) return fail_os(errno, "cannot create an eventfd");
  ASSIGN_OR_RETURN(made->thread_, start_thread("store news", [a = made.get()] { a->work(); }));
  return made;
}

Announcer::~Announcer() {
  is_stopping_ = true;
  ::eventfd_write(waker_.fd(), 1);
  if (thread_.joinable()) thread_.join();
  for (const Item& item : items_) {
    if (item.is_call) item.work();
  }
}

void Announcer::push(std::function<void()> work, bool is_call) {
  {
    const std::lock_guard lock(mutex_);
    items_.push_back({.work = std::move(work), .is_call = is_call});
  }
  ::eventfd_write(waker_.fd(), 1);
}

void Announcer::add(const TreeChange& change) {
  push([this, change] { announce(change); });
}

void Announcer::add_saved(const std::string& path, const FileVersion& version) {
  push([this, path, version] {
    options_.tell({.change = PeerNameChange::kSaved, .path = path, .to = {}, .version = version});
  });
}

void Announcer::add_gone(const std::string& path) {
  push([this, path] {
    if (!exists(path)) forget_and_tell(path);
  });
}

void Announcer::add_again(const std::string& path, const FileVersion& theirs) {
  push([this, path, theirs] {
    expected_removals_.erase(path);
    expected_moves_.erase(path);
    told_.erase(path);
    if (theirs != FileVersion()) {
      told_.emplace(path, ToldName{.version = {}, .mode = 0, .theirs = theirs});
    }
    put(path);
  });
}

void Announcer::add_expected_removal(const std::string& path) {
  push([this, path] { expected_removals_.insert(path); });
}

void Announcer::add_expected_move(const std::string& from, const std::string& to) {
  push([this, from, to] { expected_moves_.insert_or_assign(from, to); });
}

void Announcer::add_replaced(const std::string& path) {
  push([this, path] { forget(path); });
}

void Announcer::add_taken(const std::string& path, const ToldName& file) {
  {
    const std::lock_guard lock(mutex_);
    taken_.insert_or_assign(path, file);
  }
  push([this, path, file] {
    if (!use_taken(path)) told_.try_emplace(path, file);
  });
}

// An older change of the name may be looked at when the file is there already.
bool Announcer::use_taken(const std::string& path) {
  const std::lock_guard lock(mutex_);
  auto taken = taken_.extract(path);
  if (taken.empty()) return false;
  told_.insert_or_assign(path, taken.mapped());
  return true;
}

void Announcer::call(std::function<void()> function) { push(std::move(function), true); }

void Announcer::work() {
  while (!is_stopping_) {
    Item item;
    {
      const std::lock_guard lock(mutex_);
      if (!items_.empty()) {
        item = std::move(items_.front());
        items_.pop_front();
      }
    }
    if (item.work) {
      if (item.is_call) put_open(/*is_last=*/false);
      item.work();
      continue;
    }
    pollfd events[] = {{.fd = options_.changes_fd, .events = POLLIN, .revents = 0},
                       {.fd = waker_.fd(), .events = POLLIN, .revents = 0}};
    if (::poll(events, 2, open_.empty() ? -1 : kWriterPauseMs) == 0) put_open(/*is_last=*/true);
    eventfd_t count = 0;
    ::eventfd_read(waker_.fd(), &count);
    if (events[0].revents != 0) options_.take_changes();
  }
}

void Announcer::announce(const TreeChange& change) {
  switch (change.kind) {
    case TreeChange::Kind::kPut:
      put(change.path);
      return;
    case TreeChange::Kind::kRemove:
      remove(change.path, change.has_left);
      return;
    case TreeChange::Kind::kMove:
      move(change.path, change.to);
      return;
    case TreeChange::Kind::kLost:
      compare_all();
      return;
  }
}

bool Announcer::exists(const std::string& path) const {
  struct stat status{};
  return ::lstat((options_.tree / path).c_str(), &status) == 0;
}

// A file, link or directory. If it is gone, a later change says where.
void Announcer::put(const std::string& path) {
  struct stat status{};
  if (::lstat((options_.tree / path).c_str(), &status) != 0) return;
  if (S_ISLNK(status.st_mode)) {
    put_link(path, status);
    return;
  }
  const auto file = File::open(options_.tree / path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!file.ok() || ::fstat(file->fd(), &status) != 0) return;
  const bool is_directory = S_ISDIR(status.st_mode);
  if (!is_directory && !S_ISREG(status.st_mode)) return;
  if (is_directory && options_.others != nullptr && options_.others->has_made(path)) return;
  if (!is_directory && has_writers(*file)) {
    open_.try_emplace(path, 0);
    return;
  }
  open_.erase(path);
  tell_new(path, status, {});
}

void Announcer::put_link(const std::string& path, const struct stat& status) {
  const auto target = read_link(options_.tree / path);
  if (!target || !is_link_target(*target)) return;  // gone, or a file of another node
  if (options_.others != nullptr && options_.others->has_link(FileVersion::of(status))) return;
  tell_new(path, status, *target);
}

void Announcer::tell_new(const std::string& path, const struct stat& status,
                         const std::string& target) {
  const bool is_directory = S_ISDIR(status.st_mode);
  const FileVersion version = is_directory ? FileVersion() : FileVersion::of(status);
  use_taken(path);
  const auto before = told_.find(path);
  const bool is_known = before != told_.end();
  if (is_known && before->second.version == version && before->second.mode == status.st_mode) {
    return;
  }
  FileVersion base = is_known ? before->second.theirs : FileVersion();
  told_.insert_or_assign(path,
                         ToldName{.version = version, .mode = status.st_mode, .theirs = version});
  expected_removals_.erase(path);  // the others will have it again
  if (!is_directory && options_.others != nullptr) {
    const FileVersion claimed = options_.others->claim(path);
    if (!is_known) base = claimed;
  }
  options_.tell({.change = PeerNameChange::kPut,
                 .path = path,
                 .to = target,
                 .version = version,
                 .mode = status.st_mode,
                 .base = base});
}

// The kernel says that a file was closed a moment before it stops to count the writer. What is open
// for longer has its close still to come.
void Announcer::put_open(bool is_last) {
  std::vector<std::string> paths;
  for (auto at = open_.begin(); at != open_.end();) {
    const bool is_over = is_last && ++at->second > kWriterTries;
    if (!is_over) paths.push_back(at->first);
    at = is_over ? open_.erase(at) : std::next(at);
  }
  for (const std::string& path : paths) put(path);
}

void Announcer::put_all_below(const std::string& directory) {
  std::error_code error;
  const std::string top = (options_.tree / directory).string();
  for (fs::recursive_directory_iterator at(top, error), end; at != end; at.increment(error)) {
    put(directory + at->path().string().substr(top.size()));
  }
}

// Returns what has a new name.
std::map<std::string, ToldName> Announcer::rename_told(const std::string& from,
                                                       const std::string& to) {
  std::map<std::string, ToldName> moved;
  for (const auto& [path, told] : told_) {
    if (is_at_or_below(path, from)) moved.emplace(to + path.substr(from.size()), told);
  }
  forget(from);
  forget(to);
  for (const auto& [path, told] : moved) told_.insert_or_assign(path, told);
  return moved;
}

// With what the others do not know yet.
void Announcer::put_moved(const std::string& path) {
  put(path);
  struct stat status{};
  const bool exists = ::lstat((options_.tree / path).c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) put_all_below(path);
}

// The others rename what they know; the rest is new to them.
void Announcer::move(const std::string& from, const std::string& to) {
  const auto expected = expected_moves_.find(from);
  if (expected != expected_moves_.end() && expected->second == to) {
    expected_moves_.erase(expected);
    rename_told(from, to);
    put_moved(to);
    return;
  }
  struct stat status{};
  const bool exists = ::lstat((options_.tree / to).c_str(), &status) == 0;
  const bool is_others = options_.others != nullptr && options_.others->take_moved(from, to);
  const bool is_shared =
      S_ISREG(status.st_mode) || S_ISDIR(status.st_mode) || S_ISLNK(status.st_mode);
  if (exists && !is_others && !is_shared) {
    remove(from);
    remove(to);
    return;
  }
  const auto told = told_.find(from);
  const FileVersion version =
      is_others || told == told_.end() ? FileVersion() : told->second.theirs;
  const std::map<std::string, ToldName> moved = rename_told(from, to);
  if (!moved.empty() || is_others) {
    const bool is_done = options_.tell(
        {.change = PeerNameChange::kMoved, .path = from, .to = to, .version = version});
    for (const auto& [path, old] : moved) {
      if (!is_done) told_.erase(path);
    }
  }
  put_moved(to);
}

// Whether a name is gone because of another node.
bool Announcer::was_expected(const std::string& path) {
  if (expected_removals_.erase(path) != 0) {
    forget(path);
    return true;
  }
  const auto moved = expected_moves_.find(path);
  if (moved == expected_moves_.end()) return false;
  rename_told(path, std::string(moved->second));
  expected_moves_.erase(moved);
  return true;
}

void Announcer::remove(const std::string& path, bool has_left) {
  if (was_expected(path)) return;
  if (has_left && options_.others != nullptr) options_.others->restore(path);
  const auto others =
      options_.others != nullptr ? options_.others->take_removed(path) : std::optional<NameNews>();
  const bool is_told = std::any_of(told_.begin(), told_.end(), [&](const auto& told) {
    return is_at_or_below(told.first, path);
  });
  if (is_told) {
    forget_and_tell(path);
  } else if (others) {
    options_.tell(*others);
  }
}

void Announcer::forget(const std::string& path) {
  std::erase_if(told_, [&](const auto& told) { return is_at_or_below(told.first, path); });
}

void Announcer::forget_and_tell(const std::string& path) {
  const auto told = told_.find(path);
  const FileVersion version = told == told_.end() ? FileVersion() : told->second.theirs;
  forget(path);
  options_.tell({.change = PeerNameChange::kRemoved, .path = path, .to = {}, .version = version});
}

void Announcer::compare_all() {
  std::vector<std::string> gone;
  for (const auto& [path, told] : told_) {
    if (!exists(path)) gone.push_back(path);
  }
  for (const std::string& path : gone) remove(path);
  for (const std::string& path : options_.list()) put(path);
}

}  // namespace millrace::store
