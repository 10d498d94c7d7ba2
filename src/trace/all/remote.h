// Remote: what can be asked about a stopped thread of another process: its memory, and what /proc
// says of it.
//
// Everything asked for is the other program's: addresses may point nowhere and texts may not end.
// Nothing is believed beyond its bounds. A thread that is gone answers as if there were nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace millrace::trace {

// Copies exactly `size` bytes; false where they cannot all be read.
bool read_memory(uint32_t tid, uint64_t address, void* out, size_t size);

template <typename T>
std::optional<T> read_value(uint32_t tid, uint64_t address) {
  T value;
  if (!read_memory(tid, address, &value, sizeof(value))) return std::nullopt;
  return value;
}

// A text that ends by a zero, of at most PATH_MAX bytes; nothing where it does not, or is not
// there.
std::optional<std::string> read_text(uint32_t tid, uint64_t address);

// The bytes that an iovec of `count` parts asks for.
uint64_t read_parts_size(uint32_t tid, uint64_t address, uint64_t count);

// What the attributes at an address say of a regular file's size; 0 of anything else.
uint64_t read_file_size(uint32_t tid, uint64_t address, bool is_statx);

// Where a link of /proc/TID points; empty where it cannot be read.
std::string read_link(uint32_t tid, const char* name);
std::string read_descriptor_link(uint32_t tid, int fd);

// Where the file of a descriptor stands. Nothing where that has no meaning: pipes, terminals.
std::optional<uint64_t> read_position(uint32_t tid, int fd);

std::vector<int> list_descriptors(uint32_t tid);

// Fields of /proc/TID/stat.
struct ProcessStat {
  uint32_t parent_pid = 0;
  uint64_t minor_faults = 0;
  uint64_t major_faults = 0;
  uint64_t start_time = 0;
};
ProcessStat read_stat(uint32_t tid);

// The process that a thread belongs to; 0 where it is gone.
uint32_t read_thread_group(uint32_t tid);

// The arguments joined by spaces, cut at 4000 bytes.
std::string read_command_line(uint32_t tid);
std::vector<std::string> read_environment(uint32_t tid);

// Neighbours of a page are mapped along with it in blocks of this size, so that the page table of
// smaller mappings tells nothing.
inline constexpr uint64_t kGuessedBytes = 64 * 1024;

// The bytes of [begin, begin + size) that have a page in the process. *estimated where that is a
// guess, for small ranges, or comes from a sample, for very large ones.
uint64_t read_present_bytes(uint32_t tid, uint64_t begin, uint64_t size, bool* estimated);

}  // namespace millrace::trace
