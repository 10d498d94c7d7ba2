// parse_yaml: the YAML 1.2 that workload files use, into a Document.
//
// One document per file; keys are scalars and unique. Anchors and aliases are expanded up to a
// limit; tags and merge keys (<<) are refused. A build without the part `yaml` fails and says how
// to get it. Only yaml.cc includes yaml-cpp, and it catches all its exceptions.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/text/document.h"

namespace millrace {

Result<Document> parse_yaml(std::string_view text, std::string name);

}  // namespace millrace
