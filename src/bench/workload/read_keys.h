// Read keys: fills a Workload from the document of its file. Every key must be known.
//
// Keys that other tools' files have, but that mean nothing here, become a warning that says so.
#pragma once

#include "base/result.h"
#include "base/text/document.h"
#include "bench/workload/workload.h"

namespace millrace::bench {

// The document must be composed (compose.h). Does not set the name and the description.
Result<Workload> read_keys(const Document& document);

}  // namespace millrace::bench
