// File kinds: what a path is to a job, judged by its name.
#pragma once

#include <string>
#include <string_view>

namespace millrace::analyze {

// Programs, libraries, modules, devices, pipes: files that every job uses and that are not training
// data.
bool is_system_path(std::string_view path);

// Common names of checkpoints: "ckpt", "checkpoint", .pt, .safetensors, ...
bool is_checkpoint_name(std::string_view path);

// ".jpg", ".nii.gz", in lower case. "(none)" if there is no extension.
std::string extension_of(std::string_view path);

// "/data/train". "/" for a file in the root directory, "(none)" for a name without a slash.
std::string_view directory_of(std::string_view path);

}  // namespace millrace::analyze
