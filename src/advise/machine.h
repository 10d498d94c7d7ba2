// Machine: what is known of the nodes and storage a job ran on, which a trace does not tell.
//
// Detected on the machine where advice is asked, as far as that is one the job ran on; the user may
// say otherwise. What is not known is empty, and rules that need it stay silent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "analyze/profile.h"
#include "base/result.h"

namespace millrace::advise {

enum class Storage : uint8_t {
  kUnknown,
  kMemory,    // tmpfs
  kLocal,     // a solid-state disk of the node
  kRotating,  // a spinning disk
  kParallel,  // Lustre, GPFS, BeeGFS, CephFS, GlusterFS
  kNetwork,   // NFS, CIFS, FUSE over a network
};
inline constexpr std::string_view kStorageNames[] = {"unknown",  "memory",   "local",
                                                     "rotating", "parallel", "network"};

struct Machine {
  std::optional<uint64_t> memory_bytes;            // of a node
  std::optional<uint64_t> local_disk_bytes;        // free, on a node's own disk
  Storage data_storage = Storage::kUnknown;        // where the dataset lies
  Storage checkpoint_storage = Storage::kUnknown;  // where checkpoints go
  std::string data_file_system;                    // "lustre", "ext4"; empty: not known
};

// Looks at this machine. Its memory and local disk count where the job ran on it (by its host's
// name), the file systems of data and checkpoints where those files are here.
Machine detect_machine(const analyze::Profile& profile);

// What the user said of it, as words of the command line; empty: nothing.
struct MachineWords {
  std::string memory;      // "256GiB"
  std::string local_disk;  // "1TB"
  std::string data_storage;
  std::string checkpoint_storage;
};

// What was said takes the place of what was detected.
Result<Machine> apply_overrides(Machine machine, const MachineWords& words);

// Of a file system's name as mountinfo has it: "lustre", "nfs4", "ext4"; kUnknown for others.
Storage storage_of_file_system(std::string_view name);

// One of kStorageNames, or a file system's name.
Result<Storage> parse_storage(std::string_view text);

}  // namespace millrace::advise
