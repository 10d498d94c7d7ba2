// Findings as JSON (docs/formats/advice.md).
#pragma once

#include <string>
#include <vector>

#include "advise/advise.h"
#include "advise/trial.h"
#include "advise/verdict.h"
#include "base/text/json_writer.h"

namespace millrace::advise {

// Only the fields `verdict` and `findings`, in a larger object such as the report.
void write_advice(JsonWriter& json, const Verdict& verdict, const std::vector<Finding>& findings);

// What `millrace advise --json` prints. `trial` may be null.
std::string findings_json(const Verdict& verdict, const std::vector<Finding>& findings,
                          const Machine& machine, const Trial* trial = nullptr);

// What `millrace advise --rules --json` prints.
std::string rules_json();

}  // namespace millrace::advise
