// Manifest: what the dataset in a folder is, in `{data_folder}/millrace-manifest.json`.
//
// It has every key of a workload that decides about names, sizes and contents of files, so that a
// run can tell whether a dataset fits its workload, and generation whether it may continue. It is
// written before the first file, and again when all are complete. docs/formats/dataset-manifest.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bench/workload/workload.h"

namespace millrace::bench {

inline constexpr std::string_view kManifestName = "millrace-manifest.json";
inline constexpr uint32_t kManifestVersion = 1;

struct Manifest {
  struct Key {
    std::string name;   // "dataset.seed"
    std::string value;  // as text
    bool operator==(const Key&) const = default;
  };

  uint32_t content_version = 0;
  std::string workload;
  bool is_complete = false;
  uint64_t file_count = 0;
  uint64_t sample_count = 0;
  uint64_t payload_bytes = 0;  // the records of all samples
  uint64_t size_bytes = 0;     // of the files; 0 until they are complete
  std::vector<Key> keys;
  // Those that generate() made, relative to the data folder, which is ".". Others stay.
  std::vector<std::string> folders;
  // When it was written, in nanoseconds since 1970. If it is complete, all files are older.
  int64_t written_ns = 0;
};

// Incomplete, for a dataset that is about to be generated.
Result<Manifest> manifest_of(const Workload& workload);

Status write_manifest(const std::string& data_folder, const Manifest& manifest);
// Nullopt if the folder has none.
Result<std::optional<Manifest>> read_manifest(const std::string& data_folder);

// Fails if the manifest is of another dataset. The error names the first key that differs, both
// values and what to do.
Status compare_manifests(const std::string& data_folder, const Manifest& found,
                         const Manifest& wanted);

// For a run that uses the dataset in the workload's folder: fails if the dataset does not fit the
// workload or is incomplete. Returns nullopt if there is no manifest, as in a dataset that DLIO
// generated: then its samples cannot be verified.
Result<std::optional<Manifest>> check_dataset(const Workload& workload);

}  // namespace millrace::bench
