// Client: what a program needs to read through the store of its node.
//
// The library maps the catalogue and the state of the node at its start (MILLRACE_STORE). Without
// them it does nothing: every call goes to the C library. A file is opened in the tree of the node;
// if it is not there yet, the service is asked for it first. If the service is dead, silent or
// fails, the file is opened in the origin, with one warning per process. The program is never ended
// and never waits longer than the deadline.
//
// Nothing is open between calls, so there is nothing that a forked child could share by accident.
#pragma once

#include <errno.h>
#include <sys/stat.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hook/scratch.h"
#include "store/preload/resolve.h"
#include "wire/catalogue_view.h"
#include "wire/store_message.h"
#include "wire/store_state.h"

namespace millrace::store {

struct Client {
  wire::CatalogueView catalogue;
  wire::StoreState* state = nullptr;  // shared with the service and all programs of the job
  std::string_view root;
  std::string_view real_root;  // without links above it: what the kernel calls it; empty: the same
  std::string_view origin;     // empty: none
  std::string_view node;       // the directory of the node
  std::string_view tree;       // "NODE/tree", without links
  char tree_text[kPathBytes] = {};
  char real_root_text[kPathBytes] = {};
  const std::byte* arena = nullptr;  // fast mode: the bytes of files; null: not in fast mode
  uint64_t arena_bytes = 0;
  uint64_t* places = nullptr;  // fast mode: where they are, by entry; written by the service only
  uint64_t tree_device = 0;    // st_dev of the files in the tree
  uint64_t shown_device = 0;   // st_dev that programs see: no device of the kernel has this number
  uint32_t user = 0;           // st_uid and st_gid
  uint32_t group = 0;
  uint32_t deadline_ms = wire::kStoreDeadlineMs;
  std::atomic<uint32_t> pid{0};              // a vfork child has another one
  std::atomic<uint64_t> origin_device{0};    // st_dev there; 0: nothing was opened there yet
  std::atomic<uint64_t> silent_until_ns{0};  // the service is not asked before this time

  // Whether a program of the job may have created names below the root. If not, a name that the
  // catalogue lacks does not exist, and no system call is needed to know it.
  bool has_written() const {
    return std::atomic_ref<uint64_t>(state->written).load(std::memory_order_relaxed) != 0;
  }

  Catalogued catalogued() const;

  // The part of an absolute real path after the tree of the node; null data if it is not there.
  std::string_view below_tree(std::string_view path) const { return below_root(tree, path); }

  // The part of an absolute path after the root; null data if it is not below the root.
  std::string_view below(std::string_view path) const {
    const std::string_view found = below_root(root, path);
    if (found.data() != nullptr || real_root.empty()) return found;
    return below_root(real_root, path);
  }
};

extern constinit Client client;

enum class Phase : uint8_t { kNew, kStarting, kActive, kOff };
extern constinit std::atomic<Phase> phase;
bool start_client();

// Whether there is a store. Hooks call this first.
inline bool active() {
  const Phase now = phase.load(std::memory_order_acquire);
  if (__builtin_expect(now == Phase::kActive, 1)) return true;
  return now == Phase::kNew && start_client();
}

// Asks the service for a file: to write it into the tree, to place it in the arena, or to fetch it
// from another node. 0, or an errno value: of the service, or ETIMEDOUT, ECONNREFUSED and the like
// if it cannot be asked.
int ask_for(uint64_t entry, wire::StoreRequestKind kind);
inline int materialise(uint32_t entry) {
  return ask_for(entry, wire::StoreRequestKind::kMaterialise);
}

// Tells the service that names will be created below a directory of the catalogue, so that it
// watches them. Once for each directory of a process.
void announce_names(uint32_t directory);

// Waits until the other nodes know what this one did to names below the root. Keeps errno.
void share_names();

// Makes a file of another node one of this node, given the real path of its name: with its bytes,
// or empty. Does nothing if it is none. 0, or an errno value.
int take_file(const char* real, bool needs_bytes);

// Counts that a file is read from the origin; the first one in a process is reported on stderr.
void note_fallback(uint32_t entry, int error);
// The same for a file that cannot be read at all.
void note_failure(uint32_t entry, int error);

inline void count(uint64_t& counter) {
  std::atomic_ref<uint64_t>(counter).fetch_add(1, std::memory_order_relaxed);
}

// Writes the name of an entry in a directory, with a zero. False if there is no room for it.
bool join_path(std::string_view directory, uint32_t entry, char* out, size_t room);

// The name of an entry in the tree or in the origin.
struct RealPath {
  char text[2 * kPathBytes];

  // False if the name is too long.
  bool in_tree(uint32_t entry) { return join_path(client.tree, entry, text, sizeof(text)); }
  bool in_origin(uint32_t entry) { return join_path(client.origin, entry, text, sizeof(text)); }
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

inline constexpr int kMakeTries = 3;

// The rest of with_real_path, for a file that is not in the tree, or has a long name.
template <typename Body>
[[gnu::noinline]] auto with_made_path(uint32_t entry, bool is_missing, Body body) {
  using Result = decltype(body(static_cast<const char*>(nullptr)));
  const hook::Scratch<RealPath> path;
  if (!path) return failure<Result>(ENOMEM);
  if (!path->in_tree(entry)) return failure<Result>(ENAMETOOLONG);
  const int saved_errno = errno;
  if (!is_missing) {
    const Result result = body(static_cast<const char*>(path->text));
    if (!has_failed(result) || errno != ENOENT) return result;
  }
  int error = ENOENT;
  const bool is_file = client.catalogue.entry(entry).kind == wire::EntryKind::kFile;
  // The service may remove a file before we open it, for one that a loader needs.
  for (int tries = 0; is_file && tries < kMakeTries; ++tries) {
    error = materialise(entry);
    if (error == EMFILE || error == ENFILE) return failure<Result>(error);
    errno = saved_errno;
    if (error != 0) break;
    const Result result = body(static_cast<const char*>(path->text));
    if (!has_failed(result) || errno != ENOENT) return result;
    error = ENOENT;
  }
  if (!client.origin.empty() && path->in_origin(entry)) {
    errno = saved_errno;
    const Result result = body(static_cast<const char*>(path->text));
    if (!has_failed(result)) {
      note_fallback(entry, error);
      return result;
    }
  }
  note_failure(entry, error);
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
