#include "store/preload/buffer.h"

#include <dirent.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstring>

#include "hook/glob.h"
#include "hook/scratch.h"
#include "hook/text.h"

namespace millrace::store {
namespace {

using hook::Scratch;
using hook::ScratchText;
using hook::Text;
using wire::BufferRecordKind;

// wait_native(): nobody copies. On several nodes, the rank that started a killed service goes on
// for it, which may take seconds on a busy node.
constexpr uint64_t kDeadPatienceNs = 10'000'000'000;
constexpr uint64_t kSilentPatienceNs = 600'000'000'000;  // a device may need long to sync a file
constexpr char kNextFile[] = "next-0";  // links that get their place in names/ by rename
constexpr char kNextRemoved[] = "next-1";
constexpr unsigned kNoReplace = 1;  // RENAME_NOREPLACE

// "data/ID".
struct DataName {
  explicit DataName(uint64_t id) { wire::write_buffer_target(id, text); }
  char text[wire::kBufferTargetBytes + 1];
};

// "directory/part/relative" and a zero. False if there is no room.
bool join(std::string_view directory, std::string_view part, std::string_view relative,
          ScratchText& out) {
  if (directory.size() + part.size() + relative.size() + 3 > sizeof(out.text)) return false;
  Text text(out.text);
  if (!directory.empty()) text.add(directory).add("/");
  text.add(part);
  if (!part.empty() && !relative.empty()) text.add("/");
  text.add(relative);
  return true;
}

// A descriptor of "BUFFER/part/relative", or minus an errno value.
int open_in(const Buffer& buffer, std::string_view part, int flags,
            std::string_view relative = "") {
  const Scratch<ScratchText> path;
  if (!path) return -ENOMEM;
  if (!join(buffer.directory, part, relative, *path)) return -ENAMETOOLONG;
  return hook::sys_open(path->text, flags);
}

// What a link in names/ says.
Buffered read_target(int directory, const char* name, uint64_t* id) {
  char target[wire::kBufferTargetBytes + 1];
  const long size = hook::sys_readlinkat(directory, name, target, sizeof(target));
  if (size < 0) return Buffered::kNotThere;
  *id = wire::parse_buffer_target({target, static_cast<size_t>(size)});
  return *id != 0 ? Buffered::kFile : Buffered::kRemoved;
}

// A handler of the program's may interrupt it.
int lock_journal(int journal, int operation) {
  int outcome = -EINTR;
  while (outcome == -EINTR) outcome = hook::sys_flock(journal, operation);
  return outcome;
}

// The journal's lock, and changes under it.
class Locked {
 public:
  explicit Locked(const Buffer& buffer) : buffer_(buffer) {
    if (!path_ || !record_ || !join(buffer.directory, "", "", *path_)) return;
    directory_ = hook::sys_open(path_->text, O_PATH | O_DIRECTORY);
    if (directory_ == -ENOENT) error_ = kNotBuffered;
    if (directory_ < 0) return;
    const int journal = hook::sys_openat(directory_, wire::kBufferJournal, O_RDWR | O_APPEND);
    if (journal < 0) return;
    journal_ = journal;
    if (lock_journal(journal_, LOCK_EX) == 0) error_ = 0;
  }
  ~Locked() {
    // Not only close: a child that was forked meanwhile has the description too.
    if (error_ == 0) hook::sys_flock(journal_, LOCK_UN);
    if (journal_ >= 0) hook::sys_close(journal_);
    if (directory_ >= 0) hook::sys_close(directory_);
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

  // 0: it is locked. kNotBuffered: the buffer is gone, and everything in the upper directory.
  int error() const { return error_; }
  int journal() const { return journal_; }
  int directory() const { return directory_; }

  Buffered look(std::string_view relative, uint64_t* id) {
    if (!join("", wire::kBufferNames, relative, *path_)) return Buffered::kNotThere;
    return read_target(directory_, path_->text, id);
  }

  // What the upper directory has. 0 or minus an errno value.
  int stat_upper(std::string_view relative, struct stat* info) {
    if (!join(buffer_.upper, "", relative, *path_)) return -ENAMETOOLONG;
    return hook::sys_lstat(path_->text, info);
  }

  // What would fail later must fail now. 0 or minus an errno value.
  int check_upper(std::string_view relative, int mode) {
    if (!join(buffer_.upper, "", relative, *path_)) return -ENAMETOOLONG;
    return hook::sys_access(path_->text, mode);
  }
  int check_upper_parent(std::string_view relative) {
    const size_t slash = relative.rfind('/');
    return check_upper({relative.data(), slash == std::string_view::npos ? 0 : slash}, W_OK | X_OK);
  }

  // Whether an extended attribute of the user's would be lost if the file were replaced.
  bool has_user_attributes(std::string_view relative) {
    static constexpr std::string_view kUser = "user.";
    if (!join(buffer_.upper, "", relative, *path_)) return false;
    const long size = hook::own_call(SYS_llistxattr, hook::word(path_->text),
                                     hook::word(record_->bytes), sizeof(record_->bytes));
    for (long at = 0; at < size;) {
      const std::string_view name = record_->bytes + at;
      if (name.size() > kUser.size() && std::string_view(name.data(), kUser.size()) == kUser) {
        return true;
      }
      at += static_cast<long>(name.size()) + 1;
    }
    return size < 0 && size != -EOPNOTSUPP;
  }

  // Makes a link that place() can rename to names/RELATIVE, and its directories there.
  int prepare(const char* next, const char* target, std::string_view relative) {
    hook::sys_unlinkat(directory_, next);
    if (const int made = hook::sys_symlinkat(target, directory_, next); made < 0) return made;
    if (!join("", wire::kBufferNames, relative, *path_)) return -ENAMETOOLONG;
    for (char* at = path_->text + sizeof(wire::kBufferNames); *at != '\0'; ++at) {
      if (*at != '/') continue;
      *at = '\0';
      const int made = hook::sys_mkdirat(directory_, path_->text, 0700);
      *at = '/';
      if (made < 0 && made != -EEXIST) return made;
    }
    struct stat info;
    const int found = hook::sys_lstatat(directory_, path_->text, &info);
    if (found == 0 && S_ISDIR(info.st_mode)) return -EISDIR;
    return found == -ENOENT ? 0 : found;
  }
  int place(const char* next, std::string_view relative) {
    if (!join("", wire::kBufferNames, relative, *path_)) return -ENAMETOOLONG;
    return hook::sys_renameat(directory_, next, path_->text);
  }

  int append(BufferRecordKind kind, uint64_t id, uint64_t value, std::string_view from = "",
             std::string_view to = "") {
    wire::BufferRecord record = {};
    record.magic = wire::kBufferRecordMagic;
    record.kind = kind;
    record.id = id;
    record.value = value;
    record.time_ns = hook::sys_time_ns(CLOCK_REALTIME);
    record.from_bytes = static_cast<uint16_t>(from.size());
    record.size_bytes = static_cast<uint32_t>(sizeof(record) + from.size() + to.size());
    if (record.size_bytes > sizeof(record_->bytes)) return -ENAMETOOLONG;
    char* bytes = record_->bytes;
    std::memcpy(bytes + sizeof(record), from.data(), from.size());
    std::memcpy(bytes + sizeof(record) + from.size(), to.data(), to.size());
    std::memcpy(bytes, &record, sizeof(record));
    record.crc = wire::buffer_crc(bytes + wire::kBufferRecordUnchecked,
                                  record.size_bytes - wire::kBufferRecordUnchecked);
    std::memcpy(bytes, &record, sizeof(record));
    const long before = hook::sys_lseek(journal_, 0, SEEK_END);
    const long written = hook::sys_write(journal_, bytes, record.size_bytes);
    if (written == static_cast<long>(record.size_bytes)) return 0;
    if (written > 0) hook::sys_ftruncate(journal_, static_cast<uint64_t>(before));
    return written < 0 ? static_cast<int>(written) : -ENOSPC;
  }

 private:
  struct Record {
    char bytes[wire::kBufferRecordMax];
  };
  const Buffer& buffer_;
  const hook::SignalsBlocked signals_blocked_;
  const Scratch<ScratchText> path_;
  const Scratch<Record> record_;
  int directory_ = -1;
  int journal_ = -1;
  int error_ = -EIO;
};

// Creates data/ID under a new id. The owner can always read it: the drainer must.
int create_data(const Locked& locked, int flags, unsigned mode, uint64_t* id) {
  for (;;) {
    const long got = hook::own_call(SYS_getrandom, hook::word(id), sizeof(*id), 0);
    if (got != sizeof(*id)) return got < 0 ? static_cast<int>(got) : -EIO;
    if (*id == 0) continue;
    // Not sys_openat, which would add O_CLOEXEC to the program's descriptor.
    const long fd = hook::own_call(SYS_openat, locked.directory(), hook::word(DataName(*id).text),
                                   flags | O_CREAT | O_EXCL, static_cast<long>(mode | S_IRUSR));
    if (fd != -EEXIST) return static_cast<int>(fd);
  }
}

// A new file that gets the name. `old` is the mode of the file that it replaces; 0: there is none.
int open_new(Locked& locked, std::string_view relative, int flags, unsigned mode, unsigned old,
             uint64_t* id) {
  if (const int error = locked.check_upper_parent(relative); error < 0) return error;
  const int fd = create_data(locked, flags, mode, id);
  if (fd < 0) return fd;
  const DataName data(*id);
  if (old != 0) hook::sys_fchmod(fd, (old & 07777) | S_IRUSR);
  int error = locked.prepare(kNextFile, data.text, relative);
  if (error == 0) error = locked.append(BufferRecordKind::kOpened, *id, 0, relative);
  if (error == 0) {
    locked.place(kNextFile, relative);
    return fd;
  }
  hook::sys_unlinkat(locked.directory(), data.text);
  hook::sys_close(fd);
  return error;
}

// A file that is in the buffer, as it is. O_NONBLOCK, because the drainer has a lease on it while
// it copies.
int open_again(Locked& locked, std::string_view relative, int flags, uint64_t id) {
  const int left = flags & ~(O_CREAT | O_EXCL | O_TRUNC);
  const auto fd = static_cast<int>(hook::own_call(
      SYS_openat, locked.directory(), hook::word(DataName(id).text), left | O_NONBLOCK));
  if (fd == -EWOULDBLOCK || fd == -ENOENT) return kNotBuffered;
  if (fd < 0) return fd;
  if ((flags & O_NONBLOCK) == 0) hook::own_call(SYS_fcntl, fd, F_SETFL, left);
  if ((flags & O_ACCMODE) == O_RDONLY) return fd;
  const int error = locked.append(BufferRecordKind::kOpened, id, 0, relative);
  if (error == 0) return fd;
  hook::sys_close(fd);
  return error;
}

// An open() of a name about which the buffer knows nothing.
int open_outside(Locked& locked, std::string_view relative, int flags, unsigned mode,
                 uint64_t* id) {
  struct stat info;
  const int found = locked.stat_upper(relative, &info);
  if (found == -ENOENT && (flags & O_CREAT) != 0) {
    return open_new(locked, relative, flags, mode, 0, id);
  }
  if (found < 0) return found;
  if ((flags & O_CREAT) != 0 && (flags & O_EXCL) != 0) return -EEXIST;
  // Links of the file must see the change too.
  if ((flags & O_TRUNC) == 0 || !S_ISREG(info.st_mode) || info.st_nlink > 1 ||
      locked.has_user_attributes(relative)) {
    return kNotBuffered;
  }
  if (const int error = locked.check_upper(relative, W_OK); error < 0) return error;
  return open_new(locked, relative, flags, mode, info.st_mode, id);
}

int append_and_sync(const Buffer& buffer, BufferRecordKind kind, uint64_t id, uint64_t value) {
  int journal = -1;
  {
    Locked locked(buffer);
    if (locked.error() != 0) return -EIO;  // also if it is gone, with the file
    if (const int error = locked.append(kind, id, value); error < 0) return error;
    journal = static_cast<int>(hook::own_call(SYS_fcntl, locked.journal(), F_DUPFD_CLOEXEC, 0));
  }
  // Others need not wait for the device.
  if (journal < 0) return journal;
  const int error = hook::sys_fdatasync(journal);
  hook::sys_close(journal);
  return error;
}

// Opens data/ID for a change of its attributes, which is recorded under the same lock.
template <typename Change>
int change_buffered(const Buffer& buffer, std::string_view relative, Change change) {
  Locked locked(buffer);
  if (locked.error() != 0) return locked.error();
  uint64_t id = 0;
  const Buffered kind = locked.look(relative, &id);
  if (kind == Buffered::kRemoved) return -ENOENT;
  if (kind == Buffered::kNotThere) return kNotBuffered;
  const DataName data(id);
  if (const int error = change(locked.directory(), data.text); error < 0) return error;
  return locked.append(BufferRecordKind::kAttributes, id, 0);
}

// 0 or minus an errno value.
int read_progress(const Buffer& buffer, wire::BufferProgress& progress, uint64_t* journal_bytes) {
  const int fd = open_in(buffer, wire::kBufferProgress, O_RDONLY);
  if (fd < 0) return fd;
  const long got = hook::sys_pread(fd, &progress, sizeof(progress), 0);
  hook::sys_close(fd);
  if (got != sizeof(progress)) return -EIO;
  const int journal = open_in(buffer, wire::kBufferJournal, O_RDONLY);
  if (journal < 0) return journal;
  *journal_bytes = static_cast<uint64_t>(hook::sys_lseek(journal, 0, SEEK_END));
  hook::sys_close(journal);
  return 0;
}

// A buffer that is gone had nothing left: everything is in the upper directory.
int kept_error(int error) { return error == -ENOENT ? 0 : error; }

// Whether a process copies its files.
bool is_drained(const Buffer& buffer) {
  const int fd = open_in(buffer, wire::kBufferDrainLock, O_RDWR);
  if (fd < 0) return false;
  struct flock wanted = {};
  wanted.l_type = F_WRLCK;
  const long asked = hook::own_call(SYS_fcntl, fd, F_OFD_GETLK, hook::word(&wanted));
  hook::sys_close(fd);
  return asked == 0 && wanted.l_type != F_UNLCK;
}

}  // namespace

// As a link or as a directory. The drainer removes empty directories.
bool has_buffered(const Buffer& buffer, std::string_view relative) {
  const Scratch<ScratchText> path;
  struct stat info;
  return !relative.empty() && path && join(buffer.directory, wire::kBufferNames, relative, *path) &&
         hook::sys_lstat(path->text, &info) == 0;
}

bool is_buffered_name(const Buffer& buffer, std::string_view relative) {
  std::string_view rest = buffer.globs;
  while (!rest.empty()) {
    const size_t end = rest.find('\0');
    const std::string_view glob(rest.data(), end == std::string_view::npos ? rest.size() : end);
    if (!glob.empty() && hook::glob_matches(glob, relative)) return true;
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return false;
}

Buffered look(const Buffer& buffer, std::string_view relative, uint64_t* id) {
  const Scratch<ScratchText> path;
  if (buffer.directory.empty() || relative.empty() || !path ||
      !join(buffer.directory, wire::kBufferNames, relative, *path)) {
    return Buffered::kNotThere;
  }
  return read_target(AT_FDCWD, path->text, id);
}

bool write_data_path(const Buffer& buffer, uint64_t id, char* out, size_t room) {
  const DataName data(id);
  if (buffer.directory.size() + sizeof(data.text) + 1 > room) return false;
  Text(out, room).add(buffer.directory).add("/").add(data.text);
  return true;
}

int open_buffered(const Buffer& buffer, std::string_view relative, int flags, unsigned mode,
                  uint64_t* id) {
  const bool writes = (flags & O_ACCMODE) != O_RDONLY;
  if (!writes && (flags & O_TRUNC) != 0) return kNotBuffered;
  if ((flags & (O_PATH | O_DIRECTORY)) != 0 || relative.size() > wire::kBufferPathMax) {
    return kNotBuffered;
  }
  Locked locked(buffer);
  if (locked.error() != 0) return locked.error();
  switch (locked.look(relative, id)) {
    case Buffered::kFile: {
      if ((flags & O_CREAT) != 0 && (flags & O_EXCL) != 0) return -EEXIST;
      if ((flags & O_TRUNC) == 0) return open_again(locked, relative, flags, *id);
      struct stat info = {};
      hook::sys_lstatat(locked.directory(), DataName(*id).text, &info);
      return open_new(locked, relative, flags, mode, info.st_mode, id);
    }
    case Buffered::kRemoved:
      if ((flags & O_CREAT) == 0) return -ENOENT;
      return open_new(locked, relative, flags, mode, 0, id);
    case Buffered::kNotThere:
      return writes ? open_outside(locked, relative, flags, mode, id) : kNotBuffered;
  }
  return kNotBuffered;
}

int note_closed(const Buffer& buffer, uint64_t id) {
  return append_and_sync(buffer, BufferRecordKind::kClosed, id, 0);
}

int note_synced(const Buffer& buffer, uint64_t id, uint64_t size_bytes) {
  const int data = open_in(buffer, wire::kBufferData, O_RDONLY | O_DIRECTORY);
  if (data < 0) return data;
  const int error = hook::sys_fsync(data);
  hook::sys_close(data);
  if (error < 0) return error;
  return append_and_sync(buffer, BufferRecordKind::kSynced, id, size_bytes);
}

int sync_names(const Buffer& buffer) {
  const int journal = open_in(buffer, wire::kBufferJournal, O_RDWR);
  if (journal < 0) return journal == -ENOENT ? 0 : journal;
  const int error = hook::sys_fdatasync(journal);
  hook::sys_close(journal);
  return error;
}

int rename_buffered(const Buffer& buffer, std::string_view from, std::string_view to,
                    unsigned flags) {
  if ((flags & ~kNoReplace) != 0) return kNotBuffered;
  Locked locked(buffer);
  if (locked.error() != 0) return locked.error();
  uint64_t id = 0;
  uint64_t replaced = 0;
  const Buffered kind = locked.look(from, &id);
  if (kind == Buffered::kNotThere) return kNotBuffered;
  if (kind == Buffered::kRemoved) return -ENOENT;
  if (from == to) return (flags & kNoReplace) != 0 ? -EEXIST : 0;
  const Buffered there = locked.look(to, &replaced);
  struct stat info;
  const int found = there == Buffered::kNotThere ? locked.stat_upper(to, &info)
                    : there == Buffered::kFile   ? 0
                                                 : -ENOENT;
  if (found < 0 && found != -ENOENT) return found;
  if (found == 0 && (flags & kNoReplace) != 0) return -EEXIST;
  if (found == 0 && there == Buffered::kNotThere && S_ISDIR(info.st_mode)) return -EISDIR;
  if (const int error = locked.check_upper_parent(to); error < 0) return error;
  int error = locked.prepare(kNextFile, DataName(id).text, to);
  if (error == 0) error = locked.prepare(kNextRemoved, wire::kBufferRemoved.data(), from);
  if (error == 0) error = locked.append(BufferRecordKind::kRenamed, 0, 0, from, to);
  if (error < 0) return error;
  locked.place(kNextFile, to);
  locked.place(kNextRemoved, from);
  return 0;
}

int remove_buffered(const Buffer& buffer, std::string_view relative) {
  Locked locked(buffer);
  if (locked.error() != 0) return locked.error();
  uint64_t id = 0;
  const Buffered kind = locked.look(relative, &id);
  if (kind == Buffered::kRemoved) return -ENOENT;
  if (kind == Buffered::kNotThere) {
    struct stat info;
    if (const int error = locked.stat_upper(relative, &info); error < 0) return error;
    if (S_ISDIR(info.st_mode)) return -EISDIR;
    wire::BufferProgress progress = {};
    uint64_t end = 0;
    const bool is_known = read_progress(buffer, progress, &end) == 0;
    if (is_known && progress.offset >= end) return kNotBuffered;  // nothing to wait for
    if (const int error = locked.check_upper_parent(relative); error < 0) return error;
  }
  int error = locked.prepare(kNextRemoved, wire::kBufferRemoved.data(), relative);
  if (error == 0) error = locked.append(BufferRecordKind::kRemoved, 0, 0, relative);
  if (error == 0) locked.place(kNextRemoved, relative);
  return error;
}

int set_mode_buffered(const Buffer& buffer, std::string_view relative, unsigned mode) {
  return change_buffered(buffer, relative, [&](int directory, const char* data) {
    return static_cast<int>(hook::own_call(SYS_fchmodat, directory, hook::word(data),
                                           static_cast<long>(mode | S_IRUSR)));
  });
}

int set_times_buffered(const Buffer& buffer, std::string_view relative, const timespec* times) {
  return change_buffered(buffer, relative, [&](int directory, const char* data) {
    return static_cast<int>(
        hook::own_call(SYS_utimensat, directory, hook::word(data), hook::word(times), 0));
  });
}

int wait_native(const Buffer& buffer, std::string_view relative, std::string_view other) {
  wire::BufferProgress first = {};
  wire::BufferProgress now = {};
  uint64_t end = 0;
  uint64_t size_now = 0;
  if (const int error = read_progress(buffer, first, &end); error < 0) return kept_error(error);
  uint64_t beat = first.beat;
  uint64_t since_ns = hook::sys_time_ns(CLOCK_MONOTONIC);
  for (uint32_t pause_ms = 1;; pause_ms = pause_ms < 16 ? pause_ms * 2 : 16) {
    if (const int error = read_progress(buffer, now, &size_now); error < 0) {
      return kept_error(error);
    }
    const bool is_turn = now.generation != first.generation || now.offset >= end;
    if (is_turn && !has_buffered(buffer, relative) && !has_buffered(buffer, other)) return 0;
    const uint64_t time_ns = hook::sys_time_ns(CLOCK_MONOTONIC);
    if (now.beat != beat) {
      beat = now.beat;
      since_ns = time_ns;
    }
    const uint64_t silent_ns = time_ns - since_ns;
    if (silent_ns > kDeadPatienceNs && !is_drained(buffer)) return -EIO;
    if (silent_ns > uint64_t{buffer.patience_ms} * 1'000'000) {
      if (now.error != 0) return -static_cast<int>(now.error);
      if (is_turn) return -EBUSY;  // a program has it open for writing
    }
    if (silent_ns > kSilentPatienceNs) return -EIO;
    hook::sys_sleep_ms(pause_ms);
  }
}

NamesHeld::NamesHeld(const Buffer& buffer, std::string_view directory) {
  if (!directory.empty() && !has_buffered(buffer, directory)) return;
  journal_ = open_in(buffer, wire::kBufferJournal, O_RDONLY);
  if (journal_ >= 0) lock_journal(journal_, LOCK_SH);
}

NamesHeld::~NamesHeld() {
  if (journal_ < 0) return;
  hook::sys_flock(journal_, LOCK_UN);  // a child that was forked meanwhile has the description too
  hook::sys_close(journal_);
}

int open_names(const Buffer& buffer, std::string_view directory) {
  return open_in(buffer, wire::kBufferNames, O_RDONLY | O_DIRECTORY, directory);
}

int next_name(int names, NameReader& reader, BufferedName& out) {
  for (;;) {
    if (reader.at >= reader.size_bytes) {
      const long got =
          hook::own_call(SYS_getdents64, names, hook::word(reader.entries), sizeof(reader.entries));
      if (got <= 0) return static_cast<int>(got);
      reader.at = 0;
      reader.size_bytes = static_cast<size_t>(got);
    }
    const auto* entry = reinterpret_cast<const struct dirent64*>(reader.entries + reader.at);
    reader.at += entry->d_reclen;
    const size_t length = std::strlen(entry->d_name);
    if (length >= sizeof(out.text)) continue;
    std::memcpy(out.text, entry->d_name, length + 1);
    out.kind = read_target(names, entry->d_name, &out.id);
    if (out.kind != Buffered::kNotThere) return 1;  // directories are ordinary ones
  }
}

}  // namespace millrace::store
