// SliceLanes: on which track of its thread each event is drawn, so that on a track slices nest.
//
// A viewer's track is a stack: a slice may lie inside another or beside it, never half over it. A
// thread's calls nest by themselves, but a region may end on another thread than it began, or have
// begun before a fork. The thread's own track (lane 0) takes what nests there; what does not goes
// to the first further lane where it fits.
//
// Events must be given by begin, longer first among equals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace::interop {

class SliceLanes {
 public:
  // The lane for a slice. Calls end(lane, time_ns) for each slice that is over when it begins,
  // innermost first. `foreign`: not of this thread alone, so never on its own track.
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
