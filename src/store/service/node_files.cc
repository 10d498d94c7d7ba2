#include "store/service/node_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/hash/crc32c.h"
#include "base/io/mounts.h"
#include "base/system/memory.h"
#include "base/text/text.h"
#include "store/client/service_client.h"
#include "store/pack/open_below.h"
#include "store/pack/pack.h"
#include "store/preload/resolve.h"
#include "store/service/node_folder.h"
#include "store/service/service.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14; glibc 2.35
#endif

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

using wire::CatalogueEntry;
using wire::EntryKind;
using wire::kNoEntry;

// Mapping a partition of a shared file system would read pieces of it over the network again and
// again; the service fetches a file once.
bool is_on_this_node(const fs::path& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error) return false;
  const auto mount = mount_of(real);
  return !mount || !is_shared(mount->file_system);
}

// Absolute, without "." and "..", without a slash at the end.
std::string normal(std::string_view path) {
  std::error_code error;
  fs::path out = fs::absolute(fs::path(path), error).lexically_normal();
  if (!out.has_filename()) out = out.parent_path();
  return out.string();
}

// Whether all pages can be read: touching one that cannot would end the program.
bool can_be_read(ByteView bytes) {
  if (bytes.empty()) return true;
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t page = begin & ~(page_bytes() - 1);
  return ::madvise(reinterpret_cast<void*>(page), begin + bytes.size() - page,
                   MADV_POPULATE_READ) == 0 ||
         errno == EINVAL;  // an older kernel cannot tell
}

}  // namespace

Result<std::shared_ptr<NodeFiles>> NodeFiles::open(NodeFilesOptions options) {
  std::shared_ptr<NodeFiles> files(new NodeFiles(std::move(options)));
  RETURN_IF_ERROR(files->map_node());
  return files;
}

NodeFiles::~NodeFiles() {
  if (state_ != nullptr) ::munmap(state_, sizeof(*state_));
}

Status NodeFiles::map_node() {
  ASSIGN_OR_RETURN(const NodeStatus status, read_node(node()));
  root_ = status.state.root;
  origin_ = status.state.origin;
  line_.deadline_ms = options_.deadline.count() > 0
                          ? static_cast<uint32_t>(options_.deadline.count())
                          : deadline_ms_of(std::getenv(wire::kStoreDeadlineVariable));
  ASSIGN_OR_RETURN(catalogue_, MappedFile::open(node() / wire::kStoreCatalogueFile));
  if (const char* wrong = view_.open(catalogue_->bytes().data(), catalogue_->bytes().size())) {
    return fail(Errc::kCorrupt, "{}: cannot be used as a catalogue: {}",
                printable((node() / wire::kStoreCatalogueFile).string()), wrong);
  }
  checked_ = std::vector<std::atomic<uint64_t>>(view_.entry_count() / 64 + 1);
  ASSIGN_OR_RETURN(tree_, open_directory((node() / wire::kStoreTreeDirectory).string()));
  // The origin may appear later, so it is opened when it is needed.
  ASSIGN_OR_RETURN(const File state, File::open(node() / wire::kStoreStateFile, O_RDWR));
  void* const mapped =
      ::mmap(nullptr, sizeof(wire::StoreState), PROT_READ | PROT_WRITE, MAP_SHARED, state.fd(), 0);
  if (mapped == MAP_FAILED) return fail_os(errno, "cannot map the state of the store");
  state_ = static_cast<wire::StoreState*>(mapped);
  ASSIGN_OR_RETURN(const ServiceSettings settings, read_service_settings(node()));
  packs_ = settings.packs;
  partitions_ = std::vector<std::atomic<const MappedFile*>>(view_.partition_count());
  map_partitions();
  return {};
}

// A partition that cannot be mapped is not on this node.
void NodeFiles::map_partitions() const {
  for (uint32_t i = 0; i < view_.partition_count(); ++i) {
    if (partition(i) != nullptr) continue;
    const wire::CataloguePartition described = view_.partition(i);
    const fs::path name = view_.text(described.name_offset, described.name_bytes);
    for (const fs::path& path :
         {node() / wire::kStorePacksDirectory / name.filename(), packs_ / name}) {
      if (!is_on_this_node(path)) continue;
      auto mapped = map_partition_file(path, described, view_.header().identity);
      if (!mapped.ok()) continue;
      const MutexLock lock(mutex_);
      mapped_.push_back(std::make_unique<MappedFile>(*std::move(mapped)));
      partitions_[i].store(mapped_.back().get(), std::memory_order_release);
      break;
    }
  }
}

const MappedFile* NodeFiles::partition(uint32_t number) const {
  return number < partitions_.size() ? partitions_[number].load(std::memory_order_acquire)
                                     : nullptr;
}

std::optional<std::string> NodeFiles::below_root(std::string_view path) const {
  const bool is_normal = path.starts_with('/') && path.find("//") == path.npos &&
                         path.find("/.") == path.npos && !path.ends_with('/');
  const std::string changed = is_normal ? std::string() : normal(path);
  if (!is_normal) path = changed;
  const std::string_view below = store::below_root(root_, path);
  if (below.data() == nullptr) return std::nullopt;
  return std::string(below.empty() ? below : below.substr(1));
}

uint32_t NodeFiles::find(std::string_view path) const {
  const uint32_t found = find_plain(view_, path, Last::kFollow);
  if (found != kNoEntry) return found;
  const auto walk = std::make_unique<Walk>();
  const Place place = walk_path({view_, root_}, wire::kRootEntry, path, Last::kFollow, *walk);
  return place.where == Where::kInside ? place.entry : kNoEntry;
}

