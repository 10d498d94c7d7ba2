// Machine: the hosts and storage of a job, which a trace does not record.
//
// Detected on this machine if the job ran here; the user may override it. Unknown values are empty,
// and rules that need them are skipped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "analyze/profile/profile.h"
#include "base/result.h"

namespace millrace::advise {

enum class Storage : uint8_t {
  kUnknown,
  kMemory,    // tmpfs
  kLocal,     // a solid-state disk of the host
  kRotating,  // a spinning disk
  kParallel,  // Lustre, GPFS, BeeGFS, CephFS, GlusterFS
  kNetwork,   // NFS, CIFS, FUSE over a network
};
inline constexpr std::string_view kStorageNames[] = {"unknown",  "memory",   "local",
                                                     "rotating", "parallel", "network"};

struct Machine {
  std::optional<uint64_t> cores;                   // per host, that the job may use
  std::optional<uint64_t> memory_bytes;            // per host
  std::optional<uint64_t> local_disk_bytes;        // free, on the local disk of a host
  Storage data_storage = Storage::kUnknown;        // where the dataset is
  Storage checkpoint_storage = Storage::kUnknown;  // where checkpoints are written
  std::string data_file_system;                    // "lustre", "ext4"; empty: unknown
};

// Looks at this machine. Cores, memory and local disk are filled in if the job ran here (by host
// name), the storage of data and checkpoints if those files are here.
Machine detect_machine(const analyze::Profile& profile);

// Values of command line options; empty if not given.
struct MachineWords {
  std::string cores;       // "64"
  std::string memory;      // "256GiB"
  std::string local_disk;  // "1TB"
  std::string data_storage;
  std::string checkpoint_storage;
};

// Replaces detected values with those that the user gave.
Result<Machine> apply_overrides(Machine machine, const MachineWords& words);

// For the name of a file system as in mountinfo: "lustre", "nfs4", "ext4"; kUnknown for others.
Storage storage_of_file_system(std::string_view name);

// "64": a number of cores, at least 1.
Result<uint64_t> parse_cores(std::string_view text);

// Accepts one of kStorageNames or the name of a file system.
Result<Storage> parse_storage(std::string_view text);

}  // namespace millrace::advise
