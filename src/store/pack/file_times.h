// file_times: the time of a catalogue entry, from stat(2) and for utimensat(2).
#pragma once

#include <sys/stat.h>

#include <cstdint>

namespace millrace::store {

inline int64_t ns_of(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + int64_t{time.tv_nsec};
}

struct FileTimes {
  explicit FileTimes(int64_t mtime_ns) {
    int64_t seconds = mtime_ns / 1'000'000'000;
    int64_t rest = mtime_ns % 1'000'000'000;
    if (rest < 0) --seconds, rest += 1'000'000'000;
    times[0] = {.tv_sec = 0, .tv_nsec = UTIME_OMIT};
    times[1] = {.tv_sec = seconds, .tv_nsec = rest};
  }
  timespec times[2];
};

}  // namespace millrace::store
