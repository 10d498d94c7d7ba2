// Modelled text: a modelled workload as YAML with comments, and as JSON.
#pragma once

#include <string>

#include "base/text/json_writer.h"
#include "model/model.h"

namespace millrace::model {

// A file that `millrace bench` loads. Each value has a comment that says where it comes from. The
// head lists what was assumed and what is not modelled.
std::string modelled_yaml(const Modelled& modelled);

// The fields of docs/guide/model.md, into an open object.
void write_modelled(JsonWriter& json, const Modelled& modelled);

}  // namespace millrace::model
