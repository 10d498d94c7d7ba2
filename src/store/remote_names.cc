#include "store/remote_names.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <tuple>
#include <utility>

#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"
#include "store/file_times.h"
#include "wire/store_name.h"
#include "wire/store_state.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

using wire::PeerNameChange;

bool has_same_bytes(const FileVersion& a, const FileVersion& b) {
  return a.size_bytes == b.size_bytes && a.mtime_ns == b.mtime_ns;
}

}  // namespace

RemoteNames::RemoteNames(const Catalogue& catalogue, Peers& peers, RemoteNamesOptions options)
    : catalogue_(catalogue), peers_(peers), options_(std::move(options)) {}

fs::path RemoteNames::in_tree(const std::string& path) const {
  return options_.node / wire::kStoreTreeDirectory / path;
}

std::string RemoteNames::shown_link(const fs::path& real) {
  return std::string(wire::kShownPrefix) + real.native().substr(1);
}

uint64_t RemoteNames::copy_bytes(uint64_t file_bytes) { return (file_bytes + 4095) / 4096 * 4096; }

fs::path RemoteNames::in_fetched(uint64_t id) const {
  return options_.node / wire::kStoreFetchedDirectory / fmt::format("{}", id);
}

void RemoteNames::report(const std::string& line) const {
  if (options_.log) options_.log(line);
}

// ---- names --------------------------------------------------------------------------------------

Status RemoteNames::note(Rank from, const NameNews& news) {
  const bool is_moved = news.change == PeerNameChange::kMoved;
  const std::string paths[] = {news.path, is_moved ? news.to : std::string()};
  for (const std::string& path : paths) {
    if (!is_safe_path(path) || (!path.empty() && catalogue_.find(path))) {
      return fail(Errc::kInvalidArgument, "'{}' is not a name that a program can create",
                  printable(path));
    }
  }
  const std::lock_guard lock(mutex_);
  for (const std::string& path : paths) RETURN_IF_ERROR(check_parents(path));
  remove_retired();
  changed_.notify_all();
  switch (news.change) {
    case PeerNameChange::kPut:
      return S_ISDIR(news.mode) ? note_directory(news) : note_put(from, news);
    case PeerNameChange::kSaved:
      return note_saved(from, news);
    case PeerNameChange::kRemoved:
      note_removed(from, news);
      return {};
    case PeerNameChange::kMoved:
      return note_moved(news);
  }
  return {};
}

// What is above a name is a directory, or does not exist. A program of this node may have made a
// symbolic link that leads out of the tree, while one of another node made a directory: nothing may
// change behind the link.
Status RemoteNames::check_parents(const std::string& path) const {
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string parent = path.substr(0, slash);
    const auto entry = catalogue_.find(parent);
    struct stat status{};
    const bool is_other =
        (entry && catalogue_.entry(*entry).kind != wire::EntryKind::kDirectory) ||
        (::lstat(in_tree(parent).c_str(), &status) == 0 && !S_ISDIR(status.st_mode));
    if (is_other) {
      return fail(Errc::kInvalidArgument, "{}: {} is not a directory on this node", printable(path),
                  printable(parent));
    }
  }
  return {};
}

// Whether it is a file or link of this node.
bool RemoteNames::is_own(const std::string& path, const struct stat& status) const {
  if (!S_ISLNK(status.st_mode)) return S_ISREG(status.st_mode);
  const auto target = read_link(in_tree(path));
  return target && !wire::is_shown_target(*target) && !links_.contains(FileVersion::of(status));
}

