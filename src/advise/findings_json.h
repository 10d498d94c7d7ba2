// Findings as JSON (docs/formats/advice.md).
#pragma once

#include <string>
#include <vector>

#include "advise/advise.h"
#include "base/json_writer.h"

namespace millrace::advise {

// Only the list, as a value in a larger document such as the report.
void write_findings(JsonWriter& json, const std::vector<Finding>& findings);

// What `millrace advise --json` prints.
std::string findings_json(const std::vector<Finding>& findings, const Machine& machine);

// What `millrace advise --rules --json` prints.
std::string rules_json();

}  // namespace millrace::advise
