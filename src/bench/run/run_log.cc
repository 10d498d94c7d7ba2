#include "bench/run/run_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/system/clock.h"
#include "base/text/phrases.h"

namespace millrace::bench {

Result<RunLog> RunLog::open(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(File file, File::open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0666));
  return RunLog(std::move(file));
}

void RunLog::add(std::string_view level, std::string_view text) const {
  if (!file_.is_open()) return;
  const std::string now = utc_text(wall_now().count());
  std::string lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) lines += fmt::format("[{}] {} {}\n", level, now, text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  // Not write_at(), which would overwrite what another run appends.
  [[maybe_unused]] const ssize_t written = ::write(file_.fd(), lines.data(), lines.size());
}

}  // namespace millrace::bench
