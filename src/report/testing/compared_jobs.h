// Compared jobs: a job that trains, for tests that change a copy of it, and what a comparison says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/compare.h"

namespace millrace::report {

inline constexpr uint64_t kMs = 1'000'000;
inline constexpr uint64_t kSecond = 1'000'000'000;

// The times of a rank of training().
analyze::TimeSplit split(const std::string& name);

// Two ranks, two epochs of fifty steps, twenty seconds; 15 % of the time waits.
analyze::Profile training();

// "function posix read: time slower !" for each difference.
std::vector<std::string> described(const Comparison& comparison);

// Null if there is none.
const Difference* find(const Comparison& comparison, By by, const std::string& measure);

}  // namespace millrace::report
