#include "store/mount/mount.h"

#define FUSE_USE_VERSION 35
#include <fuse_lowlevel.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <unordered_set>

#include "base/concurrency/mutex.h"
#include "base/text/text.h"
#include "store/pack/open_below.h"
#include "store/pack/piece_source.h"
#include "store/service/lost_pages.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

using wire::CatalogueEntry;
using wire::EntryKind;

constexpr double kKeptSeconds =
    86'400;  // nothing changes; the kernel forgets what it has no room for
constexpr uint64_t kBlockBytes = 4096;  // as the preload library shows
constexpr size_t kNameMax = 255;
constexpr off_t kDotEntries = 2;  // "." and ".." come first in a directory
constexpr unsigned kIdleThreads = 16;

// The file system. libfuse calls it from many threads.
class MountedPack {
 public:
  MountedPack(const Catalogue& catalogue, PieceSource& pieces, const MountOptions& options)
      : catalogue_(catalogue), pieces_(pieces), options_(options) {}

  void init(fuse_conn_info& connection) {
    has_no_open_ = (connection.capable & FUSE_CAP_NO_OPEN_SUPPORT) != 0;
    has_no_opendir_ = (connection.capable & FUSE_CAP_NO_OPENDIR_SUPPORT) != 0;
    connection.want |= connection.capable & FUSE_CAP_CACHE_SYMLINKS;
    // The length and the time do not change, so the kernel need not compare them.
    connection.want &= ~unsigned{FUSE_CAP_AUTO_INVAL_DATA};
  }

  void lookup(fuse_req_t request, fuse_ino_t parent, const char* text) const {
    const std::string_view name = text;
    if (name.size() > kNameMax) {  // the kernel itself refuses only those of more than 1024 bytes
      fuse_reply_err(request, ENAMETOOLONG);
      return;
    }
    const auto found = child(index_of(parent), name);
    fuse_entry_param entry{};
    entry.entry_timeout = kKeptSeconds;
    if (found) fill(*found, entry);
    fuse_reply_entry(request, &entry);  // without an inode: the kernel may keep that, too
  }

  void get_attributes(fuse_req_t request, fuse_ino_t inode, fuse_file_info*) const {
    const struct stat status = status_of(index_of(inode));
    fuse_reply_attr(request, &status, kKeptSeconds);
  }

  void read_link(fuse_req_t request, fuse_ino_t inode) const {
    fuse_reply_readlink(request, std::string(catalogue_.link_target(index_of(inode))).c_str());
  }

  void open(fuse_req_t request, fuse_file_info& file, bool has_none) const {
    if (has_none) {  // the kernel does not ask again, for any file
      fuse_reply_err(request, ENOSYS);
      return;
    }
    file.keep_cache = 1;
    fuse_reply_open(request, &file);
  }
  void open_file(fuse_req_t request, fuse_ino_t, fuse_file_info* file) const {
    open(request, *file, has_no_open_);
  }
  void open_directory(fuse_req_t request, fuse_ino_t, fuse_file_info* file) const {
    file->cache_readdir = 1;
    open(request, *file, has_no_opendir_);
  }

  void read(fuse_req_t request, fuse_ino_t inode, size_t size_bytes, off_t offset_bytes,
            fuse_file_info*) {
    const uint32_t index = index_of(inode);
    auto piece = pieces_.read(index, static_cast<uint64_t>(offset_bytes), size_bytes);
    if (!piece.ok()) {
      report(index, piece.error());
      fuse_reply_err(request, EIO);
      return;
    }
    if (piece->fd < 0) {
      fuse_reply_buf(request, reinterpret_cast<const char*>(piece->bytes.data()),
                     piece->bytes.size());
      return;
    }
    fuse_bufvec buffers{};  // not FUSE_BUFVEC_INIT, which is C
    buffers.count = 1;
    buffers.buf[0].size = piece->size_bytes;
    buffers.buf[0].flags = static_cast<fuse_buf_flags>(FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK);
    buffers.buf[0].fd = piece->fd;
    buffers.buf[0].pos = static_cast<off_t>(piece->offset_bytes);
    fuse_reply_data(request, &buffers, FUSE_BUF_SPLICE_MOVE);
  }

  // `add` is fuse_add_direntry or fuse_add_direntry_plus, with what they need of an entry.
  template <typename Add>
  void read_directory(fuse_req_t request, fuse_ino_t inode, size_t size_bytes, off_t offset,
                      Add add) const {
    const uint32_t index = index_of(inode);
    const auto children = catalogue_.children(index);
    std::vector<char> out(size_bytes);
    size_t used = 0;
    for (off_t at = offset; at < off_t{children.count} + kDotEntries; ++at) {
      char name[kNameMax + 1] = "..";
      uint32_t shown = index;
      if (at == 0) name[1] = '\0';
      if (at == 1) shown = catalogue_.entry(index).parent;
      if (at >= kDotEntries) {
        shown = children.first + static_cast<uint32_t>(at - kDotEntries);
        const std::string_view own = catalogue_.name(shown);
        std::memcpy(name, own.data(), own.size());
        name[own.size()] = '\0';
      }
      const size_t size =
          add(shown, out.data() + used, out.size() - used, name, at + 1, at < kDotEntries);
      if (size > out.size() - used) break;
      used += size;
    }
    fuse_reply_buf(request, out.data(), used);
  }

