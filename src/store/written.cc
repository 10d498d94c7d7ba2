#include "store/written.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <future>

#include "base/directory.h"
#include "base/text.h"
#include "base/thread.h"
#include "store/remote_names.h"
#include "wire/store_name.h"
#include "wire/store_state.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

using Kind = TreeChange::Kind;

constexpr int kTriesMax = 4;  // then a flush that waits is answered; the thread goes on trying
constexpr int kPauseMsMin = 200;
constexpr int kPauseMsMax = 30'000;
constexpr int kPauseForWritersMs = 20;
constexpr int kOpenTriesMax = 5;
constexpr std::chrono::milliseconds kPauseForClose{2};
constexpr int kPassesMax = 16;  // of a flush behind later changes; a log may change all the time

// The whole file system has a problem, not a single file.
bool is_general(const Error& error) {
  return error.code() == Errc::kExhausted || error.code() == Errc::kIo;
}

// The kernel says that a file was closed a moment before it stops to count the writer.
bool stays_open(const File& file) {
  for (int tries = 0; has_writers(file); ++tries) {
    if (tries == kOpenTriesMax) return true;
    std::this_thread::sleep_for(kPauseForClose);
  }
  return false;
}

}  // namespace

Result<std::unique_ptr<Written>> Written::start(const Catalogue& catalogue,
                                                WrittenOptions options) {
  ASSIGN_OR_RETURN(auto watch,
                   TreeWatch::create(catalogue, options.node / wire::kStoreTreeDirectory));
  std::unique_ptr<Written> made(new Written(catalogue, std::move(options), std::move(watch)));
  made->waker_ = File(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  made->changed_ = File(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made->waker_.is_open() || !made->changed_.is_open()) {
    return fail_os(errno, "cannot create an eventfd");
  }
  RETURN_IF_ERROR(made->start_threads());
  return made;
}

Status Written::start_threads() {
  const auto list_paths = [this] {
    std::vector<std::string> paths;
    for (WrittenFile& file : list({})) paths.push_back(std::move(file.path));
    return paths;
  };
  if (options_.tell) {
    ASSIGN_OR_RETURN(announcer_, Announcer::start({.tree = in_tree(""),
                                                   .changes_fd = watch_->fd(),
                                                   .take_changes = [this] { collect_changes(); },
                                                   .list = list_paths,
                                                   .tell = options_.tell,
                                                   .others = options_.others}));
  }
  ASSIGN_OR_RETURN(thread_, start_thread("store written", [this] { work(); }));
  return {};
}

Written::~Written() {
  is_stopping_ = true;
  ::eventfd_write(waker_.fd(), 1);
  if (thread_.joinable()) thread_.join();
  announcer_.reset();
}

fs::path Written::in_tree(const std::string& path) const {
  return options_.node / wire::kStoreTreeDirectory / path;
}

int Written::watch(uint64_t entry) {
  if (entry >= catalogue_.entry_count() ||
      catalogue_.entry(static_cast<uint32_t>(entry)).kind != wire::EntryKind::kDirectory) {
    return EINVAL;
  }
  const std::string path = catalogue_.path(static_cast<uint32_t>(entry));
  const std::lock_guard lock(mutex_);
  if (directories_.contains(path)) return 0;
  Status status;
  if (!has_any_) status = log_.append({.kind = LogKind::kToken, .version = {}, .path = token_});
  if (status.ok()) {
    status = log_.append({.kind = LogKind::kDirectory, .version = {}, .path = path});
  }
  has_any_ = true;
  if (status.ok()) status = watch_->watch(path);
  if (!status.ok()) {
    report(status.error().message());
    return EIO;
  }
  directories_.insert(path);
  return 0;
}

// The event of its creation comes too late for a program that moves a file into it at once.
void Written::watch_made(const std::string& directory) {
  const Status status = watch_->watch(directory);
  if (!status.ok()) report(status.error().message());
}

void Written::log_link(const std::string& path, const FileVersion& version) {
  const Status status = log_.append({.kind = LogKind::kOther, .version = version, .path = path});
  if (!status.ok()) report(status.error().message());
}

void Written::flush(FlushCallback done) {
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(std::move(done));
  }
  ::eventfd_write(waker_.fd(), 1);
}

