// Checks: what doctor tries on the machine, one file per check.
//
// A new check is a function here, a file check_<what>.cc, and a line in the table of checks.cc.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "doctor/finding.h"

namespace millrace::doctor {

struct Check {
  std::string_view subject;  // for the progress line
  std::vector<Finding> (*run)();
};

std::span<const Check> checks();

std::vector<Finding> check_cpu();  // counter, crc32c, usable cores
std::vector<Finding> check_io_uring();
std::vector<Finding> check_fuse();
std::vector<Finding> check_mpi();
std::vector<Finding> check_hdf5();
std::vector<Finding> check_preload();
std::vector<Finding> check_limits();  // open files, locked memory, memory maps
std::vector<Finding> check_memory();  // for the page cache, and shared memory

}  // namespace millrace::doctor
