// packer: writes a directory as a pack, on all threads of all ranks.
//
// A killed packer leaves nothing that looks complete: partitions are written under another name
// (.part-00000.pack.partial), made durable and renamed; the catalogue comes last. Run again, it
// keeps the partitions that are complete and of the same files. Memory does not grow with the size
// of the files: 64 bytes and the name for each file, and a few MiB for each thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/comm.h"
#include "store/pack/codec.h"

namespace millrace::store {

struct PackOptions {
  std::filesystem::path source;
  // Only these files, as paths relative to the source; empty: all, with directories and links.
  std::vector<std::string> files;
  std::filesystem::path directory;  // of the pack
  uint32_t partition_count = 0;     // without the broadcast partition; 0: one for each GiB
  CodecChoice codec = CodecChoice::kAuto;
  std::vector<std::string> broadcast;  // globs of paths relative to the source; `*` also matches /
  size_t thread_count = 0;             // of each rank; 0: as many as it may use CPUs
  // On this rank. Called by any thread; may be empty.
  std::function<void(uint64_t entries)> on_listed;
  std::function<void(uint64_t bytes)> begin;  // what this rank will read
  std::function<void(uint64_t bytes)> on_packed;
};

// The work of all ranks together; complete on rank 0.
struct PackReport {
  uint64_t file_count = 0;
  uint64_t content_bytes = 0;
  uint64_t pack_bytes = 0;  // of all partitions
  uint64_t catalogue_bytes = 0;
  uint32_t partition_count = 0;
  uint32_t kept_count = 0;  // partitions that were complete already
  uint64_t raw_count = 0;   // files that are not compressed
  double seconds = 0;
  std::vector<std::string> skipped;  // what is neither file, directory nor link
};

// Collective: all ranks call it, with the same options. Rank 0 lists the source; partition i is
// written by rank i % ranks.
Result<PackReport> pack_directory(const PackOptions& options, comm::Comm& comm);

}  // namespace millrace::store