// Whether what has the name here counts, and not that of the other node.
bool RemoteNames::is_newer_here(Rank from, const NameNews& news) {
  const auto theirs = std::tuple(news.version.mtime_ns, from);
  const auto replaces = [](const FileVersion& base, const FileVersion& version) {
    return base.mtime_ns != 0 && has_same_bytes(base, version);
  };
  struct stat status{};
  const bool exists = ::lstat(in_tree(news.path).c_str(), &status) == 0;
  if (exists && is_own(news.path, status)) {
    const FileVersion own = FileVersion::of(status);
    const auto file = File::open(in_tree(news.path), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    const bool is_open = file.ok() && has_writers(*file);
    if (!is_open && replaces(news.base, own)) return false;
    if (is_open || !has_same_bytes(own, news.version)) {
      report(
          fmt::format("{} was written on {} and on this node at the same time; the file that was "
                      "changed last counts, and the other one is lost",
                      printable(news.path), peers_.name_of(from)));
    }
    return is_open || std::tuple(own.mtime_ns, peers_.own()) > theirs;
  }
  if (exists && !S_ISLNK(status.st_mode)) return true;
  const auto known = names_.find(news.path);
  if (known == names_.end() || known->second.rank == from) return false;
  const Name& name = known->second;
  if (replaces(news.base, name.version)) return false;
  return replaces(name.base, news.version) || std::tuple(name.version.mtime_ns, name.rank) > theirs;
}

// Whether this is the file that a program of this node has taken, told once more. If the program
// has changed it, the others hear so.
bool RemoteNames::was_taken(const NameNews& news) const {
  const auto taken = taken_.find(news.path);
  struct stat status{};
  if (taken == taken_.end() || news.base != FileVersion() ||
      !has_same_bytes(taken->second, news.version) ||
      ::lstat(in_tree(news.path).c_str(), &status) != 0 || !is_own(news.path, status)) {
    return false;
  }
  if (!has_same_bytes(FileVersion::of(status), news.version)) {
    options_.tell_again(news.path, news.version);
  }
  return true;
}

Status RemoteNames::note_put(Rank from, const NameNews& news) {
  if (was_taken(news)) return {};
  if (is_newer_here(from, news)) {
    options_.tell_again(news.path, {});
    return {};
  }
  RETURN_IF_ERROR(make_parents(news.path));
  options_.replace(news.path);
  Name name{.rank = from,
            .id = ++last_id_,
            .version = news.version,
            .base = news.base,
            .mode = news.mode & 07777};
  if (S_ISLNK(news.mode)) {
    name.bytes = Bytes::kLink;
    name.target = news.to;
    RETURN_IF_ERROR(make_link(news.path, name));
  } else {
    RETURN_IF_ERROR(link_remote(news.path, name));
  }
  const auto known = names_.find(news.path);
  if (known != names_.end()) retire(known->second);
  names_.insert_or_assign(news.path, name);
  paths_[name.id] = news.path;
  return {};
}

// What is unknown is a file that was open, or that is one of this node now.
Status RemoteNames::note_saved(Rank from, const NameNews& news) {
  if (options_.save.empty()) return {};
  const auto known = names_.find(news.path);
  if (known == names_.end()) {
    struct stat status{};
    if (::lstat(in_tree(news.path).c_str(), &status) == 0) return {};
    RETURN_IF_ERROR(make_parents(news.path));
    options_.replace(news.path);
    Name name{.rank = from, .id = ++last_id_, .version = news.version};
    RETURN_IF_ERROR(link_saved(news.path, name));
    paths_[name.id] = news.path;
    names_.emplace(news.path, name);
    return {};
  }
  Name& name = known->second;
  const bool is_this = name.rank == from && has_same_bytes(name.version, news.version);
  name.is_durable = name.is_durable || is_this;
  return {};
}

Status RemoteNames::note_directory(const NameNews& news) {
  struct stat status{};
  if (::lstat(in_tree(news.path).c_str(), &status) == 0) return {};
  RETURN_IF_ERROR(make_parents(news.path + '/'));
  ::chmod(in_tree(news.path).c_str(), news.mode & 07777);
  return {};
}

void RemoteNames::note_removed(Rank from, const NameNews& news) {
  struct stat status{};
  const bool exists = ::lstat(in_tree(news.path).c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) {
    remove_directory(from, news.path);
    return;
  }
  if (exists && is_own(news.path, status)) {
    remove_own(news.path, FileVersion::of(status), news);
    return;
  }
  const auto known = names_.find(news.path);
  if (known == names_.end()) return;
  const Name& name = known->second;
  if (name.rank == from || has_same_bytes(name.version, news.version)) drop(known);
}

// It is a file of this node. If it is another one than the other node means, it stays.
void RemoteNames::remove_own(const std::string& path, const FileVersion& here,
                             const NameNews& news) {
  if (!has_same_bytes(here, news.version)) {
    options_.tell_again(path, {});
    return;
  }
  options_.expect_removal(path);
  if (::unlink(in_tree(path).c_str()) != 0) options_.tell_again(path, {});
}

// With what the other node has moved out of the tree. What cannot be removed is there again for
// all.
void RemoteNames::remove_directory(Rank from, const std::string& path) {
  for (auto at = names_.begin(); at != names_.end();) {
    const auto name = at++;
    if (name->second.rank == from && is_at_or_below(name->first, path)) drop(name);
  }
  std::vector<std::string> below;
  for (const std::string& made : made_directories_) {
    if (made != path && is_at_or_below(made, path)) below.push_back(made);
  }
  for (auto made = below.rbegin(); made != below.rend(); ++made) {
    if (::rmdir(in_tree(*made).c_str()) == 0) made_directories_.erase(*made);
  }
  options_.expect_removal(path);
  if (::rmdir(in_tree(path).c_str()) == 0) {
    made_directories_.erase(path);
  } else {
    options_.tell_again(path, {});
  }
}

// As on a shared file system: whoever created it, and whatever had the new name. The version is
// that of a file of the other node; another file of this name stays.
Status RemoteNames::note_moved(const NameNews& news) {
  struct stat status{};
  const bool exists = ::lstat(in_tree(news.path).c_str(), &status) == 0;
  const bool is_another = exists && is_own(news.path, status) && news.version != FileVersion() &&
                          !has_same_bytes(FileVersion::of(status), news.version);
  if (!exists || is_another) {
    return fail(Errc::kNotFound, "{} is not on this node", printable(news.path));
  }
  RETURN_IF_ERROR(make_parents(news.to));
  options_.expect_move(news.path, news.to);
  if (::rename(in_tree(news.path).c_str(), in_tree(news.to).c_str()) != 0) {
    Error error = fail_os(errno, "cannot rename it").within(printable(in_tree(news.path).string()));
    report(error.message());
    options_.tell_again(news.path, {});
    return error;
  }
  move_names(news.path, news.to);
  return {};
}

void RemoteNames::move_names(const std::string& from, const std::string& to) {
  if (const auto replaced = names_.find(to); replaced != names_.end()) {
    retire(replaced->second);
    names_.erase(replaced);
  }
  Names moved;
  for (auto at = names_.begin(); at != names_.end();) {
    const auto name = at++;
    if (is_at_or_below(name->first, from)) moved.insert(names_.extract(name));
  }
  for (auto& [old_path, name] : moved) {
    const std::string path = to + old_path.substr(from.size());
    if (name.bytes == Bytes::kSaved) {  // under the old name
      name.bytes = Bytes::kThere;
      name.is_durable = false;
      const Status status = link_remote(path, name);
      if (!status.ok()) report(status.error().message());
    }
    paths_[name.id] = path;
    names_.insert_or_assign(path, name);
  }
  std::vector<std::string> directories;
  for (const std::string& made : made_directories_) {
    if (is_at_or_below(made, from)) directories.push_back(made);
  }
  for (const std::string& made : directories) {
    made_directories_.erase(made);
    made_directories_.insert(to + made.substr(from.size()));
  }
}

std::optional<NameNews> RemoteNames::take_removed(const std::string& path) {
  const std::lock_guard lock(mutex_);
  struct stat status{};
  if (::lstat(in_tree(path).c_str(), &status) == 0) return std::nullopt;  // it is there again
  NameNews news{.change = PeerNameChange::kRemoved, .path = path, .to = {}, .version = {}};
  if (const auto known = names_.find(path); known != names_.end()) {
    news.version = known->second.version;
    retire(known->second);
    names_.erase(known);
    return news;
  }
  if (made_directories_.erase(path) == 0) return std::nullopt;
  return news;
}

bool RemoteNames::take_moved(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  struct stat status{};
  if (::lstat(in_tree(from).c_str(), &status) == 0) return false;  // it is there again
  const auto is_moved = [&](const std::string& path) { return is_at_or_below(path, from); };
  const bool has_any = std::any_of(names_.begin(), names_.end(),
                                   [&](const auto& name) { return is_moved(name.first); }) ||
                       std::any_of(made_directories_.begin(), made_directories_.end(), is_moved);
  if (has_any) move_names(from, to);
  return has_any;
}

void RemoteNames::restore(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto known = names_.find(path);
  struct stat status{};
  if (known == names_.end() || ::lstat(in_tree(path).c_str(), &status) == 0) return;
  if (known->second.bytes == Bytes::kFetched) {
    static_cast<void>(link(path, known->second, shown_link(in_fetched(known->second.id))));
  } else if (known->second.bytes == Bytes::kLink) {
    static_cast<void>(make_link(path, known->second));
  } else {
    known->second.bytes = Bytes::kThere;
    static_cast<void>(link_remote(path, known->second));
  }
}

FileVersion RemoteNames::claim(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto known = names_.find(path);
  struct stat status{};
  if (known == names_.end() || ::lstat(in_tree(path).c_str(), &status) != 0 ||
      !is_own(path, status)) {
    return {};
  }
  const FileVersion version = known->second.version;
  retire(known->second);
  names_.erase(known);
  return version;
}

bool RemoteNames::has_link(const FileVersion& version) {
  const std::lock_guard lock(mutex_);
  return links_.contains(version);
}

std::set<FileVersion> RemoteNames::links() {
  const std::lock_guard lock(mutex_);
  return links_;
}

std::vector<RemoteFile> RemoteNames::list_not_durable(Rank rank) {
  const std::lock_guard lock(mutex_);
  std::vector<RemoteFile> files;
  for (const auto& [path, name] : names_) {
    if (name.rank != rank || name.is_durable || is_saved(path, name)) continue;
    files.push_back({.path = path,
                     .rank = static_cast<uint32_t>(comm::index_of(rank)),
                     .size_bytes = name.version.size_bytes});
  }
  return files;
}

bool RemoteNames::has_made(const std::string& directory) {
  const std::lock_guard lock(mutex_);
  return made_directories_.contains(directory);
}

Status RemoteNames::make_parents(const std::string& path) {
  // The directory of the catalogue is watched first: then what our own programs create in the new
  // directories is seen.
  std::string above = path;
  std::optional<uint32_t> entry;
  while (!entry) {
    const size_t slash = above.rfind('/');
    above.resize(slash == std::string::npos ? 0 : slash);
    entry = catalogue_.find(above);
  }
  if (options_.watch) options_.watch(*entry);
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string parent = path.substr(0, slash);
    if (::mkdir(in_tree(parent).c_str(), 0755) == 0) {
      made_directories_.insert(parent);
      if (options_.watch_made) options_.watch_made(parent);
    } else if (errno != EEXIST) {
      return fail_os(errno, "cannot create it").within(printable(in_tree(parent).string()));
    }
  }
  return {};
}

