// Vocabulary: the words by which a job is described: layers, roles of regions, kinds of files.
//
// Their names here are those of the JSON, the tables, the SQL and the page.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wire/trace_call.h"

namespace millrace::analyze {

// From the program down to the kernel.
enum class Layer : uint8_t {
  kApplication = 0,  // regions of training: epoch, compute, checkpoint, and names we do not know
  kLoader,           // regions that bring data: fetch, read, decode, ...
  kFormat,           // a format library: HDF5
  kMpiio,
  kStdio,
  kPosix,
};
inline constexpr size_t kLayerCount = 6;
inline constexpr std::array<std::string_view, kLayerCount> kLayerNames = {
    "application", "loader", "format", "mpiio", "stdio", "posix"};

// What a region means to training; docs/guide/trace-c.md has the names that are known.
enum class Role : uint8_t {
  kNone = 0,     // a name of the user's own
  kSetup,        // preparing
  kEpoch,        // one pass over the dataset
  kStep,         // one step as a whole: waiting, computing, all of it
  kWait,         // training stands still until its batch is there
  kFetch,        // one batch is made
  kRead,         // one sample is brought in
  kDecode,       // its bytes become values
  kTransform,    // its values are changed
  kCollate,      // samples become a batch
  kShuffle,      // an order is drawn
  kCopy,         // a batch goes to the accelerator
  kCompute,      // training works
  kCommunicate,  // gradients are exchanged
  kEvaluate,     // validation
  kCheckpoint,   // the state is saved
  kRestore,      // the state is loaded
};
inline constexpr size_t kRoleCount = 17;
inline constexpr std::array<std::string_view, kRoleCount> kRoleNames = {
    "none",    "setup",       "epoch",     "step",       "wait",    "fetch",
    "read",    "decode",      "transform", "collate",    "shuffle", "copy",
    "compute", "communicate", "evaluate",  "checkpoint", "restore"};

// Which layer a region of that role belongs to.
constexpr Layer layer_of(Role role) {
  switch (role) {
    case Role::kWait:
    case Role::kFetch:
    case Role::kRead:
    case Role::kDecode:
    case Role::kTransform:
    case Role::kCollate:
    case Role::kShuffle:
    case Role::kCopy:
      return Layer::kLoader;
    default:
      return Layer::kApplication;
  }
}

// REQUIRES: the level is one of a call, not kApp.
constexpr Layer layer_of(wire::Level level) {
  switch (level) {
    case wire::Level::kHdf5:
      return Layer::kFormat;
    case wire::Level::kMpiio:
      return Layer::kMpiio;
    case wire::Level::kStdio:
      return Layer::kStdio;
    default:
      return Layer::kPosix;
  }
}

// What a file is to the job, judged by its path and by what was done to it.
enum class FileKind : uint8_t {
  kSystem = 0,  // programs, libraries, Python modules, /proc, /dev, terminals, pipes, sockets
  kData,        // read, and not written before
  kCheckpoint,  // written within a checkpoint region, or by its name
  kOutput,      // written otherwise: logs, results
  kOther,       // touched, neither read nor written
};
inline constexpr size_t kFileKindCount = 5;
inline constexpr std::array<std::string_view, kFileKindCount> kFileKindNames = {
    "system", "data", "checkpoint", "output", "other"};

// In which order the samples of an epoch were read.
enum class ReadOrder : uint8_t {
  kUnknown = 0,    // too little was read to say
  kSequential,     // by name and offset, in every epoch: no shuffling
  kFixed,          // not by name, but the same in every epoch
  kFilesShuffled,  // files in a new order, the samples of each in the old one
  kShuffled,       // a new order every epoch
};
inline constexpr size_t kReadOrderCount = 5;
inline constexpr std::array<std::string_view, kReadOrderCount> kReadOrderNames = {
    "unknown", "sequential", "fixed", "files shuffled", "shuffled"};

// What the share of waiting was worked out from.
enum class WaitBasis : uint8_t {
  kNone = 0,  // nothing says when training computes or waits
  kRegions,   // regions around waiting (batch_wait), or fetches on the thread that computes
  kIoTime,    // no regions: the time in which the main process was in I/O calls
};
inline constexpr size_t kWaitBasisCount = 3;
inline constexpr std::array<std::string_view, kWaitBasisCount> kWaitBasisNames = {"none", "regions",
                                                                                  "io time"};

}  // namespace millrace::analyze