std::string NodeFiles::path(uint32_t file) const { return path_of(view_, file); }

// The bytes of a file as they are in the mapped partition; empty if it is not here.
ByteView NodeFiles::member(uint32_t file) const {
  const CatalogueEntry entry = view_.entry(file);
  const MappedFile* const mapped = partition(entry.partition);
  if (mapped == nullptr) return {};
  const ByteView bytes = mapped->bytes();
  if (entry.offset_bytes > bytes.size() || entry.packed_bytes > bytes.size() - entry.offset_bytes) {
    return {};
  }
  return bytes.subspan(static_cast<size_t>(entry.offset_bytes),
                       static_cast<size_t>(entry.packed_bytes));
}

bool NodeFiles::is_all_local() const {
  return std::ranges::all_of(partitions_, [](const auto& each) { return each.load() != nullptr; });
}

// Whether the pages can be read and have the right checksum.
bool NodeFiles::check_once(uint32_t file, ByteView bytes) const {
  std::atomic<uint64_t>& word = checked_[file / 64];
  const uint64_t bit = uint64_t{1} << (file % 64);
  if ((word.load(std::memory_order_relaxed) & bit) != 0) return true;
  if (!can_be_read(bytes) || crc32c(bytes) != view_.entry(file).crc32c) return false;
  word.fetch_or(bit, std::memory_order_relaxed);
  return true;
}

std::optional<ByteView> NodeFiles::view(uint32_t file) const {
  const CatalogueEntry entry = view_.entry(file);
  if (entry.codec != wire::PackCodec::kRaw) return std::nullopt;
  const ByteView bytes = member(file);
  if (bytes.size() != entry.size_bytes || !check_once(file, bytes)) return std::nullopt;
  return bytes;
}

Status NodeFiles::read(uint32_t file, MutableByteView out) const {
  if (const auto bytes = view(file)) {
    if (!bytes->empty()) std::memcpy(out.data(), bytes->data(), bytes->size());
    return {};
  }
  // A damaged member is an error only if no one else has the file.
  if (!member(file).empty() && read_packed(file, out).ok()) return {};
  return read_file(file, out);
}

Status NodeFiles::read_packed(uint32_t file, MutableByteView out) const {
  const CatalogueEntry entry = view_.entry(file);
  const ByteView packed = member(file);
  if (!can_be_read(packed)) return fail(Errc::kIo, "the partition cannot be read");
  thread_local BlockCodec codec;
  RETURN_IF_ERROR(codec.decode_member({entry.codec, entry.shuffle}, packed, out));
  if (crc32c(out) == entry.crc32c) return {};
  return fail(Errc::kCorrupt, "the checksum is wrong");
}

Status NodeFiles::read_file(uint32_t file, MutableByteView out) const {
  const auto shown = [&] { return printable(fmt::format("{}/{}", root_, path(file))); };
  ASSIGN_OR_RETURN(const File opened, open_file(file).within(shown()));
  RETURN_IF_ERROR(opened.read_exactly_at(0, out).within(shown()));
  if (crc32c(out) == view_.entry(file).crc32c) return {};
  return fail(Errc::kCorrupt, "{}: the checksum is wrong; pack the dataset again", shown());
}

Result<File> NodeFiles::open_file(uint32_t file) const {
  count(&wire::StoreCounters::opens);
  auto opened = open_in_tree(file);
  if (opened.ok()) return opened;
  return open_origin(file, opened.error());
}

Result<File> NodeFiles::open_in_tree(uint32_t file) const {
  const std::string name = path(file);
  auto opened = open_below(tree_, name, O_RDONLY | O_NOFOLLOW);
  for (int tries = 0; !opened.ok() && tries < kMakeTries; ++tries) {
    RETURN_IF_ERROR(ask_service(line_, node(), file));
    opened = open_below(tree_, name, O_RDONLY | O_NOFOLLOW);
  }
  return opened;
}

Result<File> NodeFiles::open_origin(uint32_t file, const Error& why) const {
  const auto failed = [&](Error error) {
    count(&wire::StoreCounters::errors);
    return error;
  };
  if (origin_.empty()) {
    return failed(fail(Errc::kIo, "{}, and the store has no origin", why.message()));
  }
  auto directory = open_directory(origin_);
  if (!directory.ok()) return failed(std::move(directory).error());
  auto opened = open_below(*directory, path(file), O_RDONLY | O_NOFOLLOW);
  if (!opened.ok()) {
    return failed(std::move(opened).error().within(
        fmt::format("{}, and the file cannot be read from {}", why.message(), printable(origin_))));
  }
  count(&wire::StoreCounters::fallbacks);
  if (!has_fallen_back_.exchange(true) && options_.on_fallback) options_.on_fallback(why.message());
  return opened;
}

void NodeFiles::count(uint64_t wire::StoreCounters::* counter) const {
  add_to_counter(state_->counters.*counter, 1);
}

std::shared_ptr<NodeFiles> open_job_files() {
  const char* const node = std::getenv(wire::kStoreVariable);
  if (node == nullptr || *node == '\0') return nullptr;
  const auto warn = [](const std::string& why) {
    const std::string line =
        fmt::format("millrace: store: the loader reads from the origin, because {}\n", why);
    static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
  };
  auto files = NodeFiles::open({.node = node, .on_fallback = warn});
  return files.ok() ? *std::move(files) : nullptr;
}

}  // namespace millrace::store
