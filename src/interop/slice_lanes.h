// SliceLanes: assigns each event to a track of its thread such that slices on a track nest.
//
// A track of a viewer is a stack: slices may nest or follow each other, but not overlap partially.
// The calls of a thread nest naturally. A region, however, may end on another thread than it began
// on, or may have begun before a fork. The track of the thread (lane 0) takes what nests there.
// Other slices go to the first further lane where they fit.
//
// REQUIRES: events are sorted by begin, longer ones first if equal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace::interop {

class SliceLanes {
 public:
  // Returns the lane for a slice. Calls end(lane, time_ns) for each slice that has ended when it
  // begins, innermost first. `foreign`: not only of this thread, so never on its own track.
  template <typename End>
  size_t place(uint64_t begin_ns, uint64_t end_ns, bool foreign, End&& end) {
    finish(begin_ns, end);
    for (size_t lane = foreign ? 1 : 0;; ++lane) {
      if (lane >= lanes_.size()) lanes_.resize(lane + 1);
      std::vector<uint64_t>& open = lanes_[lane];
      if (!open.empty() && open.back() < end_ns) continue;
      open.push_back(end_ns);
      return lane;
    }
  }

  // Ends every slice that is over at `time_ns`.
  template <typename End>
  void finish(uint64_t time_ns, End&& end) {
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      std::vector<uint64_t>& open = lanes_[lane];
      while (!open.empty() && open.back() <= time_ns) {
        end(lane, open.back());
        open.pop_back();
      }
    }
  }

 private:
  std::vector<std::vector<uint64_t>> lanes_;  // the ends of the open slices, outermost first
};

}  // namespace millrace::interop
