// Finding: what one check saw, and what to do about it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/terminal.h"

namespace millrace::doctor {

enum class State {
  kReady,    // Millrace can use it
  kLimited,  // it works, with less than it could
  kMissing,  // it is not there; some part of Millrace does without
  kFailed,   // it should work and does not
};

std::string_view state_name(State state);
Style state_style(State state);

struct Finding {
  std::string name;  // "io_uring"
  State state = State::kReady;
  std::string fact;     // what was seen, with values
  std::string without;  // what Millrace lacks for it; empty when ready
  std::string mend;     // a command, or what to ask of whom; empty when ready
  // The values of `fact` for programs, named with their units: "read_ns".
  std::vector<std::pair<std::string, double>> figures = {};
};

}  // namespace millrace::doctor