int Written::flush() {
  std::promise<int> ended;
  flush([&](int os_error) { ended.set_value(os_error); });
  return ended.get_future().get();
}

void Written::work() {
  while (!is_stopping_) {
    take_changes();
    take_requests();
    if (steps_.empty()) {
      wait(-1);
    } else {
      run_first();
    }
  }
  for (const Step& step : steps_) {
    if (step.done) answer(step.done, ECANCELED);
  }
}

// After all that the other nodes must hear first.
void Written::answer(const FlushCallback& done, int os_error) {
  if (announcer_ == nullptr) {
    done(os_error);
  } else {
    announcer_->call([done, os_error] { done(os_error); });
  }
}

// Until something happens, or the time has passed.
void Written::wait(int milliseconds) const {
  pollfd events[] = {{.fd = watch_->fd(), .events = POLLIN, .revents = 0},
                     {.fd = changed_.fd(), .events = POLLIN, .revents = 0},
                     {.fd = waker_.fd(), .events = POLLIN, .revents = 0}};
  // While we pause, changes of files are no reason to try again.
  const bool is_pause = milliseconds >= 0;
  ::poll(is_pause ? events + 2 : events, is_pause ? 1 : 3, milliseconds);
  eventfd_t count = 0;
  ::eventfd_read(waker_.fd(), &count);
}

void Written::share(std::function<void()> done) {
  if (announcer_ == nullptr) {
    done();
    return;
  }
  collect_changes();
  announcer_->call(std::move(done));
}

// For both threads, in one order.
void Written::collect_changes() {
  const std::lock_guard lock(changes_mutex_);
  for (TreeChange& change : watch_->take()) {
    if (announcer_ != nullptr) announcer_->add(change);
    changes_.push_back(std::move(change));
  }
  if (!changes_.empty()) ::eventfd_write(changed_.fd(), 1);
}

void Written::take_changes() {
  collect_changes();
  std::vector<TreeChange> changes;
  {
    const std::lock_guard lock(changes_mutex_);
    changes.swap(changes_);
    eventfd_t count = 0;
    ::eventfd_read(changed_.fd(), &count);
  }
  for (TreeChange& change : changes) {
    if (options_.save.empty()) continue;
    if (change.kind == Kind::kLost) {
      add_all();
    } else {
      add(std::move(change));
    }
  }
}

void Written::take_requests() {
  std::vector<FlushCallback> requests;
  {
    const std::lock_guard lock(mutex_);
    requests.swap(requests_);
  }
  if (requests.empty()) return;
  if (options_.save.empty()) {
    for (const FlushCallback& done : requests) answer(done, has_any_ ? EOPNOTSUPP : 0);
    return;
  }
  failed_.clear();
  add_all();
  for (const Step& step : steps_) forced_.insert(step.change.path);
  for (FlushCallback& done : requests) {
    steps_.push_back({.change = {}, .number = ++last_number_, .done = std::move(done)});
  }
}

// A later change of a name replaces an earlier one that waits, and takes the later place: the bytes
// that would be saved are the later ones.
void Written::add(TreeChange change) {
  const uint64_t number = ++last_number_;
  newest_[change.path] = number;
  if (change.kind == Kind::kMove) newest_[change.to] = number;
  steps_.push_back({.change = std::move(change), .number = number, .done = {}});
}

// Whatever is not as it was saved, in the order of its time.
void Written::add_all() {
  WrittenLog log;
  for (const auto& [path, saved] : saved_) {
    if (!saved.is_directory) log.durable.emplace(path, saved.version);
  }
  std::set<std::string> found;
  for (const WrittenFile& file : list(log)) {
    found.insert(file.path);
    if (file.state == WrittenState::kDurable) continue;
    forced_.insert(file.path);
    add({.kind = Kind::kPut, .path = file.path, .to = {}});
  }
  for (const auto& [path, version] : log.durable) {
    if (!found.contains(path)) add({.kind = Kind::kRemove, .path = path, .to = {}});
  }
}

std::vector<WrittenFile> Written::list(WrittenLog log) {
  {
    const std::lock_guard lock(mutex_);
    log.directories = directories_;
  }
  if (options_.others != nullptr) log.others = options_.others->links();
  return list_written(options_.node, catalogue_, log);
}

