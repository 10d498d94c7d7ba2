// StoreState: what the store's node service and its clients share, one mapped file for each job of
// a node (NODE/state). docs/formats/store-node.md.
//
// The service creates it and writes everything but the counters before it publishes the file by its
// name. Clients add to the counters. It lives as long as a job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "wire/wire.h"

namespace millrace::wire {

inline constexpr uint64_t kStoreStateMagic = 0x54415453534d5200;  // "\0RMSSTAT" as bytes
inline constexpr uint32_t kStoreStateVersion = 2;
inline constexpr size_t kStorePathBytes = 4096;  // with the zero at the end, as PATH_MAX

// Names in the directory of a node.
inline constexpr char kStoreCatalogueFile[] = "catalogue";
inline constexpr char kStoreStateFile[] = "state";
inline constexpr char kStoreSocketFile[] = "socket";
inline constexpr char kStoreTreeDirectory[] = "tree";
inline constexpr char kStoreMakingDirectory[] = "making";
inline constexpr char kStoreBufferPrefix[] = "buffer-";  // + the name of the job, beside the node's
inline constexpr char kStorePacksDirectory[] = "packs";  // copies of the node's partitions
inline constexpr char kStorePeersFile[] = "peers";       // the services of the job, and its key
inline constexpr char kStoreArenaFile[] = "arena";       // kStoreFast: the bytes of files
inline constexpr char kStorePlacesFile[] = "places";  // kStoreFast: where they are, u64 per entry

// Bits of `flags`.
inline constexpr uint64_t kStoreFast = 1;  // clients read from the arena

// A number in `places`: one of these, or the offset of the file's bytes in the arena, a multiple of
// kPlaceAlignment.
inline constexpr uint64_t kPlaceNone = 0;     // not there yet: ask the service
inline constexpr uint64_t kPlaceRefused = 1;  // it will not be there: open a real file
inline constexpr uint64_t kPlaceAlignment = 64;

// The environment of a job.
inline constexpr char kStoreVariable[] = "MILLRACE_STORE";  // the directory of the node
inline constexpr char kStoreDeadlineVariable[] = "MILLRACE_STORE_DEADLINE_MS";
inline constexpr uint32_t kStoreDeadlineMs = 30'000;

// Functions of the store's preload library, for one that comes before it and makes vfork itself.
inline constexpr char kStoreBeforeVfork[] = "millrace_store_before_vfork";
inline constexpr char kStoreAfterVfork[] = "millrace_store_after_vfork";

// Changed by relaxed atomic additions, from any process of the job.
struct StoreCounters {
  uint64_t opens;         // of files below the root, by clients
  uint64_t materialised;  // files that the service has written into the tree, and not removed
  uint64_t fallbacks;     // opens that went to the origin
  uint64_t errors;        // opens that failed with EIO, and files that could not be made
  uint64_t bytes;         // of the materialised files
  uint64_t peer_files;    // of those, files that came from other nodes
  uint64_t peer_bytes;    // of these
  uint64_t origin_files;  // files that the service had to take from the origin
};
static_assert(sizeof(StoreCounters) == 64);

struct StoreState {
  uint64_t magic;    // kStoreStateMagic
  uint32_t version;  // kStoreStateVersion
  uint32_t service_pid;
  uint64_t service_start_time;   // from /proc/PID/stat: distinguishes reused PIDs
  uint64_t flags;                // kStoreFast
  char root[kStorePathBytes];    // where programs see the files: absolute, normal, zero-terminated
  char origin[kStorePathBytes];  // the same files on the shared file system; empty: none
  char upper[kStorePathBytes];   // where programs create files: without links; empty: nowhere
  char globs[kStorePathBytes];   // --buffer: patterns, each with a zero; empty: no buffer
  StoreCounters counters;
  uint64_t replaced;  // files that the service has removed from the tree for others. A counter
  uint64_t reserved;  // 0
};
static_assert(sizeof(StoreState) == 16496);
static_assert(offsetof(StoreState, root) == 32);
static_assert(offsetof(StoreState, counters) == 16416);
static_assert(std::is_trivially_copyable_v<StoreState>);

// Null, or what is wrong with a state that someone mapped or read.
inline const char* problem_of(const StoreState& state) {
  if (state.magic != kStoreStateMagic) return "does not begin like the state of a store";
  if (state.version != kStoreStateVersion) return "has a version that this build cannot read";
  const auto ends = [](const char* text) {
    for (size_t i = 0; i < kStorePathBytes; ++i) {
      if (text[i] == '\0') return true;
    }
    return false;
  };
  for (const auto* text : {&state.root, &state.origin, &state.upper, &state.globs}) {
    if (!ends(*text)) return "has a path without an end";
  }
  if (state.root[0] != '/' || state.root[1] == '\0') return "has a root that is not a usable path";
  if (state.upper[0] != '/' && state.upper[0] != '\0')
    return "has an upper directory that is no path";
  return nullptr;
}

}  // namespace millrace::wire
