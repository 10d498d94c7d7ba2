// ProcessActivity: what one process of a session did in the window, computed from its events.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "trace/read/columns.h"
#include "watch/snapshot.h"

namespace millrace::watch {

// What a region with this name says about waiting.
enum class Role : uint8_t { kNone, kBatchWait, kFetch };

// The window, in times of the session's clock.
struct WindowBounds {
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
};

// The levels whose calls count as operations, chosen so that no I/O is counted at two levels.
struct CountedLevels {
  uint32_t bits = 0;  // bit n: wire::Level n
  bool has(wire::Call call) const {
    return (bits >> static_cast<uint32_t>(wire::level_of(call)) & 1) != 0;
  }
};

// The counted levels of a session that records `levels`. POSIX and stdio calls of a program do not
// contain each other, because the C library calls the kernel itself. Recorded from outside
// (`has_outside`), they do. MPI-IO and HDF5 count only if no level below them is recorded.
CountedLevels counted_levels(uint32_t levels, bool has_outside);

struct FileActivity {
  uint64_t count = 0;
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
  uint64_t busy_ns = 0;
};
using FileActivities = std::unordered_map<uint32_t, FileActivity>;  // by NameIndex

class ProcessActivity {
 public:
  // `roles` maps the name of a region to its role: Role(NameIndex).
  template <typename Roles>
  void add(const trace::EventColumns& events, CountedLevels levels, WindowBounds window,
           Roles& roles, FileActivities& files) {
    for (size_t i = 0; i < events.size_events(); ++i) {
      if (wire::level_of(events.call[i]) == wire::Level::kApp) {
        add_region(events, i, window, roles(events.file[i]));
      } else if (levels.has(events.call[i])) {
        add_call(events, i, window, files);
      }
    }
  }

  // Resets the figures of the window. Keeps the progress, calls_total() and the has_ flags.
  void begin_window();

  const OperationKinds& operations() const { return operations_; }
  uint64_t busy_ns() const { return busy_ns_; }
  uint64_t calls_total() const { return calls_total_; }

  // Time within the window that the process waited, according to its regions. Use `fetch` only if
  // the process has never waited for a batch and is one that trains, not a worker.
  bool has_batch_wait() const { return has_batch_wait_; }
  bool has_fetch() const { return has_fetch_; }
  uint64_t batch_wait_ns() const { return batch_wait_ns_; }
  uint64_t fetch_ns() const { return fetch_ns_; }

  // Time within the window that at least one thread was in a call.
  uint64_t in_io_ns() const;

  struct Progress {
    bool has_epoch = false;
    bool has_step = false;
    uint32_t epoch = 0;
    uint64_t step = 0;
    uint64_t at_ns = 0;  // end of the region that it comes from
  };
  const Progress& progress() const { return progress_; }

 private:
  struct Interval {
    uint64_t begin_ns;
    uint64_t end_ns;
  };

  void add_region(const trace::EventColumns& events, size_t event, WindowBounds window, Role role);
  void add_call(const trace::EventColumns& events, size_t event, WindowBounds window,
                FileActivities& files);

  OperationKinds operations_;
  uint64_t busy_ns_ = 0;
  uint64_t calls_total_ = 0;
  bool has_batch_wait_ = false;
  bool has_fetch_ = false;
  uint64_t batch_wait_ns_ = 0;
  uint64_t fetch_ns_ = 0;
  Progress progress_;
  std::unordered_map<uint32_t, std::vector<Interval>> intervals_;  // by thread, in order of ends
};

}  // namespace millrace::watch
