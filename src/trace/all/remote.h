// Remote: queries about a stopped thread of another process: its memory, and its files in /proc.
//
// All data comes from the other program: addresses may be invalid and texts may be unterminated.
// Everything is bounded. For a dead thread, the answers are empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace millrace::trace {

// Copies exactly `size` bytes. False if they cannot all be read.
bool read_memory(uint32_t tid, uint64_t address, void* out, size_t size);

template <typename T>
std::optional<T> read_value(uint32_t tid, uint64_t address) {
  T value;
  if (!read_memory(tid, address, &value, sizeof(value))) return std::nullopt;
  return value;
}

// A zero-terminated text of at most PATH_MAX bytes. Nothing if it is longer or unreadable.
std::optional<std::string> read_text(uint32_t tid, uint64_t address);

// The total size of an iovec with `count` buffers.
uint64_t read_iovec_size(uint32_t tid, uint64_t address, uint64_t count);

// The size of a regular file, from the attributes at an address; 0 for anything else.
uint64_t read_file_size(uint32_t tid, uint64_t address, bool is_statx);

// The target of a link in /proc/TID; empty if it cannot be read.
std::string read_link(uint32_t tid, const char* name);
std::string read_descriptor_link(uint32_t tid, int fd);

// The file position of a descriptor. Nothing for pipes, terminals and the like.
std::optional<uint64_t> read_position(uint32_t tid, int fd);

std::vector<int> list_descriptors(uint32_t tid);

// Fields of /proc/TID/stat.
struct ProcessStat {
  char state = '\0';  // 'R', 'S', 'Z', ...; '\0' if the thread is dead
  uint32_t parent_pid = 0;
  uint64_t minor_faults = 0;
  uint64_t major_faults = 0;
  uint64_t start_time = 0;
};
ProcessStat read_stat(uint32_t tid);

// The process of a thread; 0 if the thread is dead.
uint32_t read_thread_group(uint32_t tid);

// The arguments joined by spaces, cut at 4000 bytes.
std::string read_command_line(uint32_t tid);
std::vector<std::string> read_environment(uint32_t tid);

// The kernel maps neighbouring pages in blocks of this size, so the page table of smaller mappings
// shows nothing.
inline constexpr uint64_t kGuessedBytes = 64 * 1024;

// How many bytes of [begin, begin + size) have a page in the process. *estimated is set if that is
// a guess, for small ranges, or from a sample, for very large ones.
uint64_t read_present_bytes(uint32_t tid, uint64_t begin, uint64_t size, bool* estimated);

}  // namespace millrace::trace