bool Written::is_current(const Step& step) const {
  if (step.change.kind == Kind::kMove) return true;  // the old name must go in any case
  const auto found = newest_.find(step.change.path);
  return found != newest_.end() && found->second == step.number;
}

void Written::finish_step() {
  const Step step = std::move(steps_.front());
  steps_.pop_front();
  try_count_ = 0;
  for (const std::string& path : {step.change.path, step.change.to}) {
    const auto found = newest_.find(path);
    if (found == newest_.end() || found->second != step.number) continue;
    newest_.erase(found);
    forced_.erase(path);
  }
}

// What changed again since the flush was asked for is saved by a later step, in the order of the
// changes. The answer to the flush comes after that.
bool Written::must_pass_on() {
  const bool is_early = std::any_of(steps_.begin() + 1, steps_.end(), [&](const Step& later) {
    return !later.done &&
           (forced_.contains(later.change.path) || forced_.contains(later.change.to));
  });
  if (!is_early || steps_.front().passes == kPassesMax) return false;
  Step step = std::move(steps_.front());
  steps_.pop_front();
  ++step.passes;
  steps_.push_back(std::move(step));
  return true;
}

void Written::run_first() {
  const Step& step = steps_.front();
  if (step.done) {
    if (must_pass_on()) return;
    answer(step.done, failed_.empty() ? 0 : EIO);
    finish_step();
    return;
  }
  const Status status = is_current(step) ? apply(step) : Status();
  if (status.ok()) {
    failed_.erase(step.change.path);
    finish_step();
  } else if (is_general(status.error())) {
    note_blocked(status.error());
  } else {
    report(fmt::format("{}; it stays LOCAL", status.error().message()));
    failed_.insert(step.change.path);
    finish_step();
  }
}

void Written::note_blocked(const Error& error) {
  const int shift = std::min(try_count_, 10);
  const int pause_ms = std::min(kPauseMsMin << shift, kPauseMsMax);
  if (try_count_ == 0) {
    report(fmt::format("{}; files stay LOCAL, and it is tried again", error.message()));
  }
  if (++try_count_ >= kTriesMax) {
    for (Step& step : steps_) {
      if (!step.done) continue;
      answer(step.done, error.code() == Errc::kExhausted ? ENOSPC : EIO);
      step.done = [](int) {};
    }
  }
  wait(pause_ms);
}

Status Written::apply(const Step& step) {
  const TreeChange& change = step.change;
  switch (change.kind) {
    case Kind::kPut:
      return put(change.path, change.path, step.number);
    case Kind::kRemove:
      return remove(change.path);
    case Kind::kMove:
      return move(change.path, change.to, step.number);
    case Kind::kLost:
      break;
  }
  return {};
}

// Saves what is at `path` under the name `as`. If it is gone, a later step says where.
Status Written::put(const std::string& path, const std::string& as, uint64_t number) {
  struct stat status{};
  if (::lstat(in_tree(path).c_str(), &status) != 0) return {};
  RETURN_IF_ERROR(make_parents(as));
  if (S_ISDIR(status.st_mode)) return put_directory(as, status);
  const auto saved = saved_.find(as);
  const bool is_saved = saved != saved_.end() && saved->second.version == FileVersion::of(status);
  if (is_saved && saved->second.mode == status.st_mode) return {};
  if (S_ISLNK(status.st_mode)) return put_link(path, as, status);
  if (S_ISREG(status.st_mode)) return put_file(path, as, status, number);
  return {};  // pipes and sockets mean something on this node only
}

// Directories above a name, with the modes that they have in the tree.
Status Written::make_parents(const std::string& path) {
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string parent = path.substr(0, slash);
    struct stat status{};
    if (saved_.contains(parent) || ::stat(in_save(parent).c_str(), &status) == 0) continue;
    if (::stat(in_tree(parent).c_str(), &status) != 0) status.st_mode = S_IFDIR | 0755;
    RETURN_IF_ERROR(put_directory(parent, status));
  }
  return {};
}

