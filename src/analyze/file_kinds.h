// File kinds: what a path is to a job, as far as its name tells.
#pragma once

#include <string>
#include <string_view>

namespace millrace::analyze {

// Programs, libraries, modules, devices, pipes: what every job touches and no training reads as
// data.
bool is_system_path(std::string_view path);

// Names people give to checkpoints: "ckpt", "checkpoint", .pt, .safetensors, ...
bool is_checkpoint_name(std::string_view path);

// ".jpg", ".nii.gz", in lower case; "(none)".
std::string extension_of(std::string_view path);

// "/data/train"; "/" and "(none)" for names without one.
std::string_view directory_of(std::string_view path);

}  // namespace millrace::analyze
