#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/io/directory.h"
#include "base/io/file.h"
#include "base/system/counter.h"
#include "base/system/cpus.h"
#include "base/text/text.h"
#include "trace/preload/text.h"
#include "trace/record/launcher.h"
#include "trace/record/session_directory.h"

namespace millrace::trace {
namespace {

wire::SessionPage describe(const LaunchOptions& options) {
  wire::SessionPage page{};
  page.magic = wire::kSessionMagic;
  page.version = wire::kRecordingVersion;
  page.counter = choose_counter().source;
  page.first = sample_clocks(page.counter);
  page.launcher_pid = static_cast<uint32_t>(getpid());
  page.levels = options.levels;
  page.cores = static_cast<uint32_t>(usable_cpu_count());
  copy_cut(page.host, this_host().name);
  copy_cut(page.boot_id, this_host().boot_id);
  std::string filters;
  for (const std::string& glob : options.include) filters += fmt::format("+{}\n", glob);
  for (const std::string& glob : options.exclude) filters += fmt::format("-{}\n", glob);
  copy_cut(page.filters, filters);
  return page;
}

}  // namespace

Result<std::filesystem::path> make_session(const LaunchOptions& options) {
  RETURN_IF_ERROR(make_directories(options.directory));
  alignas(wire::SessionPage) char bytes[wire::kPageSizeBytes] = {};
  const wire::SessionPage page = describe(options);
  std::memcpy(bytes, &page, sizeof(page));
  const std::filesystem::path session =
      options.directory /
      fmt::format("{}-{}-{:x}", page.host, page.launcher_pid, page.first.counter_ticks);
  // Command lines and file names are private to the user. A directory that already exists is not
  // ours.
  if (mkdir(session.c_str(), 0700) != 0) {
    return fail_os(errno, "cannot make the directory of the recording").within(session.string());
  }
  const std::string path = session / "session";
  ASSIGN_OR_RETURN(const File file, File::open(path, O_WRONLY | O_CREAT | O_EXCL, 0600));
  RETURN_IF_ERROR(
      file.write_at(0, ByteView(reinterpret_cast<const std::byte*>(bytes), sizeof(bytes)))
          .within(path));
  return session;
}

}  // namespace millrace::trace