Status Written::put_directory(const std::string& as, const struct stat& status) {
  const fs::path target = in_save(as);
  if (::mkdir(target.c_str(), status.st_mode & 07777) != 0) {
    struct stat found{};
    if (errno == EEXIST && ::stat(target.c_str(), &found) == 0 && S_ISDIR(found.st_mode)) return {};
    return fail_os(errno, "cannot create the directory").within(printable(target.string()));
  }
  ::chmod(target.c_str(), status.st_mode & 07777);  // mkdir(2) applies the umask
  saved_[as] = {.version = {}, .is_directory = true, .mode = status.st_mode};
  return sync_directory(target.parent_path());
}

Status Written::put_link(const std::string& path, const std::string& as,
                         const struct stat& status) {
  const auto link = read_link(in_tree(path));
  const bool is_others =
      options_.others != nullptr && options_.others->has_link(FileVersion::of(status));
  // Replaced a moment ago, or not ours.
  if (!link || wire::is_shown_target(*link) || is_others) return {};
  ASSIGN_OR_RETURN(
      DurableCopy copy,
      DurableCopy::of_link(
          *link, {.target = in_save(as), .token = token_, .status = status, .on_block = {}}));
  RETURN_IF_ERROR(copy.commit());
  note_saved(as,
             {.version = FileVersion::of(status), .is_directory = false, .mode = status.st_mode});
  return {};
}

Status Written::put_file(const std::string& path, const std::string& as, const struct stat& status,
                         uint64_t number) {
  auto source = File::open(in_tree(path), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!source.ok()) {
    if (source.error().code() == Errc::kNotFound) return {};
    return std::move(source).error();
  }
  const bool is_forced = forced_.contains(path);
  if (!is_forced && stays_open(*source)) return {};  // its close will come
  RETURN_IF_ERROR(log_.append({.kind = LogKind::kFlushing, .version = {}, .path = as}));
  auto copy = DurableCopy::of_file(
      *source, {.target = in_save(as), .token = token_, .status = status, .on_block = [this] {
                  take_changes();
                }});
  // What was renamed or closed while we copied is known now.
  take_changes();
  struct stat now{};
  const bool is_same =
      ::lstat(in_tree(path).c_str(), &now) == 0 && FileVersion::of(now) == FileVersion::of(status);
  const auto newest = newest_.find(path);
  const bool is_outdated = newest != newest_.end() && newest->second > number;
  if (is_outdated) return {};  // a later step saves it
  if (!is_same && (!is_forced || !copy.ok())) {
    add({.kind = Kind::kPut, .path = path, .to = {}});
    wait(kPauseForWritersMs);
    return {};
  }
  if (!copy.ok()) return std::move(copy).error();
  RETURN_IF_ERROR(copy->commit());
  note_saved(as,
             {.version = FileVersion::of(status), .is_directory = false, .mode = status.st_mode});
  return {};
}

void Written::note_saved(const std::string& path, Saved saved) {
  const Status status =
      log_.append({.kind = LogKind::kDurable, .version = saved.version, .path = path});
  if (!status.ok()) report(status.error().message());
  saved_[path] = saved;
  if (announcer_ != nullptr) announcer_->add_saved(path, saved.version);
}

void Written::note_gone(const std::string& path) {
  const Status status = log_.append({.kind = LogKind::kGone, .version = {}, .path = path});
  if (!status.ok()) report(status.error().message());
  if (announcer_ != nullptr) announcer_->add_gone(path);
}

Status Written::move(const std::string& from, const std::string& to, uint64_t number) {
  struct stat status{};
  const bool exists = ::lstat(in_tree(to).c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) return move_directory(from, to, number);
  const auto saved = saved_.find(from);
  const bool is_saved = saved != saved_.end() && !saved->second.is_directory &&
                        (!exists || saved->second.version == FileVersion::of(status));
  if (is_saved) {
    RETURN_IF_ERROR(make_parents(to));
    if (::rename(in_save(from).c_str(), in_save(to).c_str()) == 0) {
      rename_saved(from, to);
      RETURN_IF_ERROR(sync_directory(in_save(to).parent_path()));
      return sync_directory(in_save(from).parent_path());
    }
  }
  RETURN_IF_ERROR(put(to, to, number));
  return remove(from);
}

