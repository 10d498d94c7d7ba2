// Buffer: the client's part of `--buffer`, files that programs write at local speed.
// docs/design/store-buffer.md, docs/formats/store-buffer.md.
//
// Every change is a record of the journal, and then a change of names/, both under the journal's
// lock. While it is held, the thread blocks signals: a handler that comes here too would wait for
// itself. No descriptor stays open between calls.
//
// Paths are relative to the root, without a slash at either end, resolved and not in the pack.
// Functions return what the kernel would: a value, or minus an errno value. kNotBuffered means:
// call wait_native(), then do it natively in the upper directory.
#pragma once

#include <sys/stat.h>
#include <time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hook/syscall.h"
#include "wire/store_buffer.h"

namespace millrace::store {

struct Buffer {
  std::string_view directory;     // absolute; empty: nothing is buffered
  std::string_view upper;         // the upper directory, absolute
  std::string_view globs;         // each ends with a zero
  uint32_t patience_ms = 20'000;  // of wait_native() with something that fails
};

inline constexpr int kNotBuffered = -0x10000;  // no errno value

// Whether new files of this name are buffered.
bool is_buffered_name(const Buffer& buffer, std::string_view relative);

enum class Buffered : uint8_t {
  kNotThere,  // look in the upper directory
  kFile,
  kRemoved,  // does not exist, whatever the upper directory has
};

// What has the name; `*id` is that of a file. One system call. The file may be copied and removed
// at any time after that: if its data path does not exist any more, look again.
Buffered look(const Buffer& buffer, std::string_view relative, uint64_t* id);

// Writes BUFFER/data/ID and a zero. False if there is no room.
bool write_data_path(const Buffer& buffer, uint64_t id, char* out, size_t room);

// open() of a name that is buffered or in the buffer, for writing or with O_CREAT. A new file, or
// one that is emptied (O_TRUNC), is new here; so is its id. One that is in the buffer and is not
// being copied is opened as it is. kNotBuffered: it is an ordinary file, or must become one first.
int open_buffered(const Buffer& buffer, std::string_view relative, int flags, unsigned mode,
                  uint64_t* id);

// After a writer has closed the file, and after fsync of it. 0, or the error of the journal.
int note_closed(const Buffer& buffer, uint64_t id);
int note_synced(const Buffer& buffer, uint64_t id, uint64_t size_bytes);

// After fsync of a directory: renames and removals before that are durable.
int sync_names(const Buffer& buffer);

// rename() and unlink() of a name that is buffered or in the buffer. `flags` are those of
// renameat2().
int rename_buffered(const Buffer& buffer, std::string_view from, std::string_view to,
                    unsigned flags);
int remove_buffered(const Buffer& buffer, std::string_view relative);

// chmod() and utimensat() of a name that is in the buffer. kNotBuffered: it is not.
int set_mode_buffered(const Buffer& buffer, std::string_view relative, unsigned mode);
int set_times_buffered(const Buffer& buffer, std::string_view relative, const timespec* times);

// Waits until what happened to buffered names before this call has happened in the upper directory,
// and the buffer has nothing at or below either name. Returns 0; or minus an errno value: that of
// what stops the queue, EBUSY if somebody still writes the file, EIO if nobody copies any more.
int wait_native(const Buffer& buffer, std::string_view relative, std::string_view other = {});

// Holds the journal's lock: while a listing reads the upper directory and then the buffer, the
// drainer must not move a name from one to the other.
class NamesHeld {
 public:
  NamesHeld(const Buffer& buffer, std::string_view directory);
  ~NamesHeld();
  NamesHeld(const NamesHeld&) = delete;
  NamesHeld& operator=(const NamesHeld&) = delete;

 private:
  const hook::SignalsBlocked signals_blocked_;
  int journal_ = -1;  // negative: the buffer has no names there
};

// Lists what the buffer says about the names in a directory.
struct NameReader {
  char entries[4096];
  size_t at = 0;
  size_t size_bytes = 0;
};
struct BufferedName {
  char text[256];
  Buffered kind = Buffered::kNotThere;
  uint64_t id = 0;
};
// Whether the buffer has something at or below the name.
bool has_buffered(const Buffer& buffer, std::string_view relative);
// A descriptor for next_name() that the caller closes; -ENOENT if the buffer has nothing there.
int open_names(const Buffer& buffer, std::string_view directory);
// 1: `out` is the next name, a file or removed; 0: there are no more; or minus an errno value.
int next_name(int names, NameReader& reader, BufferedName& out);

// Which descriptors of this process write a file of the buffer. A forked child starts with none:
// its parent closes them. The drainer finds files that nobody closes here. REQUIRES: add() and
// duplicated() are not called in a vfork child.
class BufferedWriters {
 public:
  static constexpr unsigned kNumbers = 4096;  // higher ones are rare; the drainer finds their files

  void add(int fd, uint64_t id) {
    if (!is_counted(fd)) return;
    const uint32_t pid = hook::sys_getpid();
    if (pid_.exchange(pid, std::memory_order_relaxed) != pid) {
      for (std::atomic<uint64_t>& known : ids_) known.store(0, std::memory_order_relaxed);
    }
    ids_[fd].store(id, std::memory_order_relaxed);
    is_used_.store(true, std::memory_order_relaxed);
  }

  // 0: none.
  uint64_t id_of(int fd) const {
    if (!is_used_.load(std::memory_order_relaxed) || !is_counted(fd)) return 0;
    const uint64_t id = ids_[fd].load(std::memory_order_relaxed);
    return id != 0 && pid_.load(std::memory_order_relaxed) == hook::sys_getpid() ? id : 0;
  }

  void duplicated(int from, int to) {
    if (const uint64_t id = id_of(from); id != 0) add(to, id);
  }

  // Forgets the number. Returns the id if no other descriptor of this process writes the file, for
  // note_closed() after the real close; otherwise 0.
  uint64_t take(int fd) {
    const uint64_t id = id_of(fd);
    if (id == 0 || ids_[fd].exchange(0, std::memory_order_relaxed) != id) return 0;
    for (const std::atomic<uint64_t>& other : ids_) {
      if (other.load(std::memory_order_relaxed) == id) return 0;
    }
    return id;
  }

 private:
  static bool is_counted(int fd) { return static_cast<unsigned>(fd) < kNumbers; }

  std::atomic<bool> is_used_{false};
  std::atomic<uint32_t> pid_{0};
  std::atomic<uint64_t> ids_[kNumbers] = {};
};

inline constinit BufferedWriters buffered_writers;

}  // namespace millrace::store
