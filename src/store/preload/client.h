// Client: what a program needs to use the store of its node.
//
// The steps are in docs/design/store.md. The program is never ended, and never waits longer than
// the deadline. Nothing is open between calls, so there is nothing that a forked child could share
// by accident.
#pragma once

#include <errno.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hook/environment.h"
#include "hook/say.h"
#include "hook/scratch.h"
#include "hook/text.h"
#include "store/preload/buffer.h"
#include "store/preload/resolve.h"
#include "store/preload/service_line.h"
#include "wire/catalogue_view.h"
#include "wire/store_message.h"
#include "wire/store_state.h"

namespace millrace::store {

using hook::Text;

struct Client {
  wire::CatalogueView catalogue;
  wire::StoreState* state = nullptr;  // shared with the service and all programs of the job
  std::string_view root;
  std::string_view real_root;  // without links above it: what the kernel calls it; empty: the same
  std::string_view origin;     // empty: none
  std::string_view upper;      // where created names are, without links; empty: nowhere
  std::string_view node;       // the directory of the node
  std::string_view tree;       // "NODE/tree", without links
  char tree_text[kPathBytes] = {};
  char real_root_text[kPathBytes] = {};
  char buffer_text[kPathBytes] = {};
  const std::byte* arena = nullptr;  // fast mode: the bytes of files; null: not in fast mode
  uint64_t arena_bytes = 0;
  uint64_t* places = nullptr;  // fast mode: where they are, by entry; written by the service only
  uint64_t tree_device = 0;    // st_dev of the files in the tree
  uint64_t upper_device = 0;   // of the upper directory
  uint64_t shown_device = 0;   // st_dev that programs see: no device of the kernel has this number
  Buffer buffer;               // of --buffer
  uint32_t user = 0;           // st_uid and st_gid
  uint32_t group = 0;
  ServiceLine service;
  std::atomic<uint32_t> pid{0};            // a vfork child has another one
  std::atomic<uint64_t> origin_device{0};  // st_dev there; 0: nothing was opened there yet

  bool has_buffer() const { return !buffer.directory.empty(); }

  Catalogued catalogued() const;

  // The part of an absolute real path after the upper directory; null data if it is not there.
  std::string_view below_upper(std::string_view path) const {
    return upper.empty() ? std::string_view() : below_root(upper, path);
  }

  // Whether the upper directory is the root itself: then its real names are those of programs.
  bool is_root_upper() const { return upper == root || (!real_root.empty() && upper == real_root); }

  // The part of an absolute path after the root; null data if it is not below the root.
  std::string_view below(std::string_view path) const {
    const std::string_view found = below_root(root, path);
    if (found.data() != nullptr || real_root.empty()) return found;
    return below_root(real_root, path);
  }
};

extern constinit Client client;

// What started programs need.
inline constinit hook::Environment kept_environment;

enum class Phase : uint8_t { kNew, kStarting, kActive, kOff };
extern constinit std::atomic<Phase> phase;
bool start_client();

// Whether there is a store. Hooks call this first.
inline bool active() {
  const Phase now = phase.load(std::memory_order_acquire);
  if (__builtin_expect(now == Phase::kActive, 1)) return true;
  return now == Phase::kNew && start_client();
}

// Calls write(text) for a line on stderr the first time. If it writes nothing, there is no line.
template <typename Write>
void say_once(std::atomic<bool>& was_said, Write write) {
  struct Message {
    char text[3 * kPathBytes];
  };
  if (was_said.exchange(true)) return;
  const hook::Scratch<Message> message;
  if (!message) return;
  Text text(message->text);
  const size_t begin = text.add("millrace: ").size();
  write(text);
  if (text.size() > begin) hook::say(message->text, text.size());
}

// Writes the address of a socket in a directory, of which an address may have no room for the path:
// then it goes through a descriptor of the directory, which the caller closes. -1: there is none;
// or minus an errno value below that.
int write_address(std::string_view directory, std::string_view name, sockaddr_un& out);

// What /proc says a descriptor is. Its length, or minus an errno value.
inline long read_descriptor_link(int fd, char* out, size_t room) {
  char link[40];
  Text(link).add("/proc/self/fd/").add(static_cast<uint64_t>(fd));
  return hook::sys_readlink(link, out, room);
}

// Asks the service for a file: to write it into the tree, or to place it in the arena. 0, or an
// errno value: of the service, or ETIMEDOUT, ECONNREFUSED and the like if it cannot be asked.
int ask_for(uint64_t entry, wire::StoreRequestKind kind);

// Makes the directories of the catalogue down to `directory` in the upper directory, with their
// modes. Returns whether one was missing. Keeps errno.
bool make_upper_directories(uint32_t directory);

// A program wants to create a name, and there is no upper directory. Reported once on stderr.
void note_read_only();

// Counts that a file is read from the origin, or cannot be read at all; the first one in a process
// is reported on stderr. `why` ends the message.
void note_fallback(uint32_t entry, int error);
void note_failure(uint32_t entry, int error, const char* why);

// How the file of this name in the origin differs from the one that was packed; null if it does
// not, or cannot be opened. Compares the size and the bytes, or the time instead of the bytes: of a
// long file, and if `error` says that the node is full, because that lasts for the whole job.
const char* origin_difference(uint32_t entry, const char* path, int error);

inline void count(uint64_t& counter) {
  std::atomic_ref<uint64_t>(counter).fetch_add(1, std::memory_order_relaxed);
}

// Writes the name of an entry in a directory, with a zero. False if there is no room for it.
bool join_path(std::string_view directory, uint32_t entry, char* out, size_t room);

// The name of an entry in the tree, in the origin or in the upper directory.
struct RealPath {
  char text[2 * kPathBytes];