fs::path RemoteNames::new_name() {
  return options_.node / wire::kStoreMakingDirectory / fmt::format("shown-{}", made_count_++);
}

Status RemoteNames::link(const std::string& path, Name& name, const std::string& target) {
  const fs::path place = in_tree(path);
  const fs::path temporary = new_name();
  struct stat status{};
  bool is_made = ::symlink(target.c_str(), temporary.c_str()) == 0;
  if (is_made && name.bytes == Bytes::kLink) {  // the others are not looked at by themselves
    ::utimensat(AT_FDCWD, temporary.c_str(), FileTimes(name.version.mtime_ns).times,
                AT_SYMLINK_NOFOLLOW);
  }
  is_made = is_made && ::lstat(temporary.c_str(), &status) == 0;
  if (is_made && name.bytes == Bytes::kLink) {
    links_.insert(FileVersion::of(status));
    options_.log_link(path, FileVersion::of(status));
  }
  if (!is_made || ::rename(temporary.c_str(), place.c_str()) != 0) {
    Error error = fail_os(errno, "cannot create it");
    ::unlink(temporary.c_str());
    return std::move(error).within(printable(place.string()));
  }
  name.link_inode = status.st_ino;
  return {};
}

Status RemoteNames::make_link(const std::string& path, Name& name) {
  return link(path, name, name.target);
}

