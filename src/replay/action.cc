#include "replay/action.h"

#include <fcntl.h>

namespace millrace::replay {
namespace {

using wire::Call;

Action posix_data_action(Call call) {
  switch (call) {
    case Call::kRead:
    case Call::kReadv:
      return Action::kRead;
    case Call::kPread:
    case Call::kPreadv:
    case Call::kPreadv2:
    case Call::kAioRead:  // as pread: only the submission was recorded
      return Action::kReadAt;
    case Call::kWrite:
    case Call::kWritev:
      return Action::kWrite;
    case Call::kPwrite:
    case Call::kPwritev:
    case Call::kPwritev2:
    case Call::kAioWrite:
      return Action::kWriteAt;
    case Call::kMapped:
      return Action::kReadMapped;
    case Call::kSendfile:
    case Call::kCopyFileRange:
      return Action::kTransfer;
    case Call::kLseek:
      return Action::kSeek;
    case Call::kFsync:
    case Call::kFdatasync:
    case Call::kAioFsync:
      return Action::kSync;
    case Call::kFtruncate:
      return Action::kTruncate;
    case Call::kFallocate:
      return Action::kAllocate;
    case Call::kFadvise:
    case Call::kReadahead:
      return Action::kAdvise;
    default:
      return Action::kNone;
  }
}

Action posix_name_action(Call call) {
  switch (call) {
    case Call::kStat:
    case Call::kLstat:
    case Call::kFstatat:
    case Call::kStatx:
    case Call::kAccess:
    case Call::kFaccessat:
      return Action::kStat;
    case Call::kTruncate:
      return Action::kTruncateName;
    case Call::kScandir:
      return Action::kScanDirectory;
    case Call::kMkdir:
    case Call::kMkdirat:
    case Call::kMkdtemp:
      return Action::kMakeDirectory;
    case Call::kRmdir:
      return Action::kRemoveDirectory;
    case Call::kUnlink:
    case Call::kUnlinkat:
    case Call::kRemove:
      return Action::kUnlink;
    case Call::kRename:
    case Call::kRenameat:
    case Call::kRenameat2:
      return Action::kRename;
    case Call::kLink:
    case Call::kLinkat:
      return Action::kLink;
    default:
      return Action::kNone;
  }
}

Action posix_open_action(Call call) {
  switch (call) {
    case Call::kOpen:
    case Call::kOpenat:
    case Call::kCreat:
    case Call::kMkstemp:
      return Action::kOpen;
    case Call::kClose:
      return Action::kClose;
    case Call::kDup:
    case Call::kDup2:
    case Call::kDup3:
      return Action::kDuplicate;
    case Call::kFstat:
      return Action::kStatOpen;
    case Call::kOpendir:
      return Action::kOpenDirectory;
    case Call::kReaddir:
      return Action::kReadDirectory;
    case Call::kRewinddir:
      return Action::kRewindDirectory;
    case Call::kClosedir:
      return Action::kCloseDirectory;
    case Call::kGetdents64:
      return Action::kReadEntries;
    default:
      return Action::kNone;
  }
}

Action posix_action(Call call) {
  if (const Action action = posix_data_action(call); action != Action::kNone) return action;
  if (const Action action = posix_open_action(call); action != Action::kNone) return action;
  if (const Action action = posix_name_action(call); action != Action::kNone) return action;
  switch (call) {
    case Call::kMmap:
    case Call::kMunmap:
    case Call::kMremap:
    case Call::kFcntl:
    case Call::kFdopendir:
    case Call::kAioReturn:
    case Call::kAioSuspend:
    case Call::kAioCancel:
    case Call::kTelldir:
      return Action::kCovered;
    default:
      break;
  }
  const wire::CallInfo* info = wire::call_info(call);
  const bool is_io = info != nullptr && info->kind != wire::CallKind::kProcess;
  return is_io ? Action::kCannot : Action::kNone;
}

Action stdio_action(Call call) {
  switch (call) {
    case Call::kFopen:
    case Call::kFreopen:
      return Action::kOpenStream;
    case Call::kFclose:
      return Action::kCloseStream;
    case Call::kFflush:
      return Action::kFlushStream;
    default:
      break;
  }
  const wire::CallInfo* info = wire::call_info(call);
  if (info == nullptr) return Action::kNone;
  switch (info->kind) {
    case wire::CallKind::kRead:
      return Action::kReadStream;
    case wire::CallKind::kWrite:
      return Action::kWriteStream;
    case wire::CallKind::kProcess:
      return Action::kNone;
    default:
      return Action::kCovered;  // what it does shows in the offset of the next fread or fwrite
  }
}

Action mpiio_action(Call call) {
  if (call == Call::kMpiFileSync) return Action::kSync;
  const wire::CallInfo* info = wire::call_info(call);
  if (info == nullptr) return Action::kNone;
  if (info->kind == wire::CallKind::kRead) return Action::kReadAt;
  if (info->kind == wire::CallKind::kWrite) return Action::kWriteAt;
  return Action::kCovered;
}

}  // namespace

Action action_of(Call call) {
  switch (wire::level_of(call)) {
    case wire::Level::kPosix:
      return posix_action(call);
    case wire::Level::kStdio:
      return stdio_action(call);
    case wire::Level::kMpiio:
      return mpiio_action(call);
    case wire::Level::kHdf5:
      return Action::kCovered;  // HDF5 reads and writes with calls of the other levels
    default:
      return Action::kNone;
  }
}

uint32_t open_flags(Call call, uint32_t detail) {
  if (call == Call::kMkstemp) return O_RDWR | O_CREAT | O_EXCL;
  if (call == Call::kCreat) return O_WRONLY | O_CREAT | O_TRUNC;
  if (call == Call::kOpendir) return O_RDONLY | O_DIRECTORY;
  return detail;
}

bool changes(Call call, uint32_t detail) {
  const Action action = action_of(call);
  if (opens(action)) {
    return (open_flags(call, detail) & (O_ACCMODE | O_CREAT | O_TRUNC)) != O_RDONLY;
  }
  return writes(action) || action == Action::kTransfer || action == Action::kTruncate ||
         action == Action::kAllocate || action == Action::kTruncateName ||
         action >= Action::kMakeDirectory;
}

HandleKind kind_of(Action action) {
  switch (action) {
    case Action::kOpenStream:
    case Action::kCloseStream:
    case Action::kReadStream:
    case Action::kWriteStream:
    case Action::kFlushStream:
      return HandleKind::kStream;
    case Action::kOpenDirectory:
    case Action::kCloseDirectory:
    case Action::kReadDirectory:
    case Action::kRewindDirectory:
      return HandleKind::kDirectory;
    default:
      return HandleKind::kDescriptor;
  }
}

}  // namespace millrace::replay
