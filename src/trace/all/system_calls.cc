#include "trace/all/system_calls.h"

#include <sys/syscall.h>

#include <algorithm>
#include <array>

namespace millrace::trace {
namespace {

using wire::Call;

// Newer than the headers of the oldest supported system; the same on all architectures.
constexpr int16_t kFchmodat2 = 452;

constexpr SystemCall kCalls[] = {
    {SYS_openat, Call::kOpenat, {.directory = 0, .path = 1, .detail = 2}, Effect::kOpens},
    {SYS_openat2, Call::kOpenat, {.directory = 0, .path = 1}, Effect::kOpens},
    {SYS_open_by_handle_at, Call::kOpenByHandleAt, {.fd = 0, .detail = 2}, Effect::kOpensUnknown},
    {SYS_memfd_create, Call::kMemfdCreate, {}, Effect::kOpensUnknown},
    {SYS_close, Call::kClose, {.fd = 0}, Effect::kCloses},
    {SYS_close_range, Call::kCloseRange, {.offset = 0}, Effect::kClosesRange},
    {SYS_read, Call::kRead, {.fd = 0, .size = 2}, Effect::kMoves},
    {SYS_pread64, Call::kPread, {.fd = 0, .offset = 3, .size = 2}},
    {SYS_readv, Call::kReadv, {.fd = 0, .buffers = 1}, Effect::kMoves},
    {SYS_preadv, Call::kPreadv, {.fd = 0, .offset = 3, .buffers = 1}},
    {SYS_preadv2, Call::kPreadv2, {.fd = 0, .offset = 3, .buffers = 1}},
    {SYS_write, Call::kWrite, {.fd = 0, .size = 2}, Effect::kMoves},
    {SYS_pwrite64, Call::kPwrite, {.fd = 0, .offset = 3, .size = 2}},
    {SYS_writev, Call::kWritev, {.fd = 0, .buffers = 1}, Effect::kMoves},
    {SYS_pwritev, Call::kPwritev, {.fd = 0, .offset = 3, .buffers = 1}},
    {SYS_pwritev2, Call::kPwritev2, {.fd = 0, .offset = 3, .buffers = 1}},
    {SYS_lseek, Call::kLseek, {.fd = 0, .detail = 2}, Effect::kSeeks},
    {SYS_sendfile,
     Call::kSendfile,
     {.fd = 1, .other_fd = 0, .offset_at = 2, .size = 3},
     Effect::kTransfers},
    {SYS_copy_file_range,
     Call::kCopyFileRange,
     {.fd = 0, .other_fd = 2, .offset_at = 1, .other_offset_at = 3, .size = 4},
     Effect::kTransfers},
    {SYS_splice,
     Call::kSplice,
     {.fd = 0, .other_fd = 2, .offset_at = 1, .other_offset_at = 3, .size = 4},
     Effect::kTransfers},
    {SYS_tee, Call::kTee, {.fd = 0, .other_fd = 1, .size = 2}},
    {SYS_vmsplice, Call::kVmsplice, {.fd = 0, .buffers = 1}},
    {SYS_dup, Call::kDup, {.fd = 0}, Effect::kDuplicates},
    {SYS_dup3, Call::kDup3, {.fd = 0}, Effect::kDuplicates},
    {SYS_fcntl, Call::kFcntl, {.fd = 0, .detail = 1}, Effect::kDuplicates},
    {SYS_mmap, Call::kMmap, {.fd = 4, .offset = 5, .size = 1}, Effect::kMaps},
    {SYS_munmap, Call::kMunmap, {.size = 1}, Effect::kUnmaps},
    {SYS_mremap, Call::kMremap, {.size = 2}, Effect::kRemaps},
    {SYS_msync, Call::kMsync, {.size = 1, .detail = 2}, Effect::kOnMapping},
    {SYS_madvise, Call::kMadvise, {.size = 1, .detail = 2}, Effect::kOnMapping},
    {SYS_fsync, Call::kFsync, {.fd = 0}},
    {SYS_fdatasync, Call::kFdatasync, {.fd = 0}},
    {SYS_sync, Call::kSync},
    {SYS_syncfs, Call::kSyncfs, {.fd = 0}},
    {SYS_sync_file_range, Call::kSyncFileRange, {.fd = 0, .offset = 1, .size = 2}},
    {SYS_truncate, Call::kTruncate, {.path = 0, .size = 1}},
    {SYS_ftruncate, Call::kFtruncate, {.fd = 0, .size = 1}},
    {SYS_fallocate, Call::kFallocate, {.fd = 0, .offset = 2, .size = 3, .detail = 1}},
    {SYS_fadvise64, Call::kFadvise, {.fd = 0, .offset = 1, .size = 2, .detail = 3}},
    {SYS_readahead, Call::kReadahead, {.fd = 0, .offset = 1, .size = 2}},
    {SYS_fstat, Call::kFstat, {.fd = 0, .attributes = 1}},
    {SYS_newfstatat, Call::kFstatat, {.directory = 0, .path = 1, .attributes = 2}},
    {SYS_statx, Call::kStatx, {.directory = 0, .path = 1, .attributes = 4}},
    {SYS_statfs, Call::kStatfs, {.path = 0}},
    {SYS_fstatfs, Call::kFstatfs, {.fd = 0}},
    {SYS_faccessat, Call::kFaccessat, {.directory = 0, .path = 1}},
    {SYS_faccessat2, Call::kFaccessat, {.directory = 0, .path = 1}},
    {SYS_renameat,
     Call::kRenameat,
     {.directory = 0, .path = 1, .other_directory = 2, .other_path = 3}},
    {SYS_renameat2,
     Call::kRenameat2,
     {.directory = 0, .path = 1, .other_directory = 2, .other_path = 3}},
    {SYS_unlinkat, Call::kUnlinkat, {.directory = 0, .path = 1}},
    {SYS_linkat, Call::kLinkat, {.directory = 0, .path = 1, .other_directory = 2, .other_path = 3}},
    {SYS_symlinkat, Call::kSymlinkat, {.directory = 1, .path = 2}},
    {SYS_readlinkat, Call::kReadlinkat, {.directory = 0, .path = 1, .size = 3}},
    {SYS_mkdirat, Call::kMkdirat, {.directory = 0, .path = 1}},
    {SYS_mknodat, Call::kMknodat, {.directory = 0, .path = 1}},
    {SYS_fchmod, Call::kFchmod, {.fd = 0}},
    {SYS_fchmodat, Call::kFchmodat, {.directory = 0, .path = 1}},
    {kFchmodat2, Call::kFchmodat, {.directory = 0, .path = 1}},
    {SYS_fchown, Call::kFchown, {.fd = 0}},
    {SYS_fchownat, Call::kFchownat, {.directory = 0, .path = 1}},
    {SYS_utimensat, Call::kUtimensat, {.directory = 0, .path = 1}},
    {SYS_getdents64, Call::kGetdents64, {.fd = 0, .size = 2}},
    {SYS_chdir, Call::kChdir, {.path = 0}, Effect::kChangesDirectory},
    {SYS_fchdir, Call::kFchdir, {.fd = 0}, Effect::kChangesDirectory},
    {SYS_flock, Call::kFlock, {.fd = 0, .detail = 1}},
    {SYS_getxattr, Call::kGetxattr, {.path = 0, .size = 3}},
    {SYS_lgetxattr, Call::kLgetxattr, {.path = 0, .size = 3}},
    {SYS_fgetxattr, Call::kFgetxattr, {.fd = 0, .size = 3}},
    {SYS_setxattr, Call::kSetxattr, {.path = 0, .size = 3}},
    {SYS_lsetxattr, Call::kLsetxattr, {.path = 0, .size = 3}},
    {SYS_fsetxattr, Call::kFsetxattr, {.fd = 0, .size = 3}},
    {SYS_listxattr, Call::kListxattr, {.path = 0, .size = 2}},
    {SYS_llistxattr, Call::kLlistxattr, {.path = 0, .size = 2}},
    {SYS_flistxattr, Call::kFlistxattr, {.fd = 0, .size = 2}},
    {SYS_removexattr, Call::kRemovexattr, {.path = 0}},
    {SYS_lremovexattr, Call::kLremovexattr, {.path = 0}},
    {SYS_fremovexattr, Call::kFremovexattr, {.fd = 0}},
    {SYS_io_submit, Call::kLioListio, {.size = 1}},
    {SYS_io_uring_setup, Call::kIoUringSetup, {.size = 0}, Effect::kOpensUnknown},
    {SYS_io_uring_enter, Call::kIoUringEnter, {.fd = 0, .size = 1}},
    {SYS_io_uring_register, Call::kIoUringRegister, {.fd = 0, .size = 3, .detail = 1}},
    {SYS_clone, Call::kFork, {}, Effect::kForks},
    {SYS_clone3, Call::kFork, {}, Effect::kForks},
    {SYS_execve, Call::kExec, {.path = 0}, Effect::kExecutes},
    {SYS_execveat, Call::kExec, {.directory = 0, .path = 1}, Effect::kExecutes},
    {SYS_unshare, Call::kEmpty, {}, Effect::kUnshares},
#if defined(__x86_64__)
    // Newer architectures have only the forms that take a directory.
    {SYS_open, Call::kOpen, {.path = 0, .detail = 1}, Effect::kOpens},
    {SYS_creat, Call::kCreat, {.path = 0}, Effect::kOpens},
    {SYS_dup2, Call::kDup2, {.fd = 0}, Effect::kDuplicates},
    {SYS_stat, Call::kStat, {.path = 0, .attributes = 1}},
    {SYS_lstat, Call::kLstat, {.path = 0, .attributes = 1}},
    {SYS_access, Call::kAccess, {.path = 0}},
    {SYS_rename, Call::kRename, {.path = 0, .other_path = 1}},
    {SYS_unlink, Call::kUnlink, {.path = 0}},
    {SYS_link, Call::kLink, {.path = 0, .other_path = 1}},
    {SYS_symlink, Call::kSymlink, {.path = 1}},
    {SYS_readlink, Call::kReadlink, {.path = 0, .size = 2}},
    {SYS_mkdir, Call::kMkdir, {.path = 0}},
    {SYS_rmdir, Call::kRmdir, {.path = 0}},
    {SYS_mknod, Call::kMknod, {.path = 0}},
    {SYS_chmod, Call::kChmod, {.path = 0}},
    {SYS_chown, Call::kChown, {.path = 0}},
    {SYS_lchown, Call::kLchown, {.path = 0}},
    {SYS_utime, Call::kUtime, {.path = 0}},
    {SYS_utimes, Call::kUtimes, {.path = 0}},
    {SYS_futimesat, Call::kFutimesat, {.directory = 0, .path = 1}},
    {SYS_getdents, Call::kGetdents64, {.fd = 0, .size = 2}},
    {SYS_fork, Call::kFork, {}, Effect::kForks},
    {SYS_vfork, Call::kVfork, {}, Effect::kForks},
#endif
};

constexpr size_t kNumbers = 512;

constexpr auto kByNumber = [] {
  std::array<const SystemCall*, kNumbers> table{};
  for (const SystemCall& call : kCalls) table[static_cast<size_t>(call.number)] = &call;
  return table;
}();

}  // namespace

std::span<const SystemCall> followed_system_calls() { return kCalls; }

const SystemCall* find_system_call(uint64_t number) {
  return number < kNumbers ? kByNumber[number] : nullptr;
}

}  // namespace millrace::trace
