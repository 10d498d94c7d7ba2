#include "doctor/finding.h"

namespace millrace::doctor {

std::string_view state_name(State state) {
  switch (state) {
    case State::kReady:
      return "ok";
    case State::kLimited:
      return "limited";
    case State::kMissing:
      return "missing";
    case State::kFailed:
      return "failed";
  }
  return "unknown";
}

Style state_style(State state) {
  switch (state) {
    case State::kReady:
      return Style::kGood;
    case State::kLimited:
    case State::kMissing:
      return Style::kWarning;
    case State::kFailed:
      return Style::kBad;
  }
  return Style::kPlain;
}

}  // namespace millrace::doctor
