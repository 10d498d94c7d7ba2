// Machine: what is known of the nodes and storage a job ran on, which a trace does not tell.
//
// Detected on the machine where advice is asked, where the job's files are there too; the user may
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

// Looks at this machine: its memory, its local disk, the file systems of the profile's data and
// checkpoint files where they exist here.
Machine detect_machine(const analyze::Profile& profile);

}  // namespace millrace::advise
