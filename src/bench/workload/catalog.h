// Catalog: the workloads that Millrace ships, found beside the program.
//
// In the build tree and in an installation they are in share/millrace/workloads, so a copied tree
// finds its own.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace::bench {

struct CatalogEntry {
  std::string name;
  std::string summary;  // the first sentence of its file
  std::filesystem::path path;
};

// In the order of their names. Empty if the folder is missing.
std::vector<CatalogEntry> list_workloads();

std::filesystem::path workload_folder();

// Whether it is the name of a file: .yaml, .yml or .json.
bool has_workload_extension(std::string_view name);

// The file of the workload `name`: in config_dir/workload and config_dir, if there is one, or among
// the shipped. A name with a slash, or that ends in .yaml, .yml or .json, is the path of a file.
// The error suggests the closest name.
Result<std::filesystem::path> find_workload(std::string_view name,
                                            const std::filesystem::path& config_dir);

// The comment that opens a file, without "#": the lines of a paragraph joined, paragraphs in lines
// of their own. Comments for Hydra (# @package) are left out.
std::string opening_comment(std::string_view text);

// "What it models. Its numbers." -> "What it models."
std::string first_sentence(std::string_view text);

}  // namespace millrace::bench
