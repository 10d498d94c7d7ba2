// Finding: what one check saw, and what to do about it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/system/terminal.h"

namespace millrace::doctor {

enum class State {
  kReady,    // Millrace can use it
  kLimited,  // it works, but with less than is possible
  kMissing,  // it is not there; Millrace works without it, with a feature less
  kFailed,   // it should work but does not
};

std::string_view state_name(State state);
Style state_style(State state);

struct Finding {
  std::string name;  // "io_uring"
  State state = State::kReady;
  std::string fact;     // what was observed, with values
  std::string without;  // what Millrace cannot do because of it; empty when ready
  std::string fix;      // a command, or what to request; empty when ready
  // The values in `fact`, for programs. The name ends in the unit: "read_ns".
  std::vector<std::pair<std::string, double>> figures = {};
};

}  // namespace millrace::doctor
