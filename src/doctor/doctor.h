// doctor: what Millrace can use on this machine, what is missing, and the command that fixes it.
//
// Changes nothing, except that measuring a directory writes files into it and removes them again,
// even when interrupted. Every finding comes from trying the thing now (setting up a ring, starting
// two ranks, loading a library), never from a version number. A check never fails as a whole: what
// it could not find out becomes its finding.
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
  // Called with the name of each check and directory as its turn comes.
  std::function<void(const std::string&)> activity = [](const std::string&) {};
  // Set by a signal handler: measuring stops soon after and removes its files.
  const std::atomic<bool>* cancelled = nullptr;
};

// Fails only when cancelled.
Result<Diagnosis> diagnose(const DiagnosisOptions& options);

// Whether a check failed or a directory cannot be used. Missing and limited are not failures.
bool has_failure(const Diagnosis& diagnosis);

}  // namespace millrace::doctor
