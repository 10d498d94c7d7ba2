// Windows: stretches of the job's time of which single events are shown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analyze/context.h"
#include "analyze/detail.h"
#include "analyze/profile.h"

namespace millrace::analyze {

struct WindowEvent {
  uint64_t begin_ns = 0;  // on the trace's clock
  uint64_t duration_ns = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  int64_t result = 0;
  trace::NameIndex file{};
  trace::ThreadIndex thread{};
  wire::Call call{};
  uint16_t error = 0;
};

struct Window {
  uint64_t begin_ns = 0;  // on the trace's clock
  uint64_t end_ns = 0;
  std::string why;
  std::vector<trace::ProcessIndex> processes;  // whose events are shown
  // Those that touch the window, also where they begin before it; by thread, then begin, the outer
  // first.
  std::vector<WindowEvent> events;
};

// In the order of time. Empty windows are left out.
std::vector<Window> make_windows(const Context& context, const Profile& profile,
                                 const DetailLimits& limits);

}  // namespace millrace::analyze
