#include "trace/all/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "base/io/file.h"

namespace millrace::trace {
namespace {

constexpr uint64_t kPage = 4096;        // the smallest page size; larger pages only need more reads
constexpr uint64_t kBuffersMax = 1024;  // UIO_MAXIOV: the kernel refuses more
constexpr size_t kCommandLineMax = 4000;

// Above this size, only every sixteenth buffer is checked.
constexpr uint64_t kSampledFromBytes = uint64_t{1} << 30;

std::string read_proc(uint32_t tid, const char* name, uint64_t limit_bytes) {
  auto text = read_file(fmt::format("/proc/{}/{}", tid, name), limit_bytes);
  return text.ok() ? *std::move(text) : std::string();
}

uint64_t number_at(std::string_view text) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// The number after `label` in a text of lines "label:\tnumber".
std::optional<uint64_t> labelled_number(std::string_view text, std::string_view label) {
  const size_t at = text.find(label);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + label.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return number_at(text);
}

}  // namespace

bool read_memory(uint32_t tid, uint64_t address, void* out, size_t size) {
  if (address == 0) return false;
  const iovec here{out, size};
  const iovec there{reinterpret_cast<void*>(address), size};
  const ssize_t count = process_vm_readv(static_cast<pid_t>(tid), &here, 1, &there, 1, 0);
  if (count == static_cast<ssize_t>(size)) return true;
  if (count >= 0 || (errno != EPERM && errno != ENOSYS)) return false;
  // Some containers forbid the call but allow ptrace. The file is slower, but needs no further
  // rights.
  const auto memory = File::open(fmt::format("/proc/{}/mem", tid), O_RDONLY);
  return memory.ok() && memory->read_exactly_at(address, {static_cast<std::byte*>(out), size}).ok();
}

std::optional<std::string> read_text(uint32_t tid, uint64_t address) {
  std::string text;
  char piece[256];
  while (text.size() < PATH_MAX) {
    // Do not cross a page boundary: the next page may not be mapped.
    const uint64_t at = address + text.size();
    const size_t size = std::min<uint64_t>(sizeof(piece), kPage - at % kPage);
    if (!read_memory(tid, at, piece, size)) return std::nullopt;
    const size_t length = strnlen(piece, size);
    text.append(piece, length);
    if (length < size) return text;
  }
  return std::nullopt;
}

uint64_t read_iovec_size(uint32_t tid, uint64_t address, uint64_t count) {
  std::vector<iovec> buffers(std::min(count, kBuffersMax));
  if (buffers.empty() ||
      !read_memory(tid, address, buffers.data(), buffers.size() * sizeof(iovec))) {
    return 0;
  }
  uint64_t total = 0;
  for (const iovec& buffer : buffers) total += buffer.iov_len;
  return total;
}

uint64_t read_file_size(uint32_t tid, uint64_t address, bool is_statx) {
  if (is_statx) {
    constexpr uint32_t kNeeded = STATX_TYPE | STATX_SIZE;
    const auto status = read_value<struct statx>(tid, address);
    const bool is_file = status && (status->stx_mask & kNeeded) == kNeeded;
    return is_file && S_ISREG(status->stx_mode) ? status->stx_size : 0;
  }
  const auto status = read_value<struct stat>(tid, address);
  return status && S_ISREG(status->st_mode) ? static_cast<uint64_t>(status->st_size) : 0;
}

std::string read_link(uint32_t tid, const char* name) {
  char text[PATH_MAX];
  const ssize_t size = readlink(fmt::format("/proc/{}/{}", tid, name).c_str(), text, sizeof(text));
  return size <= 0 ? std::string() : std::string(text, static_cast<size_t>(size));
}

std::string read_descriptor_link(uint32_t tid, int fd) {
  return read_link(tid, fmt::format("fd/{}", fd).c_str());
}

std::optional<uint64_t> read_position(uint32_t tid, int fd) {
  struct stat status;
  if (stat(fmt::format("/proc/{}/fd/{}", tid, fd).c_str(), &status) != 0) return std::nullopt;
  if (!S_ISREG(status.st_mode) && !S_ISBLK(status.st_mode)) return std::nullopt;
  return labelled_number(read_proc(tid, fmt::format("fdinfo/{}", fd).c_str(), 1 << 16), "pos:");
}

std::vector<int> list_descriptors(uint32_t tid) {
  std::vector<int> found;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", tid), error)) {
    found.push_back(static_cast<int>(number_at(entry.path().filename().string())));
  }
  return found;
}

ProcessStat read_stat(uint32_t tid) {
  const std::string text = read_proc(tid, "stat", 1 << 16);
  // The program's name, in parentheses, may contain anything: count fields from the last
  // parenthesis.
  std::string_view rest = text;
  rest.remove_prefix(std::min(text.rfind(')'), text.size()));
  // ") R 1234": the state is a letter, all other fields are numbers.
  const char state = rest.size() > 2 ? rest[2] : '\0';
  uint64_t fields[23] = {};
  for (int field = 3; field < 23; ++field) {
    const size_t space = rest.find(' ');
    if (space == std::string_view::npos) break;
    rest.remove_prefix(space + 1);
    fields[field] = number_at(rest);
  }
  return {.state = state,
          .parent_pid = static_cast<uint32_t>(fields[4]),
          .minor_faults = fields[10],
          .major_faults = fields[12],
          .start_time = fields[22]};
}

uint32_t read_thread_group(uint32_t tid) {
  const auto group = labelled_number(read_proc(tid, "status", 1 << 16), "Tgid:");
  return static_cast<uint32_t>(group.value_or(0));
}

std::string read_command_line(uint32_t tid) {
  std::string text = read_proc(tid, "cmdline", 1 << 24);
  while (text.ends_with('\0')) text.pop_back();
  text.resize(std::min(text.size(), kCommandLineMax));
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text;
}

std::vector<std::string> read_environment(uint32_t tid) {
  const std::string text = read_proc(tid, "environ", 1 << 24);
  std::vector<std::string> variables;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\0', at), text.size());
    variables.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return variables;
}

uint64_t read_present_bytes(uint32_t tid, uint64_t begin, uint64_t size, bool* estimated) {
  *estimated = true;
  if (size <= kGuessedBytes) return size;
  const auto pagemap = File::open(fmt::format("/proc/{}/pagemap", tid), O_RDONLY);
  if (!pagemap.ok()) return size;
  const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t stride = size >= kSampledFromBytes ? 16 : 1;
  *estimated = stride != 1;
  uint64_t entries[512];
  uint64_t present = 0;
  const uint64_t pages = (size + page_bytes - 1) / page_bytes;
  for (uint64_t page = 0; page < pages; page += std::size(entries) * stride) {
    const size_t wanted = std::min<uint64_t>(pages - page, std::size(entries));
    const auto got = pagemap->read_at((begin / page_bytes + page) * sizeof(uint64_t),
                                      std::as_writable_bytes(std::span(entries, wanted)));
    if (!got.ok()) break;
    for (size_t i = 0; i < *got / sizeof(uint64_t); ++i) present += entries[i] >> 62 != 0 ? 1 : 0;
  }
  return std::min(present * stride * page_bytes, size);
}

}  // namespace millrace::trace
