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

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

using wire::PeerNameChange;

}  // namespace

std::string name_question(const NameNews& news) {
  const wire::PeerName head{.change = news.change,
                            .mode = news.mode,
                            .size_bytes = news.version.size_bytes,
                            .mtime_ns = news.version.mtime_ns,
                            .path_bytes = static_cast<uint32_t>(news.path.size()),
                            .to_bytes = static_cast<uint32_t>(news.to.size())};
  return std::string(text_of(std::as_bytes(std::span(&head, 1)))) + news.path + news.to;
}

Result<NameNews> parse_name_question(ByteView question) {
  ByteReader bytes(question);
  ASSIGN_OR_RETURN(const auto head, bytes.read<wire::PeerName>());
  ASSIGN_OR_RETURN(const ByteView path, bytes.take(head.path_bytes));
  ASSIGN_OR_RETURN(const ByteView to, bytes.take(head.to_bytes));
  NameNews news{.change = head.change,
                .path = std::string(text_of(path)),
                .to = std::string(text_of(to)),
                .version = {.size_bytes = head.size_bytes, .mtime_ns = head.mtime_ns, .inode = 0},
                .mode = head.mode};
  const bool is_moved = head.change == PeerNameChange::kMoved;
  const bool is_known = is_moved || head.change == PeerNameChange::kPut ||
                        head.change == PeerNameChange::kRemoved ||
                        head.change == PeerNameChange::kSaved;
  if (is_known && bytes.at_end() && !news.path.empty() && is_safe_path(news.path) &&
      is_safe_path(news.to) && news.to.empty() != is_moved && head.size_bytes <= INT64_MAX) {
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
  push([this, change] { announce(change); }, false);
}

void Announcer::add_saved(const std::string& path, const FileVersion& version) {
  push(
      [this, path, version] {
        options_.tell(
            {.change = PeerNameChange::kSaved, .path = path, .to = {}, .version = version});
      },
      false);
}

void Announcer::add_gone(const std::string& path) {
  push(
      [this, path] {
        if (!exists(path)) forget_and_tell(path);
      },
      false);
}

void Announcer::add_again(const std::string& path) {
  push(
      [this, path] {
        told_.erase(path);
        put(path);
      },
      false);
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
      item.work();
      continue;
    }
    pollfd events[] = {{.fd = options_.changes_fd, .events = POLLIN, .revents = 0},
                       {.fd = waker_.fd(), .events = POLLIN, .revents = 0}};
    ::poll(events, 2, -1);
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
      remove(change.path);
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

// A file only. If it is open, its close will come; if it is gone, a later change says where.
void Announcer::put(const std::string& path) {
  const auto file = File::open(options_.tree / path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  struct stat status{};
  if (!file.ok() || ::fstat(file->fd(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  if (has_writers(*file)) return;
  const Told now{.version = FileVersion::of(status), .mode = status.st_mode};
  Told& before = told_[path];
  if (std::exchange(before, now) == now) return;
  options_.tell({.change = PeerNameChange::kPut,
                 .path = path,
                 .to = {},
                 .version = now.version,
                 .mode = now.mode});
}

void Announcer::put_all_below(const std::string& directory) {
  std::error_code error;
  const std::string top = (options_.tree / directory).string();
  for (fs::recursive_directory_iterator at(top, error), end; at != end; at.increment(error)) {
    put(directory + at->path().string().substr(top.size()));
  }
}

// The others rename what they know; the rest is new to them.
void Announcer::move(const std::string& from, const std::string& to) {
  struct stat status{};
  const bool exists = ::lstat((options_.tree / to).c_str(), &status) == 0;
  if (exists && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
    remove(from);
    remove(to);
    return;
  }
  std::map<std::string, Told> moved;
  for (auto at = told_.begin(); at != told_.end();) {
    if (is_at_or_below(at->first, from)) {
      moved.emplace(to + at->first.substr(from.size()), at->second);
      at = told_.erase(at);
    } else {
      ++at;
    }
  }
  for (auto& [path, told] : moved) told_.insert_or_assign(path, told);
  if (!moved.empty()) {
    options_.tell({.change = PeerNameChange::kMoved, .path = from, .to = to, .version = {}});
  }
  if (exists && S_ISDIR(status.st_mode)) {
    put_all_below(to);
  } else {
    put(to);
  }
}

// Names of other nodes disappear here, too: those are not our news.
void Announcer::remove(const std::string& path) {
  const bool is_told = std::any_of(told_.begin(), told_.end(), [&](const auto& told) {
    return is_at_or_below(told.first, path);
  });
  if (is_told) forget_and_tell(path);
}

void Announcer::forget_and_tell(const std::string& path) {
  std::erase_if(told_, [&](const auto& told) { return is_at_or_below(told.first, path); });
  options_.tell({.change = PeerNameChange::kRemoved, .path = path, .to = {}, .version = {}});
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
