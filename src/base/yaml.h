// parse_yaml: YAML 1.2, as workload files use it, into a Document.
//
// One document a file; keys are scalars and appear once. Anchors and aliases are expanded within a
// bound; tags and merge keys (<<) are refused. In a build without the part `yaml` it fails and says
// how to get it. yaml-cpp is included by yaml.cc alone, and its exceptions end there.
#pragma once

#include <string>
#include <string_view>

#include "base/document.h"
#include "base/result.h"

namespace millrace {

Result<Document> parse_yaml(std::string_view text, std::string name);

}  // namespace millrace