  void read_names(fuse_req_t request, fuse_ino_t inode, size_t size_bytes, off_t offset,
                  fuse_file_info*) const {
    const auto add = [&](uint32_t index, char* out, size_t room, const char* name, off_t next,
                         bool) {
      struct stat status{};
      status.st_ino = wire::inode_of(index);
      status.st_mode = wire::stat_mode(catalogue_.entry(index));
      return fuse_add_direntry(request, out, room, name, &status, next);
    };
    read_directory(request, inode, size_bytes, offset, add);
  }

  void read_entries(fuse_req_t request, fuse_ino_t inode, size_t size_bytes, off_t offset,
                    fuse_file_info*) const {
    const auto add = [&](uint32_t index, char* out, size_t room, const char* name, off_t next,
                         bool is_dot) {
      fuse_entry_param entry{};
      fill(index, entry);
      if (is_dot) entry.ino = 0;  // not a lookup
      return fuse_add_direntry_plus(request, out, room, name, &entry, next);
    };
    read_directory(request, inode, size_bytes, offset, add);
  }

  void get_space(fuse_req_t request, fuse_ino_t) const {
    struct statvfs space{};
    space.f_bsize = kBlockBytes;
    space.f_frsize = kBlockBytes;
    space.f_blocks = (catalogue_.content_bytes() + kBlockBytes - 1) / kBlockBytes;
    space.f_files = catalogue_.entry_count();
    space.f_namemax = kNameMax;
    fuse_reply_statfs(request, &space);
  }

 private:
  // The kernel asks only for inodes that we have given it.
  static uint32_t index_of(fuse_ino_t inode) { return static_cast<uint32_t>(inode - 1); }

  std::optional<uint32_t> child(uint32_t parent, std::string_view name) const {
    const auto children = catalogue_.children(parent);
    uint32_t begin = children.first;
    uint32_t end = children.first + children.count;
    while (begin < end) {
      const uint32_t middle = begin + (end - begin) / 2;
      const int order = catalogue_.name(middle).compare(name);
      if (order == 0) return middle;
      if (order < 0) begin = middle + 1;
      if (order > 0) end = middle;
    }
    return std::nullopt;
  }

  struct stat status_of(uint32_t index) const {
    const CatalogueEntry entry = catalogue_.entry(index);
    struct stat status{};
    status.st_ino = wire::inode_of(index);
    status.st_mode = wire::stat_mode(entry);
    status.st_nlink = 1;
    status.st_uid = user_;
    status.st_gid = group_;
    status.st_size = static_cast<off_t>(entry.size_bytes);
    status.st_blksize = kBlockBytes;
    if (entry.kind == EntryKind::kDirectory) {
      status.st_size = kBlockBytes;
      status.st_nlink = 2 + subdirectory_count(entry);
    }
    if (entry.kind != EntryKind::kLink) {
      const uint64_t blocks =
          (static_cast<uint64_t>(status.st_size) + kBlockBytes - 1) / kBlockBytes;
      status.st_blocks = static_cast<blkcnt_t>(blocks * (kBlockBytes / 512));
    }
    status.st_mtim = FileTimes(entry.mtime_ns).times[1];
    status.st_atim = status.st_mtim;
    status.st_ctim = status.st_mtim;
    return status;
  }

  nlink_t subdirectory_count(const CatalogueEntry& directory) const {
    const auto children = catalogue_.view().children(directory);
    nlink_t count = 0;
    for (uint32_t i = 0; i < children.count; ++i) {
      if (catalogue_.entry(children.first + i).kind == EntryKind::kDirectory) ++count;
    }
    return count;
  }

  void fill(uint32_t index, fuse_entry_param& entry) const {
    entry.ino = wire::inode_of(index);
    entry.attr = status_of(index);
    entry.attr_timeout = kKeptSeconds;
    entry.entry_timeout = kKeptSeconds;
  }

  // One line for each file.
  void report(uint32_t index, const Error& error) {
    const MutexLock lock(report_mutex_);
    if (reported_.insert(index).second) options_.log(error.message());
  }

  const Catalogue& catalogue_;
  PieceSource& pieces_;
  const MountOptions& options_;
  const uid_t user_ = ::getuid();
  const gid_t group_ = ::getgid();
  bool has_no_open_ = false;  // set once, before the first request
  bool has_no_opendir_ = false;
  Mutex report_mutex_;
  std::unordered_set<uint32_t> reported_ GUARDED_BY(report_mutex_);
};

MountedPack& mounted(void* data) { return *static_cast<MountedPack*>(data); }

// A call of libfuse is one of the pack.
template <auto kCall, typename... Arguments>
void call(fuse_req_t request, Arguments... arguments) {
  (mounted(fuse_req_userdata(request)).*kCall)(request, arguments...);
}

