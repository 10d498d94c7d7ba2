#include "store/client/store_engine.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/concurrency/mutex.h"
#include "base/text/text.h"
#include "io/file_reader.h"
#include "io/inline_queue.h"
#include "store/order/order_feed.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

using wire::EntryKind;
using wire::kNoEntry;

// The directories of a catalogue, and those of the system outside the root.
class StoreListing final : public io::Listing {
 public:
  explicit StoreListing(const NodeFiles& files) : files_(files) {}

  Result<io::DirectoryIdentity> identity(const std::string& directory) const override {
    const auto inside = files_.below_root(directory);
    if (!inside) return io::system_listing().identity(directory);
    ASSIGN_OR_RETURN(const uint32_t found, find_directory(directory, *inside));
    return io::DirectoryIdentity{.device = 0, .inode = wire::inode_of(found)};
  }

  Status visit(const std::string& directory, const Visit& each) const override {
    const auto inside = files_.below_root(directory);
    if (!inside) return io::system_listing().visit(directory, each);
    ASSIGN_OR_RETURN(const uint32_t found, find_directory(directory, *inside));
    const auto& catalogue = files_.catalogue();
    const auto children = catalogue.children(catalogue.entry(found));
    for (uint32_t i = children.first; i < children.first + children.count; ++i) {
      const wire::CatalogueEntry entry = catalogue.entry(i);
      RETURN_IF_ERROR(each(catalogue.name(entry), kind_of(i, entry)));
    }
    return {};
  }

 private:
  Result<uint32_t> find_directory(const std::string& shown, const std::string& inside) const {
    const uint32_t found = files_.find(inside);
    if (found == kNoEntry) {
      return fail(Errc::kNotFound, "{}: cannot open the directory: it is not in the store",
                  printable(shown));
    }
    if (files_.catalogue().entry(found).kind == EntryKind::kDirectory) return found;
    return fail(Errc::kInvalidArgument, "{}: cannot open the directory: it is a file",
                printable(shown));
  }

  Result<io::ListedKind> kind_of(uint32_t index, const wire::CatalogueEntry& entry) const {
    EntryKind kind = entry.kind;
    if (kind == EntryKind::kLink) {
      const uint32_t target = files_.find(files_.path(index));
      if (target == kNoEntry) {
        return fail(Errc::kNotFound,
                    "{}/{}: cannot follow the link: its target is not in the store",
                    printable(files_.root()), printable(files_.path(index)));
      }
      kind = files_.catalogue().entry(target).kind;
    }
    return kind == EntryKind::kFile ? io::ListedKind::kFile : io::ListedKind::kDirectory;
  }

  const NodeFiles& files_;
};

// A raw member in the mapping of `files`, which it keeps.
class MemberReader final : public io::Reader {
 public:
  MemberReader(std::shared_ptr<const NodeFiles> files, ByteView bytes)
      : files_(std::move(files)), bytes_(bytes) {}

  Result<uint64_t> size_bytes() const override { return uint64_t{bytes_.size()}; }
  Result<size_t> read_at(uint64_t offset_bytes, MutableByteView out) const override {
    if (offset_bytes >= bytes_.size()) return size_t{0};
    const auto from = bytes_.subspan(static_cast<size_t>(offset_bytes));
    const size_t size = std::min(from.size(), out.size());
    if (size > 0) std::memcpy(out.data(), from.data(), size);
    return size;
  }
  std::optional<ByteView> view(uint64_t offset_bytes, uint64_t size_bytes) const override {
    if (offset_bytes > bytes_.size() || size_bytes > bytes_.size() - offset_bytes) return {};
    return bytes_.subspan(static_cast<size_t>(offset_bytes), static_cast<size_t>(size_bytes));
  }

 private:
  const std::shared_ptr<const NodeFiles> files_;
  ByteView bytes_;
};

// A file in the tree, which is made when it is first read: often only its length is asked.
class LazyReader final : public io::Reader {
 public:
  LazyReader(std::shared_ptr<const NodeFiles> files, uint32_t file)
      : files_(std::move(files)), file_(file) {}

  Result<uint64_t> size_bytes() const override { return files_->size_bytes(file_); }
  Result<size_t> read_at(uint64_t offset_bytes, MutableByteView out) const override {
    {
      const MutexLock lock(mutex_);
      if (!opened_.is_open()) {
        ASSIGN_OR_RETURN(opened_, files_->open_file(file_));
      }
    }
    return opened_.read_at(offset_bytes, out);
  }

 private:
  const std::shared_ptr<const NodeFiles> files_;
  const uint32_t file_;
  mutable Mutex mutex_;
  mutable File opened_;  // not changed once it is open
};

class StoreEngine final : public io::Engine {
 public:
  StoreEngine(std::shared_ptr<const NodeFiles> files, std::shared_ptr<io::Engine> inner)
      : files_(std::move(files)), inner_(std::move(inner)), listing_(*files_) {}

  std::string_view name() const override { return "store"; }

