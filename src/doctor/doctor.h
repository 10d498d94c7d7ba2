// doctor: what Millrace can use on this machine, what is missing, and the command that fixes it.
//
// Looks and measures; changes nothing, except that measuring a directory writes a file into it and
// removes it again, also when interrupted. Every finding is something that was tried on this
// machine now (a ring set up, two ranks started, a library loaded), not something concluded from a
// version. A check never fails as a whole: what it could not find out is its finding.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "doctor/directory.h"
#include "doctor/finding.h"

namespace millrace::doctor {

struct Diagnosis {
  std::vector<Finding> machine;
  std::vector<DirectoryFindings> directories;
};

struct DiagnosisOptions {
  std::vector<std::filesystem::path> directories;
  bool measure_speed = true;
  uint64_t probe_size_bytes = uint64_t{256} << 20;
  // Told what is being looked at, as it happens.
  std::function<void(const std::string&)> activity = [](const std::string&) {};
  // Set by a signal handler: measuring stops soon after and removes its files.
  const std::atomic<bool>* cancelled = nullptr;
};

// Fails only when cancelled.
Result<Diagnosis> diagnose(const DiagnosisOptions& options);

// Whether anything is broken that the user asked about: a directory that cannot be used, or a check
// that failed. What is only missing or limited is no failure.
bool has_failure(const Diagnosis& diagnosis);

}  // namespace millrace::doctor
