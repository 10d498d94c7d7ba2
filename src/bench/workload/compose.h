// Compose: makes one document of a workload file, the files that it builds on, and overrides.
//
// Follows Hydra as far as workload files use it: `defaults:` lists with _self_, groups, `#
// @package` comments, --config-dir with its config.yaml, `workload:` around the whole file.
// `hydra:` sections are left out, `data_reader` becomes `reader`. Every value knows its file and
// line.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/text/document.h"

namespace millrace::bench {

struct Composition {
  Document document;  // its root is a map, or null
  std::string name;
  std::string description;
};

// `workload` is a name or a path; empty: what config_dir/config.yaml or an override chooses.
Result<Composition> compose(std::string_view workload, std::span<const std::string> overrides,
                            const std::filesystem::path& config_dir);

// Composes a file's text. Its defaults lists are refused: there is no folder to look into.
Result<Composition> compose_text(std::string_view text, const std::string& file,
                                 std::span<const std::string> overrides);

// The root of the document without any interpolation (interpolate.cc). An unquoted None is null.
Result<Node> interpolated(const Document& document);

}  // namespace millrace::bench
