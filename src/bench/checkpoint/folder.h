// checkpoint_folder: the checkpoints in a folder: their names, which are complete, and how one
// becomes complete.
//
// The files of a checkpoint are written to a hidden folder `.partial-global_epoch1_step5-RUN`,
// which is renamed to `global_epoch1_step5` when all ranks have written theirs. So a folder with
// such a name is always a whole checkpoint. A crash leaves only hidden folders, which the next run
// removes.
//
// Both have a list of their files (own_files.h). Only checkpoints of which every file is listed are
// replaced or removed; what else is there stays, and a note names it.
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
// `run` tells runs apart: a partial checkpoint is only used by the run that made it.
std::filesystem::path partial_path(const std::filesystem::path& folder, CheckpointId id,
                                   std::string_view run);

// The complete ones, oldest first. None if the folder does not exist.
Result<std::vector<CheckpointId>> find_checkpoints(const std::filesystem::path& folder);

// Fails if there is a checkpoint of this name that is not ours to replace.
Status check_replaceable(const std::filesystem::path& folder, CheckpointId id);

// Turns the partial checkpoint into a complete one, which replaces one of the same name. With
// `fsyncs`, its names are on the device on return. Returns how often fsync was called. Appends to
// `notes` what could not be removed of the older one.
Result<uint64_t> commit_checkpoint(const std::filesystem::path& folder, CheckpointId id,
                                   std::string_view run, bool fsyncs,
                                   std::vector<std::string>& notes);

// A crash in the middle leaves a partial checkpoint, not half of a complete one. One that is not
// only ours stays as it is, with a note.
Status remove_checkpoint(const std::filesystem::path& folder, CheckpointId id, std::string_view run,
                         std::vector<std::string>& notes);

// What crashed runs left. REQUIRES: no other job writes to the folder.
Status remove_partial_checkpoints(const std::filesystem::path& folder,
                                  std::vector<std::string>& notes);

}  // namespace millrace::bench
