#include "store/service/node_arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/text/text.h"

namespace millrace::store {
namespace {

using wire::kPlaceAlignment;
using wire::kPlaceNone;
using wire::kPlaceRefused;

// A file of that length, without blocks.
Result<File> make_sparse_file(const std::filesystem::path& path, uint64_t size_bytes) {
  ASSIGN_OR_RETURN(File file, File::open(path, O_RDWR | O_CREAT | O_EXCL, 0600));
  if (::ftruncate(file.fd(), static_cast<off_t>(size_bytes)) == 0) return file;
  return fail_os(errno, "cannot set its length").within(printable(path.string()));
}

}  // namespace

Result<std::unique_ptr<NodeArena>> NodeArena::create(const Catalogue& catalogue,
                                                     const MemberSources& sources, NodeTree& tree,
                                                     NodeArenaOptions options) {
  std::unique_ptr<NodeArena> made(new NodeArena(catalogue, sources, tree, std::move(options)));
  RETURN_IF_ERROR(made->make_files());
  return made;
}

Status NodeArena::make_files() {
  // Not more than the whole dataset with the gaps between its files.
  const uint64_t all_bytes =
      catalogue_.content_bytes() + (uint64_t{catalogue_.entry_count()} + 1) * kPlaceAlignment;
  arena_bytes_ = std::min(all_bytes, options_.capacity_bytes + kPlaceAlignment);
  ASSIGN_OR_RETURN(arena_,
                   make_sparse_file(options_.directory / wire::kStoreArenaFile, arena_bytes_));
  const uint64_t places_bytes = uint64_t{catalogue_.entry_count()} * sizeof(uint64_t);
  const std::filesystem::path path = options_.directory / wire::kStorePlacesFile;
  ASSIGN_OR_RETURN(const File places, File::open(path, O_RDWR | O_CREAT | O_EXCL, 0600));
  // Not a hole: on a full tmpfs, reading a mapped one ends the program by SIGBUS.
  if (const int error = ::posix_fallocate(places.fd(), 0, static_cast<off_t>(places_bytes));
      error != 0) {
    return fail_os(error, "cannot make room").within(printable(path.string()));
  }
  void* memory = ::mmap(nullptr, places_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, places.fd(), 0);
  if (memory == MAP_FAILED) return fail_os(errno, "cannot map").within(printable(path.string()));
  places_ = static_cast<uint64_t*>(memory);
  return {};
}

NodeArena::~NodeArena() {
  if (places_ != nullptr) {
    ::munmap(places_, uint64_t{catalogue_.entry_count()} * sizeof(uint64_t));
  }
}

void NodeArena::place(uint64_t index, BlockCodec& codec, MadeCallback done) {
  if (!is_file_in(catalogue_, index)) return done(EINVAL);
  const auto entry = static_cast<uint32_t>(index);
  {
    const MutexLock lock(mutex_);
    if (!in_making_.begin(entry, done)) return;
  }
  const int error = place_first(entry, codec);
  std::vector<MadeCallback> waiting;
  {
    const MutexLock lock(mutex_);
    waiting = in_making_.end(entry);
  }
  done(error);
  for (const MadeCallback& other : waiting) other(error);
}

int NodeArena::place_first(uint32_t entry, BlockCodec& codec) {
  const uint64_t known = place_of(entry).load(std::memory_order_acquire);
  if (known == kPlaceRefused) return ENOSPC;
  if (known != kPlaceNone) return 0;
  const uint64_t size_bytes = catalogue_.entry(entry).size_bytes;
  const uint64_t room_bytes =
      (size_bytes + kPlaceAlignment - 1) / kPlaceAlignment * kPlaceAlignment;
  if (!tree_.reserve(room_bytes)) {
    place_of(entry).store(kPlaceRefused, std::memory_order_release);
    return ENOSPC;
  }
  const uint64_t offset_bytes = next_.fetch_add(room_bytes);
  const Status status = offset_bytes + room_bytes <= arena_bytes_
                            ? write(entry, offset_bytes, codec)
                            : fail(Errc::kExhausted, "the arena is full");
  place_of(entry).store(status.ok() ? offset_bytes : kPlaceRefused, std::memory_order_release);
  if (status.ok()) {
    if (options_.on_placed) options_.on_placed(size_bytes);
    return 0;
  }
  // The room stays unused: failures are rare, and the next file may follow already.
  ::fallocate(arena_.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(offset_bytes), static_cast<off_t>(room_bytes));
  tree_.release(room_bytes);
  if (options_.on_problem) options_.on_problem(status.error());
  return os_error_of(status.error());
}

Status NodeArena::write(uint32_t entry, uint64_t offset_bytes, BlockCodec& codec) {
  const uint64_t end = offset_bytes + catalogue_.entry(entry).size_bytes;
  Status failed = fail(Errc::kNotFound, "{}: the partition is not on this node",
                       describe_member(catalogue_, entry));
  bool was_asked = false;
  for (const MemberSource& source : sources_) {
    if (!source.has(entry)) continue;
    if (was_asked && options_.on_problem) options_.on_problem(failed.error());
    was_asked = true;
    uint64_t at = offset_bytes;
    failed = source.read(entry, codec, [&](ByteView block) -> Status {
      if (block.size() > end - at) return fail(Errc::kCorrupt, "the file is too long");
      RETURN_IF_ERROR(arena_.write_at(at, block));
      at += block.size();
      return {};
    });
    if (failed.ok() && at != end) failed = fail(Errc::kCorrupt, "the file is too short");
    if (failed.ok() || failed.error().code() == Errc::kExhausted) return failed;
  }
  return failed;
}

}  // namespace millrace::store
