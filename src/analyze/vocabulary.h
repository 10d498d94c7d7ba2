// Vocabulary: the words that describe a job: layers, roles of regions, kinds of files.
//
// The names in this file are also used in JSON, tables, SQL and the HTML page.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wire/trace_call.h"

namespace millrace::analyze {

// Ordered from the program down to the kernel.
enum class Layer : uint8_t {
  kApplication = 0,  // regions of training: epoch, compute, checkpoint, and unknown names
  kLoader,           // regions that load data: fetch, read, decode, ...
  kFormat,           // a format library: HDF5
  kMpiio,
  kStdio,
  kPosix,
};
inline constexpr size_t kLayerCount = 6;
inline constexpr std::array<std::string_view, kLayerCount> kLayerNames = {
    "application", "loader", "format", "mpiio", "stdio", "posix"};

// What a region means to training. docs/guide/trace-c.md lists the known names.
enum class Role : uint8_t {
  kNone = 0,     // a name that the user chose
  kSetup,        // preparation before training
  kEpoch,        // one pass over the dataset
  kStep,         // one whole step: waiting, compute and everything else
  kWait,         // training waits for its batch
  kFetch,        // a batch is loaded
  kRead,         // a sample is read
  kDecode,       // a sample is decoded
  kTransform,    // a sample is transformed or augmented
  kCollate,      // samples are combined into a batch
  kShuffle,      // an order is computed
  kCopy,         // a batch is copied to the accelerator
  kCompute,      // the training computes
  kCommunicate,  // gradients are exchanged
  kEvaluate,     // validation
  kCheckpoint,   // state is saved
  kRestore,      // state is loaded
  kDevice,       // the accelerator computes, measured on its own clock
  kDeviceCopy,   // the accelerator copies from or to the host, measured on its own clock
  kDecompress,   // bytes of a sample are decompressed
  kParse,        // text becomes values
};
inline constexpr size_t kRoleCount = 21;
inline constexpr std::array<std::string_view, kRoleCount> kRoleNames = {
    "none",     "setup",      "epoch",   "step",    "wait",        "fetch",      "read",
    "decode",   "transform",  "collate", "shuffle", "copy",        "compute",    "communicate",
    "evaluate", "checkpoint", "restore", "device",  "device_copy", "decompress", "parse"};

// Whether a region with this role says what its thread does. Epochs and steps only say when.
constexpr bool is_activity(Role role) {
  return role != Role::kNone && role != Role::kEpoch && role != Role::kStep &&
         role != Role::kDevice && role != Role::kDeviceCopy;
}

// Whether a region with this role says what the accelerator did, not what its thread does.
constexpr bool is_of_device(Role role) {
  return role == Role::kDevice || role == Role::kDeviceCopy;
}

// The layer that a region with this role belongs to.
constexpr Layer layer_of(Role role) {
  switch (role) {
    case Role::kWait:
    case Role::kFetch:
    case Role::kRead:
    case Role::kDecode:
    case Role::kDecompress:
    case Role::kParse:
    case Role::kTransform:
    case Role::kCollate:
    case Role::kShuffle:
    case Role::kCopy:
    case Role::kDeviceCopy:
      return Layer::kLoader;
    default:
      return Layer::kApplication;
  }
}

// REQUIRES: `level` is the level of a call, not kApp.
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

// What a file is to the job, judged by its path and by the calls on it.
enum class FileKind : uint8_t {
  kSystem = 0,  // programs, libraries, Python modules, /proc, /dev, terminals, pipes, sockets
  kData,        // read or mapped, and never written
  kCheckpoint,  // written in a checkpoint region, or named like a checkpoint
  kOutput,      // written outside checkpoints: logs, results
  kOther,       // neither read nor written, for example only opened
};
inline constexpr size_t kFileKindCount = 5;
inline constexpr std::array<std::string_view, kFileKindCount> kFileKindNames = {
    "system", "data", "checkpoint", "output", "other"};

// The order in which the samples of an epoch were read.
enum class ReadOrder : uint8_t {
  kUnknown = 0,    // too few reads to tell
  kSequential,     // by name and offset in every epoch: not shuffled
  kFixed,          // not by name, but the same in every epoch
  kFilesShuffled,  // files in a new order every epoch, samples within each file in the same order
  kShuffled,       // a new order every epoch
};
inline constexpr size_t kReadOrderCount = 5;
inline constexpr std::array<std::string_view, kReadOrderCount> kReadOrderNames = {
    "unknown", "sequential", "fixed", "files shuffled", "shuffled"};

// What the share of waiting was computed from.
enum class WaitBasis : uint8_t {
  kNone = 0,  // nothing shows when training computes or waits
  kRegions,   // regions of waiting (batch_wait), or fetches on the thread that computes
  kIoTime,    // no regions: the time that the main process spent in I/O calls
};
inline constexpr size_t kWaitBasisCount = 3;
inline constexpr std::array<std::string_view, kWaitBasisCount> kWaitBasisNames = {"none", "regions",
                                                                                  "io time"};

// What the time of compute was computed from.
enum class ComputeBasis : uint8_t {
  kRegions = 0,  // regions of the host: forward, backward, optimizer
  kDevice,       // the accelerator's own clock, for all ranks that compute
  kBoth,         // the accelerator's clock for some ranks, regions for the others
};
inline constexpr size_t kComputeBasisCount = 3;
inline constexpr std::array<std::string_view, kComputeBasisCount> kComputeBasisNames = {
    "regions", "device", "both"};

}  // namespace millrace::analyze
