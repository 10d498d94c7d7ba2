// The two parts of the detail. Windows are intervals of the job whose single events are shown.
// Levels are how busy each thread was in each layer, in finer and finer bins over the whole job.
//
// Levels fill the gap between the timelines of the whole job and the windows. Epochs and steps only
// contain other regions and do not count as busy: their bar would be full everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analyze/context.h"
#include "analyze/detail/detail.h"
#include "analyze/profile/profile.h"

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

struct LevelRow {
  trace::ThreadIndex thread{};
  Layer layer{};
  std::vector<uint16_t> busy;  // in thousandths; zeros at the end are left out
};

struct DetailLevel {
  uint64_t bin_ns = 0;
  std::vector<LevelRow> rows;
};

// From coarse to fine. A layer in which a thread did nothing has no row. If there are more threads
// or blocks than the limits allow, evenly spaced ranks are selected.
std::vector<DetailLevel> make_levels(const Context& context, const DetailLimits& limits);

}  // namespace millrace::analyze
