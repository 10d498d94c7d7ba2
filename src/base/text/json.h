// parse_json: strict JSON (RFC 8259) into a Document.
//
// A parser of our own, because libraries return values without their lines, and every error names a
// line. Made for configurations and results of megabytes, not for traces of gigabytes. Refuses what
// the standard does not allow (comments, trailing commas, NaN), duplicate names, bytes that are not
// UTF-8, and nesting deeper than kDocumentDepthMax.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/text/document.h"

namespace millrace {

// Errors begin with `name` and the line.
Result<Document> parse_json(std::string_view text, std::string name);

}  // namespace millrace
