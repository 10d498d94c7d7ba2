// parse_json: strict JSON (RFC 8259) into a Document.
//
// A parser of our own, because the libraries give values without their lines, and every complaint
// names one. Made for configurations and results of megabytes, not for traces of gigabytes. Refuses
// what the standard does not allow (comments, trailing commas, NaN), names that appear twice, bytes
// that are not UTF-8, and nesting over kDocumentDepthMax.
#pragma once

#include <string>
#include <string_view>

#include "base/document.h"
#include "base/result.h"

namespace millrace {

// `name` stands before the line in complaints.
Result<Document> parse_json(std::string_view text, std::string name);

}  // namespace millrace
