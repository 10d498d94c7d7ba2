// Interpolation: replaces ${train.epochs} in a workload by the value of that key, as OmegaConf
// does.
//
// ${workload.train.epochs} and ${.epochs} (a key of the same section) work too, as do
// ${oc.env:NAME}, ${oc.env:NAME,default} and ${now:%Y-%m-%d}. The value is a scalar or a list;
// lists only where nothing else is in the string. Anything else is refused, with its line.
#pragma once

#include "base/result.h"
#include "base/text/document.h"

namespace millrace::bench {

// The root of the document without any interpolation. An unquoted None is null.
Result<Node> interpolated(const Document& document);

}  // namespace millrace::bench