// Empty until it is fetched: stat shows its inode, and access its mode, from now on.
Status RemoteNames::reserve_copy(const Name& name) const {
  ASSIGN_OR_RETURN(const File copy,
                   File::open(in_fetched(name.id), O_WRONLY | O_CREAT | O_NOFOLLOW, 0600));
  if (::fchmod(copy.fd(), name.mode & 07777) == 0) return {};
  return fail_os(errno, "cannot set its mode").within(printable(in_fetched(name.id).string()));
}

Status RemoteNames::link_remote(const std::string& path, Name& name) {
  RETURN_IF_ERROR(reserve_copy(name));
  return link(path, name,
              fmt::format("{}{}/{}/{}/{:o}/{}", wire::kRemotePrefix, comm::index_of(name.rank),
                          name.id, name.version.size_bytes, name.mode, name.version.mtime_ns));
}

Status RemoteNames::link_saved(const std::string& path, Name& name) {
  RETURN_IF_ERROR(link(path, name, shown_link(options_.save / path)));
  ::unlink(in_fetched(name.id).c_str());
  name.bytes = Bytes::kSaved;
  name.is_durable = true;
  return {};
}

// This version. Its node may have had no time to say so.
bool RemoteNames::is_saved(const std::string& path, const Name& name) const {
  if (name.bytes == Bytes::kLink) {
    return !options_.save.empty() && read_link(options_.save / path) == name.target;
  }
  struct stat status{};
  return !options_.save.empty() && ::stat((options_.save / path).c_str(), &status) == 0 &&
         has_same_bytes(FileVersion::of(status), name.version);
}

void RemoteNames::drop(Names::iterator name) {
  const std::string path = name->first;
  retire(name->second);
  names_.erase(name);
  struct stat status{};
  const bool exists = ::lstat(in_tree(path).c_str(), &status) == 0;
  if (exists && S_ISLNK(status.st_mode) && !is_own(path, status)) {
    ::unlink(in_tree(path).c_str());
  }
}

// A client may have read the link a moment ago.
void RemoteNames::retire(const Name& name) {
  paths_.erase(name.id);
  if (name.bytes != Bytes::kFetched) {
    ::unlink(in_fetched(name.id).c_str());
    return;
  }
  retired_.push_back({.file = in_fetched(name.id),
                      .bytes = copy_bytes(name.version.size_bytes),
                      .since = monotonic_now()});
}

void RemoteNames::remove_retired() {
  while (!retired_.empty() &&
         monotonic_now() - retired_.front().since > options_.retired_patience) {
    ::unlink(retired_.front().file.c_str());
    options_.release(retired_.front().bytes);
    retired_.pop_front();
  }
}

}  // namespace millrace::store