  // False if the name is too long.
  bool in_origin(uint32_t entry) { return join_path(client.origin, entry, text, sizeof(text)); }
  bool in_upper(uint32_t entry) {
    return !client.upper.empty() && join_path(client.upper, entry, text, sizeof(text));
  }
};

// Short enough for the stack of a signal handler, and enough for nearly all names.
inline constexpr size_t kShortPathBytes = 512;

inline bool has_failed(long result) { return result < 0; }
inline bool has_failed(const void* result) { return result == nullptr; }
template <typename Result>
Result failure(int error) {
  errno = error;
  if constexpr (std::is_pointer_v<Result>) {
    return nullptr;
  } else {
    return Result{-1};
  }
}

// The rest of with_real_path, for a file that is not in the tree, or has a long name.
template <typename Body>
[[gnu::noinline]] auto with_made_path(uint32_t entry, bool is_missing, Body body) {
  using Result = decltype(body(static_cast<const char*>(nullptr)));
  const hook::Scratch<RealPath> path;
  if (!path) return failure<Result>(ENOMEM);
  if (!join_path(client.tree, entry, path->text, sizeof(path->text))) {
    return failure<Result>(ENAMETOOLONG);
  }
  const int saved_errno = errno;
  if (!is_missing) {
    const Result result = body(static_cast<const char*>(path->text));
    if (!has_failed(result) || errno != ENOENT) return result;
  }
  int error = ENOENT;
  const bool is_file = client.catalogue.entry(entry).kind == wire::EntryKind::kFile;
  for (int tries = 0; is_file && tries < kMakeTries; ++tries) {
    error = ask_for(entry, wire::StoreRequestKind::kMaterialise);
    if (error == EMFILE || error == ENFILE) return failure<Result>(error);
    errno = saved_errno;
    if (error != 0) break;
    const Result result = body(static_cast<const char*>(path->text));
    if (!has_failed(result) || errno != ENOENT) return result;
    error = ENOENT;
  }
  const char* why = client.origin.empty() ? "is not available, and there is no origin"
                                          : "is not available, and the origin does not have it";
  if (!client.origin.empty() && path->in_origin(entry)) {
    if (const char* difference = is_file ? origin_difference(entry, path->text, error) : nullptr) {
      note_failure(entry, error, difference);
      return failure<Result>(EIO);
    }
    errno = saved_errno;
    const Result result = body(static_cast<const char*>(path->text));
    if (!has_failed(result)) {
      note_fallback(entry, error);
      return result;
    }
  }
  note_failure(entry, error, why);
  return failure<Result>(EIO);
}

// Calls body(path) with the real name of an entry: in the tree, after the service has made it if
// necessary; or else in the origin.
template <typename Body>
auto with_real_path(uint32_t entry, Body body) {
  const int saved_errno = errno;
  char path[kShortPathBytes];
  const bool is_short = join_path(client.tree, entry, path, sizeof(path));
  if (is_short) {
    const auto result = body(static_cast<const char*>(path));
    if (!has_failed(result) || errno != ENOENT) return result;
    errno = saved_errno;
  }
  return with_made_path(entry, is_short, body);
}

}  // namespace millrace::store
