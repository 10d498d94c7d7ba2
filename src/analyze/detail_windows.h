// Windows: intervals of the job whose single events are shown.
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
  uint64_t begin_ns = 0;  // on the clock of the trace
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
  uint64_t begin_ns = 0;  // on the clock of the trace
  uint64_t end_ns = 0;
  std::string why;
  std::vector<trace::ProcessIndex> processes;  // the processes whose events are shown
  // Events that touch the window, including those that begin before it. Sorted by thread, then
  // begin; outer events first.
  std::vector<WindowEvent> events;
};

// Sorted by time. Empty windows are left out.
std::vector<Window> make_windows(const Context& context, const Profile& profile,
                                 const DetailLimits& limits);

}  // namespace millrace::analyze