// All files are there before the directory gets its name. But if other nodes have files in it, each
// node moves its own.
Status Written::move_directory(const std::string& from, const std::string& to, uint64_t number) {
  struct stat status{};
  if (announcer_ != nullptr) RETURN_IF_ERROR(move_files(from, to));
  const bool is_new = announcer_ == nullptr && ::stat(in_save(to).c_str(), &status) != 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(in_tree(to), error), end; at != end;
       at.increment(error)) {
    const std::string path = to + at->path().string().substr(in_tree(to).string().size());
    RETURN_IF_ERROR(put(path, is_new ? from + path.substr(to.size()) : path, number));
  }
  if (is_new && ::stat(in_tree(to).c_str(), &status) == 0) {
    RETURN_IF_ERROR(make_parents(from));
    RETURN_IF_ERROR(put_directory(from, status));
    RETURN_IF_ERROR(make_parents(to));
    if (::rename(in_save(from).c_str(), in_save(to).c_str()) != 0) {
      return fail_os(errno, "cannot rename the directory")
          .within(printable(in_save(from).string()));
    }
    rename_saved(from, to);
    return sync_directory(in_save(to).parent_path());
  }
  return remove(from);
}

// What is saved below a directory, and still has that place in the new one.
Status Written::move_files(const std::string& from, const std::string& to) {
  std::vector<std::string> paths;
  for (const auto& [path, saved] : saved_) {
    if (!saved.is_directory && is_at_or_below(path, from)) paths.push_back(path);
  }
  for (const std::string& path : paths) {
    const std::string moved = to + path.substr(from.size());
    struct stat status{};
    const bool is_same = ::lstat(in_tree(moved).c_str(), &status) == 0 &&
                         FileVersion::of(status) == saved_[path].version;
    if (!is_same) continue;
    RETURN_IF_ERROR(make_parents(moved));
    if (::rename(in_save(path).c_str(), in_save(moved).c_str()) != 0) continue;  // copied again
    rename_saved(path, moved);
    RETURN_IF_ERROR(sync_directory(in_save(moved).parent_path()));
  }
  return {};
}

void Written::rename_saved(const std::string& from, const std::string& to) {
  std::map<std::string, Saved> moved;
  for (auto at = saved_.lower_bound(from); at != saved_.end() && at->first.starts_with(from);) {
    if (!is_at_or_below(at->first, from)) {
      ++at;
      continue;
    }
    moved.emplace(to + at->first.substr(from.size()), at->second);
    if (!at->second.is_directory) note_gone(at->first);
    at = saved_.erase(at);
  }
  for (const auto& [path, saved] : moved) {
    if (saved.is_directory) {
      saved_[path] = saved;
    } else {
      note_saved(path, saved);
    }
  }
}

// Only what we have made, and only if it has not come back.
Status Written::remove(const std::string& path) {
  std::vector<std::string> names;
  for (auto at = saved_.lower_bound(path); at != saved_.end() && at->first.starts_with(path);
       ++at) {
    if (is_at_or_below(at->first, path)) names.push_back(at->first);
  }
  for (auto name = names.rbegin(); name != names.rend(); ++name) {  // what is below comes first
    struct stat status{};
    if (::lstat(in_tree(*name).c_str(), &status) == 0) continue;
    const bool is_directory = saved_[*name].is_directory;
    const fs::path target = in_save(*name);
    const int outcome = is_directory ? ::rmdir(target.c_str()) : ::unlink(target.c_str());
    const bool is_gone = outcome == 0 || errno == ENOENT || errno == ENOTEMPTY;
    if (!is_gone) return fail_os(errno, "cannot remove it").within(printable(target.string()));
    saved_.erase(*name);
    if (!is_directory) note_gone(*name);
  }
  if (announcer_ != nullptr) remove_empty(path);
  return {};
}

// A directory may have been made by another node, and have files of several: the last one that
// removes its files also removes the directory.
void Written::remove_empty(const std::string& directory) const {
  struct stat status{};
  if (::lstat(in_tree(directory).c_str(), &status) == 0) return;
  std::vector<fs::path> found = {in_save(directory)};
  std::error_code error;
  if (::lstat(found[0].c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return;
  for (fs::recursive_directory_iterator at(found[0], error), end; at != end; at.increment(error)) {
    if (at->is_directory(error) && !at->is_symlink(error)) found.push_back(at->path());
  }
  for (auto path = found.rbegin(); path != found.rend(); ++path) ::rmdir(path->c_str());
}

void Written::report(const std::string& line) const {
  if (options_.log) options_.log(line);
}

}  // namespace millrace::store
