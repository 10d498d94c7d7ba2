// open_below: opens a path relative to an open directory, of any length; and sets what the entry of
// a catalogue says about a file.
//
// A path in a pack may be longer than the kernel accepts in one call (PATH_MAX). It is then opened
// in several steps.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/io/file.h"
#include "base/result.h"

namespace millrace::store {

// Opens a directory by an ordinary path.
Result<File> open_directory(const std::string& path);

// `flags` and `mode` are those of openat(2). "" is the directory itself.
Result<File> open_below(const File& directory, std::string_view path, int flags,
                        unsigned mode = 0644);

// The directory that contains `path`.
Result<File> open_parent(const File& directory, std::string_view path);

// The last component of a path.
std::string base_name(std::string_view path);

// A symbolic link at `path`, with its time.
Status make_link_below(const File& directory, const std::string& path, std::string_view target,
                       int64_t mtime_ns);

inline int64_t ns_of(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + int64_t{time.tv_nsec};
}

// The time of an entry, for utimensat(2).
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

Status set_mode_and_time(const File& file, unsigned mode, int64_t mtime_ns);

// Whether the name leads to the open file.
bool is_same_file(const File& file, const std::filesystem::path& path);

}  // namespace millrace::store
