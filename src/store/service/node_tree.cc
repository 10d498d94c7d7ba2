#include "store/service/node_tree.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/system/memory.h"
#include "base/text/text.h"
#include "store/pack/open_below.h"
#include "store/pack/sparse_writer.h"

namespace millrace::store {
namespace {

using wire::CatalogueEntry;
using wire::EntryKind;

// A directory must let us in, whatever its mode was. Programs see the mode of the catalogue.
constexpr unsigned kOwnerEnters = 0700;

// How many reads ahead a file may replace another. An eighth of the files hides the time of
// fetching; more would turn the storage into a queue in front of the loader, which fetches every
// file again in each epoch and keeps none (measured: 3 % hits instead of 22 %).
uint64_t ahead_max(uint64_t held_count) { return std::clamp<uint64_t>(held_count / 8, 4, 4096); }

// Limits of what is done at once with the lock: files to look at for one that nobody has open,
// files to remove for one, and reads to look at for one whose file is not there.
constexpr size_t kLookAtMax = 64;
constexpr size_t kEvictMax = 1024;
constexpr int kSkipMax = 1 << 16;

}  // namespace

Result<std::unique_ptr<NodeTree>> NodeTree::create(const Catalogue& catalogue,
                                                   const MemberSources& sources,
                                                   NodeTreeOptions options) {
  std::unique_ptr<NodeTree> made(new NodeTree(catalogue, sources, std::move(options)));
  ASSIGN_OR_RETURN(made->tree_, open_directory(made->options_.tree.string()));
  ASSIGN_OR_RETURN(made->making_, open_directory(made->options_.making.string()));
  RETURN_IF_ERROR(made->make_directories_and_links());
  return made;
}

Status NodeTree::make_directories_and_links() {
  const auto shown = [&](uint32_t index, Status status) {
    if (status.ok()) return status;
    return std::move(status).within(printable((options_.tree / catalogue_.path(index)).string()));
  };
  const uint32_t count = catalogue_.entry_count();
  for (uint32_t i = 0; i < count; ++i) {  // parents come first
    const EntryKind kind = catalogue_.entry(i).kind;
    if (kind == EntryKind::kDirectory) RETURN_IF_ERROR(shown(i, make_directory(i)));
    if (kind == EntryKind::kLink) RETURN_IF_ERROR(shown(i, make_link(i)));
  }
  for (uint32_t i = 0; i < count; ++i) {  // now that nothing is added
    const CatalogueEntry entry = catalogue_.entry(i);
    if (entry.kind != EntryKind::kDirectory) continue;
    ASSIGN_OR_RETURN(const File directory,
                     open_below(tree_, catalogue_.path(i), O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    if (::futimens(directory.fd(), FileTimes(entry.mtime_ns).times) != 0) {
      return shown(i, fail_os(errno, "cannot set its time"));
    }
  }
  return {};
}

Status NodeTree::make_directory(uint32_t index) {
  const unsigned mode = catalogue_.entry(index).mode | kOwnerEnters;
  const std::string path = catalogue_.path(index);
  const std::string name = index == wire::kRootEntry ? "." : base_name(path);
  ASSIGN_OR_RETURN(const File parent, open_parent(tree_, path));
  if (index != wire::kRootEntry && ::mkdirat(parent.fd(), name.c_str(), kOwnerEnters) != 0) {
    return fail_os(errno, "cannot create the directory");
  }
  // mkdir(2) applies the umask.
  if (::fchmodat(parent.fd(), name.c_str(), mode, 0) != 0) {
    return fail_os(errno, "cannot set its mode");
  }
  return {};
}

Status NodeTree::make_link(uint32_t index) {
  return make_link_below(tree_, catalogue_.path(index), catalogue_.link_target(index),
                         catalogue_.entry(index).mtime_ns);
}

void NodeTree::make(uint64_t index, BlockCodec& codec, MadeCallback done) {
  if (!is_file_in(catalogue_, index)) return done(EINVAL);
  const auto entry = static_cast<uint32_t>(index);
  bool is_made = false;
  {
    const MutexLock lock(mutex_);
    is_made = uses_.is_held(entry);
    if (!in_making_.begin(entry, done)) return;
  }
  // A client asks for a file that is there if it lost a race, or if someone removed the file.
  const int error = is_made && is_there(entry) ? 0 : make_first(entry, codec, is_made);
  end(entry, error, done);
}

// Tells whoever waits.
void NodeTree::end(uint32_t index, int os_error, const MadeCallback& done) {
  std::vector<MadeCallback> waiting;
  {
    const MutexLock lock(mutex_);
    waiting = in_making_.end(index);
    if (os_error == 0) {
      uses_.hold(index);
    } else {
      uses_.let_go(index);
    }
  }
  if (done) done(os_error);
  for (const MadeCallback& other : waiting) other(os_error);
}

// If someone removed a file that was made, its bytes are still reserved.
int NodeTree::make_first(uint32_t index, BlockCodec& codec, bool is_reserved) {
  std::vector<File> removed;
  if (!is_reserved) {
    const MutexLock lock(mutex_);
    if (!make_room(footprint(index), uses_.next_use(index), removed)) return ENOSPC;
  }
  removed.clear();
  return make_reserved(index, codec);
}

int NodeTree::make_reserved(uint32_t index, BlockCodec& codec) {
  const uint64_t bytes = footprint(index);
  const Status status = make_file(index, codec);
  if (status.ok()) return 0;
  used_bytes_ -= bytes;
  if (options_.on_problem) options_.on_problem(status.error());
  return os_error_of(status.error());
}

uint64_t NodeTree::footprint(uint32_t index) const {
  const uint64_t page = page_bytes();
  return (catalogue_.entry(index).size_bytes + page - 1) / page * page;
}

bool NodeTree::reserve(uint64_t bytes) {
  uint64_t used = used_bytes_;
  do {
    if (used > options_.capacity_bytes || bytes > options_.capacity_bytes - used) return false;
  } while (!used_bytes_.compare_exchange_weak(used, used + bytes));
  return true;
}

// ---- the coming reads ----

uint64_t NodeTree::add_order() {
  const MutexLock lock(mutex_);
  return uses_.add_order();
}

void NodeTree::append_order(uint64_t order, std::span<const uint32_t> entries) {
  const MutexLock lock(mutex_);
  uses_.append(order, entries);
}

void NodeTree::advance_order(uint64_t order, uint64_t position) {
  const MutexLock lock(mutex_);
  uses_.advance(order, position);
}

void NodeTree::remove_order(uint64_t order) {
  const MutexLock lock(mutex_);
  uses_.remove_order(order);
}

std::optional<uint32_t> NodeTree::take_next() {
  std::vector<File> removed;
  const MutexLock lock(mutex_);
  for (int i = 0; i < kSkipMax; ++i) {
    const auto wanted = uses_.wanted();
    if (!wanted) return std::nullopt;
    const uint32_t entry = wanted->entry;
    const uint64_t bytes = footprint(entry);
    const bool is_needed = catalogue_.entry(entry).kind == EntryKind::kFile &&
                           bytes <= options_.capacity_bytes && !uses_.is_held(entry) &&
                           !in_making_.contains(entry);
    if (is_needed) {
      const bool is_reserved = reserve(bytes);
      if (!is_reserved && wanted->ahead >= ahead_max(uses_.held_count())) return std::nullopt;
      if (!is_reserved && !make_room(bytes, wanted->time, removed)) return std::nullopt;
      in_making_.begin(entry);
    }
    uses_.skip_wanted();
    if (is_needed) return entry;
  }
  return std::nullopt;
}

int NodeTree::make_taken(uint32_t index, BlockCodec& codec) {
  const int os_error = make_reserved(index, codec);
  end(index, os_error, {});
  return os_error;
}

// Reserves the bytes. Files that are needed later than `needed_at` go, the latest first (Belady).
bool NodeTree::make_room(uint64_t bytes, UseTime needed_at, std::vector<File>& removed) {
  if (reserve(bytes)) return true;
  if (bytes > options_.capacity_bytes) return false;
  for (bool has_evicted = true; has_evicted && removed.size() < kEvictMax;) {
    has_evicted = false;
    for (const uint32_t index : uses_.replaceable(needed_at, kLookAtMax)) {
      if (in_making_.contains(index) || !evict(index, removed)) continue;
      if (reserve(bytes)) return true;
      has_evicted = true;
    }
  }
  return false;
}

// Removes the file, unless somebody has it open: its bytes would not become free. A lease is
// granted only for a file that nobody else has open. File systems without leases cannot tell;
// there, an open file goes on until it is closed, and its bytes are not counted.
bool NodeTree::evict(uint32_t index, std::vector<File>& removed) {
  const std::string path = catalogue_.path(index);
  auto file = open_below(tree_, path, O_RDONLY | O_NOFOLLOW);
  if (!file.ok() && file.error().code() != Errc::kNotFound) return false;
  if (file.ok()) {
    ::fcntl(file->fd(), F_SETSIG, SIGURG);  // ignored; by default it would be SIGIO, which kills
    if (::fcntl(file->fd(), F_SETLEASE, F_WRLCK) != 0 && (errno == EAGAIN || errno == EBUSY)) {
      return false;
    }
    // At once: whoever opens it now waits for this, and has a file without a name afterwards.
    ::fcntl(file->fd(), F_SETLEASE, F_UNLCK);
    const auto parent = open_parent(tree_, path);
    if (!parent.ok() || ::unlinkat(parent->fd(), base_name(path).c_str(), 0) != 0) return false;
    const FileTimes times(catalogue_.entry(catalogue_.entry(index).parent).mtime_ns);
    ::utimensat(parent->fd(), ".", times.times, 0);
    removed.push_back(*std::move(file));
  }
  uses_.want_again(uses_.next_use(index));
  uses_.let_go(index);
  used_bytes_ -= footprint(index);
  if (options_.on_gone) options_.on_gone(catalogue_.entry(index).size_bytes);
  ++evicted_count_;
  return true;
}

bool NodeTree::is_there(uint32_t index) const {
  return open_below(tree_, catalogue_.path(index), O_PATH | O_NOFOLLOW).ok();
}

Status NodeTree::make_file(uint32_t index, BlockCodec& codec) {
  const std::string name = std::to_string(index);
  const uint64_t size_bytes = catalogue_.entry(index).size_bytes;
  Status status = write_file(index, name, codec);
  if (status.ok()) {
    if (options_.on_made) options_.on_made(size_bytes);
    status = publish(index, name);
    if (!status.ok() && options_.on_gone) options_.on_gone(size_bytes);
  }
  if (!status.ok()) ::unlinkat(making_.fd(), name.c_str(), 0);
  return status;
}

Status NodeTree::write_file(uint32_t index, const std::string& name, BlockCodec& codec) {
  const CatalogueEntry entry = catalogue_.entry(index);
  Status failed;
  for (const MemberSource& source : sources_) {
    if (!source.has(index)) continue;
    // A peer that does not answer has been reported, once.
    const bool is_news = !failed.ok() && failed.error().code() != Errc::kTimeout;
    if (is_news && options_.on_problem) options_.on_problem(failed.error());
    constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW;
    ASSIGN_OR_RETURN(File file, open_below(making_, name, kFlags, 0600));
    SparseWriter writer(file);
    Status status = source.read(index, codec, [&](ByteView block) { return writer.add(block); });
    if (status.ok()) status = writer.finish();
    if (!status.ok()) {
      failed = std::move(status);
      if (failed.error().code() == Errc::kExhausted) break;  // another source would not help
      continue;
    }
    RETURN_IF_ERROR(set_mode_and_time(file, entry.mode, entry.mtime_ns));
    return file.close();
  }
  if (!failed.ok()) return failed;
  return fail(Errc::kNotFound, "{}: the partition is not on this node",
              describe_member(catalogue_, index));
}

Status NodeTree::publish(uint32_t index, const std::string& name) {
  const std::string path = catalogue_.path(index);
  const FileTimes times(catalogue_.entry(catalogue_.entry(index).parent).mtime_ns);
  ASSIGN_OR_RETURN(const File parent, open_parent(tree_, path));
  if (::renameat(making_.fd(), name.c_str(), parent.fd(), base_name(path).c_str()) != 0) {
    return fail_os(errno, "cannot rename the file").within(printable(path));
  }
  // The new name has changed the time of the directory. Nobody is harmed if this fails.
  ::utimensat(parent.fd(), ".", times.times, 0);
  return {};
}

}  // namespace millrace::store
