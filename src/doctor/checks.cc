#include "doctor/checks.h"

#include <algorithm>

#include "doctor/doctor.h"

namespace millrace::doctor {

std::span<const Check> checks() {
  static const Check all[] = {
      {"the CPU", check_cpu},     {"memory", check_memory},     {"limits", check_limits},
      {"preload", check_preload}, {"io_uring", check_io_uring}, {"FUSE", check_fuse},
      {"MPI", check_mpi},         {"HDF5", check_hdf5},
  };
  return all;
}

Result<Diagnosis> diagnose(const DiagnosisOptions& options) {
  Diagnosis diagnosis;
  const auto is_cancelled = [&] {
    return options.cancelled != nullptr && options.cancelled->load();
  };
  for (const Check& check : checks()) {
    if (is_cancelled()) return fail(Errc::kCancelled, "interrupted");
    options.activity(std::string(check.subject));
    for (Finding& finding : check.run()) diagnosis.machine.push_back(std::move(finding));
  }
  for (const auto& path : options.directories) {
    options.activity(path.native());
    DirectoryFindings findings = look_at_directory(path);
    if (findings.usable && options.measure_speed) {
      measure_directory(findings, {.probe_size_bytes = options.probe_size_bytes,
                                   .cancelled = options.cancelled,
                                   .activity = [&](const char* phase) {
                                     options.activity(path.native() + ": " + phase);
                                   }});
    }
    if (is_cancelled()) return fail(Errc::kCancelled, "interrupted");
    diagnosis.directories.push_back(std::move(findings));
  }
  return diagnosis;
}

bool has_failure(const Diagnosis& diagnosis) {
  const auto failed = [](const Finding& finding) { return finding.state == State::kFailed; };
  if (std::any_of(diagnosis.machine.begin(), diagnosis.machine.end(), failed)) return true;
  return std::any_of(diagnosis.directories.begin(), diagnosis.directories.end(),
                     [&](const DirectoryFindings& directory) {
                       return std::any_of(directory.findings.begin(), directory.findings.end(),
                                          failed);
                     });
}

}  // namespace millrace::doctor