  Result<std::unique_ptr<io::Reader>> open(const fs::path& path) override {
    const auto inside = files_->below_root(path.native());
    if (!inside) return inner_->open(path);
    ASSIGN_OR_RETURN(const uint32_t file, find_file(*inside).within(printable(path.native())));
    if (const auto bytes = files_->view(file)) {
      return std::unique_ptr<io::Reader>(std::make_unique<MemberReader>(files_, *bytes));
    }
    return std::unique_ptr<io::Reader>(std::make_unique<LazyReader>(files_, file));
  }

  Result<std::unique_ptr<io::Writer>> create(const fs::path& path) override {
    return inner_->create(path);
  }

  Result<std::unique_ptr<io::ReadQueue>> open_queue(size_t capacity) override {
    return std::unique_ptr<io::ReadQueue>(std::make_unique<io::InlineQueue>(
        capacity,
        [this](const fs::path& path, MutableByteView out) { return read_whole(path, out); }));
  }

  Result<size_t> read_whole(const fs::path& path, MutableByteView out) override {
    const auto inside = files_->below_root(path.native());
    if (!inside) return inner_->read_whole(path, out);
    ASSIGN_OR_RETURN(const uint32_t file, find_file(*inside).within(printable(path.native())));
    const uint64_t size_bytes = files_->size_bytes(file);
    if (size_bytes > out.size()) {
      return io::longer_than_room(size_bytes, out.size()).within(printable(path.native()));
    }
    RETURN_IF_ERROR(files_->read(file, out.first(static_cast<size_t>(size_bytes))));
    return static_cast<size_t>(size_bytes);
  }

  std::optional<ByteView> view_whole(std::string_view path) override {
    const auto inside = files_->below_root(path);
    if (!inside) return std::nullopt;
    const uint32_t found = files_->find(*inside);
    if (found == kNoEntry || files_->catalogue().entry(found).kind != EntryKind::kFile) return {};
    return files_->view(found);
  }

  const io::Listing& listing() const override { return listing_; }

  // Not in a child of fork: another thread may have held the lock, and the order is the parent's.
  bool wants_order() const override { return pid_ == ::getpid() && !files_->is_all_local(); }

  void expect(ComingFiles files) override {
    if (pid_ != ::getpid()) return;
    std::unique_ptr<OrderFeed> before;  // ended without the lock: finished() must not wait for it
    {
      const MutexLock lock(feed_mutex_);
      before = std::move(feed_);
    }
    before.reset();
    if (!files) return;
    files_->map_partitions();
    const auto next_entry = [this, next = std::move(files)] {
      const auto path = next();
      return path ? std::optional(entry_to_announce(*path)) : std::nullopt;
    };
    auto feed = OrderFeed::start(files_->node(), files_->deadline(), next_entry);
    if (!feed.ok()) return;  // files are fetched when they are read
    const MutexLock lock(feed_mutex_);
    feed_ = *std::move(feed);
  }

  void finished(uint64_t count) override {
    if (pid_ != ::getpid()) return;
    const MutexLock lock(feed_mutex_);
    if (feed_) feed_->finished(count);
  }

 private:
  // What is read from the mapping needs no fetching.
  uint32_t entry_to_announce(const std::string& path) const {
    const auto inside = files_->below_root(path);
    const uint32_t found = inside ? files_->find(*inside) : kNoEntry;
    const bool is_file =
        found != kNoEntry && files_->catalogue().entry(found).kind == EntryKind::kFile;
    return is_file && !files_->is_local(found) ? found : wire::kStoreOrderSkip;
  }

  Result<uint32_t> find_file(const std::string& inside) const {
    const uint32_t found = files_->find(inside);
    if (found == kNoEntry) return fail(Errc::kNotFound, "cannot open: it is not in the store");
    if (files_->catalogue().entry(found).kind == EntryKind::kFile) return found;
    return fail(Errc::kInvalidArgument, "cannot open: it is a directory");
  }

  const std::shared_ptr<const NodeFiles> files_;  // shared with readers
  const std::shared_ptr<io::Engine> inner_;
  const StoreListing listing_;
  const int pid_ = ::getpid();
  Mutex feed_mutex_;
  std::unique_ptr<OrderFeed> feed_ GUARDED_BY(feed_mutex_);  // null: no order is known
};

}  // namespace

std::shared_ptr<io::Engine> make_store_engine(std::shared_ptr<const NodeFiles> files,
                                              std::shared_ptr<io::Engine> inner) {
  return std::make_shared<StoreEngine>(std::move(files), std::move(inner));
}

std::shared_ptr<io::Engine> engine_for(std::span<const std::string> paths,
                                       std::shared_ptr<io::Engine> inner) {
  const std::shared_ptr<const NodeFiles> files = open_job_files();
  const bool is_inside = files && std::ranges::any_of(paths, [&](const std::string& path) {
                           return files->below_root(path).has_value();
                         });
  return is_inside ? make_store_engine(files, std::move(inner)) : inner;
}

}  // namespace millrace::store
