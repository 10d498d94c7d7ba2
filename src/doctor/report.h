// Report: a Diagnosis for people and for programs.
#pragma once

#include <string>

#include "base/system/terminal.h"
#include "doctor/doctor.h"

namespace millrace::doctor {

std::string report_text(const Diagnosis& diagnosis, const Terminal& terminal);

// docs/formats/doctor-json.md.
std::string report_json(const Diagnosis& diagnosis);

}  // namespace millrace::doctor
