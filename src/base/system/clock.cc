#include "base/system/clock.h"

#include <time.h>

namespace millrace {
namespace {

std::chrono::nanoseconds read(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

class SystemClock final : public Clock {
 public:
  std::chrono::nanoseconds monotonic() const override { return monotonic_now(); }
  std::chrono::nanoseconds wall() const override { return wall_now(); }
};

}  // namespace

std::chrono::nanoseconds monotonic_now() { return read(CLOCK_MONOTONIC); }

std::chrono::nanoseconds wall_now() { return read(CLOCK_REALTIME); }

std::chrono::nanoseconds process_cpu_time() { return read(CLOCK_PROCESS_CPUTIME_ID); }

const Clock& system_clock() {
  static const SystemClock clock;
  return clock;
}

}  // namespace millrace
