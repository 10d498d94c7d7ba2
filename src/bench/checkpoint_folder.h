// checkpoint_folder: the checkpoints in a folder: their names, which are complete, and how one
// becomes complete.
//
// The files of a checkpoint are written to a hidden folder `.partial-global_epoch1_step5`, which is
// renamed to `global_epoch1_step5` when all ranks have written theirs. So a folder with such a name
// is always a whole checkpoint. A crash leaves only hidden folders, which the next run removes.
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace::bench {

struct CheckpointId {
  uint64_t epoch = 0;
  uint64_t step = 0;  // completed in the epoch

  auto operator<=>(const CheckpointId&) const = default;
};

std::string checkpoint_name(CheckpointId id);                              // as in DLIO
std::optional<CheckpointId> parse_checkpoint_name(std::string_view name);  // nullopt: not one

std::filesystem::path checkpoint_path(const std::filesystem::path& folder, CheckpointId id);
std::filesystem::path partial_path(const std::filesystem::path& folder, CheckpointId id);

// The complete ones, oldest first. None if the folder does not exist.
Result<std::vector<CheckpointId>> find_checkpoints(const std::filesystem::path& folder);

// Turns the partial checkpoint into a complete one, which replaces one of the same name. With
// `fsyncs`, its names are on the device on return. Returns how often fsync was called.
Result<uint64_t> commit_checkpoint(const std::filesystem::path& folder, CheckpointId id,
                                   bool fsyncs);

// A crash in the middle leaves a partial checkpoint, not half of a complete one.
Status remove_checkpoint(const std::filesystem::path& folder, CheckpointId id);

// What crashed runs left. REQUIRES: no other job writes to the folder.
Status remove_partial_checkpoints(const std::filesystem::path& folder);

}  // namespace millrace::bench
