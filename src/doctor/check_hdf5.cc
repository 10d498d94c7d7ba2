#include <dlfcn.h>
#include <fmt/core.h>

#include "doctor/checks.h"
#include "doctor/fix.h"

namespace millrace::doctor {
namespace {

// Debian names its serial build differently. The numbers are the ABI versions of HDF5 1.10 (103),
// 1.12 (200) and 1.14 (310). The MPI builds are left out: loading one loads MPI.
constexpr const char* kLibraryNames[] = {
    "libhdf5_serial.so.103", "libhdf5_serial.so.310", "libhdf5.so.310", "libhdf5.so.200",
    "libhdf5.so.103",        "libhdf5_serial.so",     "libhdf5.so",
};

using VersionFunction = int (*)(unsigned* major, unsigned* minor, unsigned* release);
using ThreadsafeFunction = int (*)(bool* is_threadsafe);

}  // namespace

std::vector<Finding> check_hdf5() {
  Finding finding;
  finding.name = "hdf5";
  for (const char* name : kLibraryNames) {
    void* const library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) continue;
    const auto version = reinterpret_cast<VersionFunction>(dlsym(library, "H5get_libversion"));
    unsigned major = 0;
    unsigned minor = 0;
    unsigned release = 0;
    if (version == nullptr || version(&major, &minor, &release) < 0) continue;
    const auto threadsafe =
        reinterpret_cast<ThreadsafeFunction>(dlsym(library, "H5is_library_threadsafe"));
    bool is_threadsafe = false;
    if (threadsafe != nullptr) threadsafe(&is_threadsafe);
    finding.fact = fmt::format("{}.{}.{} ({}), {}", major, minor, release, name,
                               is_threadsafe ? "thread-safe (one global lock)" : "not thread-safe");
    finding.figures = {{"major", major}, {"minor", minor}, {"release", release}};
    return {std::move(finding)};
  }
  finding.state = State::kMissing;
  finding.fact = "no libhdf5 could be loaded";
  finding.without = "HDF5 files can be neither read nor written";
  finding.fix = install_command("libhdf5-dev", "libhdf5");
  return {std::move(finding)};
}

}  // namespace millrace::doctor