fuse_lowlevel_ops operations() {
  using Pack = MountedPack;
  fuse_lowlevel_ops calls{};
  calls.init = [](void* data, fuse_conn_info* connection) { mounted(data).init(*connection); };
  calls.lookup = call<&Pack::lookup>;
  calls.forget = [](fuse_req_t request, fuse_ino_t, uint64_t) { fuse_reply_none(request); };
  calls.forget_multi = [](fuse_req_t request, size_t, fuse_forget_data*) {
    fuse_reply_none(request);
  };
  calls.getattr = call<&Pack::get_attributes>;
  calls.readlink = call<&Pack::read_link>;
  calls.open = call<&Pack::open_file>;
  calls.opendir = call<&Pack::open_directory>;
  calls.read = call<&Pack::read>;
  calls.readdir = call<&Pack::read_names>;
  calls.readdirplus = call<&Pack::read_entries>;
  calls.statfs = call<&Pack::get_space>;
  // No file has extended attributes. Without these two, the kernel says that they are unsupported.
  calls.getxattr = [](fuse_req_t request, fuse_ino_t, const char*, size_t) {
    fuse_reply_err(request, ENODATA);
  };
  calls.listxattr = [](fuse_req_t request, fuse_ino_t, size_t size_bytes) {
    if (size_bytes == 0) {
      fuse_reply_xattr(request, 0);
    } else {
      fuse_reply_buf(request, nullptr, 0);
    }
  };
  return calls;
}

// A session of libfuse, mounted as long as it lives.
class Session {
 public:
  Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    if (session_ == nullptr) return;
    if (is_mounted_) fuse_session_unmount(session_);
    if (has_handlers_) fuse_remove_signal_handlers(session_);
    fuse_session_destroy(session_);
  }

  Status mount(MountedPack& pack, const fs::path& directory) {
    const char* words[] = {"millrace", "-o",
                           "ro,default_permissions,fsname=millrace,subtype=millrace"};
    fuse_args arguments =
        FUSE_ARGS_INIT(static_cast<int>(std::size(words)), const_cast<char**>(words));
    const fuse_lowlevel_ops calls = operations();
    session_ = fuse_session_new(&arguments, &calls, sizeof(calls), &pack);
    fuse_opt_free_args(&arguments);
    if (session_ == nullptr) return fail(Errc::kIo, "libfuse does not accept our options");
    has_handlers_ = fuse_set_signal_handlers(session_) == 0;
    is_mounted_ = fuse_session_mount(session_, directory.c_str()) == 0;
    if (is_mounted_) return {};
    return fail(
        Errc::kPermission,
        "FUSE refuses to mount here; it needs /dev/fuse, and root or fusermount3 (package "
        "fuse3) and a directory of your own. In a container, allow the device /dev/fuse and "
        "the capability SYS_ADMIN");
  }

  Status serve(bool is_background) {
    if (fuse_daemonize(is_background ? 0 : 1) != 0) return fail(Errc::kIo, "cannot fork");
    fuse_loop_config config{};
    config.clone_fd = 1;
    config.max_idle_threads = kIdleThreads;
    const int result =
        fuse_session_loop_mt(session_, &config);  // the number of a signal, or -errno
    if (result >= 0) return {};
    return fail_os(-result, "FUSE failed");
  }

 private:
  fuse_session* session_ = nullptr;
  bool is_mounted_ = false;
  bool has_handlers_ = false;
};

Status serve_files(const Catalogue& catalogue, PieceSource& pieces, const MountOptions& options) {
  MountedPack pack(catalogue, pieces, options);
  Session session;
  const std::string shown = printable(options.directory.string());
  RETURN_IF_ERROR(session.mount(pack, options.directory).within(shown));
  return session.serve(options.is_background).within(shown);
}

}  // namespace

Status serve_mount(MountOptions options) {
  if (::access("/dev/fuse", F_OK) != 0) {
    return fail(Errc::kUnsupported,
                "this machine has no /dev/fuse, so nothing can be mounted; load the kernel module "
                "fuse, or allow the device in the container");
  }
  replace_lost_pages();
  ASSIGN_OR_RETURN(options.directory, prepare_mount_point(options.directory, options.log));
  if (options.packs.empty()) {
    ASSIGN_OR_RETURN(const Catalogue catalogue,
                     Catalogue::open(options.node.path / wire::kStoreCatalogueFile));
    ASSIGN_OR_RETURN(auto files, NodeFiles::open({.node = options.node.path}));
    const auto pieces = add_origin(make_node_pieces(catalogue, std::move(files)),
                                   {catalogue, options.node.state.origin, options.log});
    return serve_files(catalogue, *pieces, options);
  }
  ASSIGN_OR_RETURN(const PackReader reader, PackReader::open(options.packs));
  for (uint32_t i = 0; i < reader.catalogue().partition_count(); ++i) {
    const Result<MappedFile>& file = reader.partition_file(i);
    if (!file.ok()) options.log(file.error().message());  // the others can be read
  }
  if (options.origin.empty()) options.origin = reader.catalogue().origin();
  const auto pieces =
      add_origin(make_pack_pieces(reader), {reader.catalogue(), options.origin, options.log});
  return serve_files(reader.catalogue(), *pieces, options);
}

}  // namespace millrace::store
