#include "trace/record/session_users.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/file.h"
#include "trace/all/all_mode.h"
#include "trace/all/remote.h"

namespace millrace::trace {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMapsMaxBytes = uint64_t{1} << 28;

// The file of a session that every recording process maps.
struct PageFile {
  fs::path path;
  uint64_t inode = 0;
};

PageFile page_file_of(const SessionDirectory& session) {
  std::error_code error;
  PageFile page{.path = fs::canonical(session.path() / "session", error)};
  struct stat status{};
  if (stat(page.path.c_str(), &status) == 0) page.inode = status.st_ino;
  return page;
}

// Removes the next word from a line of /proc/PID/maps.
std::string_view take_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

// Whether the line is a shared, writable mapping of the page. Readers do not map the page. Compares
// the path or the inode: bind mounts change the path and overlays the inode. A false match only
// keeps the session as long as that process lives.
bool is_mapping_of(const PageFile& page, std::string_view line) {
  take_word(line);  // addresses
  const std::string_view permissions = take_word(line);
  take_word(line);  // offset
  take_word(line);  // device
  const std::string_view number = take_word(line);
  if (!permissions.starts_with("rw-s")) return false;
  uint64_t inode = 0;
  std::from_chars(number.data(), number.data() + number.size(), inode);
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  return inode == page.inode || line == page.path.native();
}

bool maps(uint32_t pid, const PageFile& page) {
  const auto text = read_file(fmt::format("/proc/{}/maps", pid), kMapsMaxBytes);
  if (!text.ok()) return false;
  constexpr std::string_view kLineEnd = "/session\n";
  const std::string_view all = *text;
  for (size_t at = all.find(kLineEnd); at != std::string_view::npos;
       at = all.find(kLineEnd, at + 1)) {
    const size_t begin = all.rfind('\n', at) + 1;  // npos + 1 is the first line
    if (is_mapping_of(page, all.substr(begin, at + kLineEnd.size() - 1 - begin))) return true;
  }
  return false;
}

bool is_started_for(uint32_t pid, const SessionDirectory& session) {
  constexpr std::string_view kVariable = "MILLRACE_TRACE_SESSION=";
  for (const std::string& entry : read_environment(pid)) {
    std::error_code error;
    if (entry.starts_with(kVariable) &&
        fs::equivalent(entry.substr(kVariable.size()), session.path(), error)) {
      return true;
    }
  }
  return false;
}

bool is_watcher(uint32_t pid) {
  const auto name = read_file(fmt::format("/proc/{}/comm", pid), 4096);
  return name.ok() && name->substr(0, name->find('\n')) == kWatcherName;
}

// Reading the mappings of a large process takes long, and most processes of a machine are older
// than any session. The start time in /proc includes time asleep, the monotonic clock does not: a
// process may seem younger than it is, never older.
bool began_before(uint32_t pid, const wire::ClockSample& first) {
  const uint64_t start_time = read_stat(pid).start_time;
  const auto ticks_per_second = static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
  return start_time != 0 && start_time / ticks_per_second + 1 < first.monotonic_ns / 1'000'000'000;
}

}  // namespace

std::vector<uint32_t> find_session_users(const SessionDirectory& session) {
  const PageFile page = page_file_of(session);
  const auto self = static_cast<uint32_t>(getpid());
  std::vector<uint32_t> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    uint32_t pid = 0;
    const auto [end, wrong] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (wrong != std::errc() || *end != '\0' || pid == self) continue;
    if (began_before(pid, session.page().first)) continue;
    if ((maps(pid, page) && !is_watcher(pid)) || is_started_for(pid, session)) found.push_back(pid);
  }
  return found;
}

}  // namespace millrace::trace
