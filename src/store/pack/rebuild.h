// rebuild: makes the catalogue of files that exist already: partitions, or tar files.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/pack/catalogue.h"
#include "store/pack/tree.h"

namespace millrace::store {

// The bytes of a catalogue for the members of one partition, as partition 0.
Result<std::string> catalogue_of_partition(const std::filesystem::path& path);

// Writes the catalogue of partitions into the directory that contains them. Fails if one of the
// pack is missing, or belongs to another pack.
Status rebuild_catalogue(const std::vector<std::filesystem::path>& partitions,
                         const std::filesystem::path& directory);

// A tar file as a partition. The caller has read its headers.
struct TarPartition {
  std::filesystem::path path;
  PartitionInfo info;  // the name is set by catalogue_tars()
};

struct TarSource {
  std::vector<TarPartition> tars;
  std::vector<Member> members;  // `partition` is an index of `tars`; the checksum is not set
  size_t thread_count = 0;      // 0: as many as there are CPUs
  std::function<void(uint64_t bytes)> on_progress;
};

// Computes the checksums of the members and writes the catalogue into `directory`, which is
// created.
Status catalogue_tars(TarSource source, const std::filesystem::path& directory);

// Fails if the directory has a catalogue.
Status refuse_complete_pack(const std::filesystem::path& directory);

// Creates the directory if it is missing.
Status make_pack_directory(const std::filesystem::path& directory);

// Writes a catalogue: complete and durable, or not at all.
Status write_catalogue(const std::filesystem::path& directory, const CatalogueSource& source);

}  // namespace millrace::store
