#include "trace/record/unseen_command.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/text/text.h"
#include "trace/all/recording_writer.h"
#include "trace/all/remote.h"
#include "trace/all/session_names.h"
#include "trace/preload/session.h"
#include "trace/preload/text.h"

namespace millrace::trace {

UnseenCommand::UnseenCommand(const std::filesystem::path& session, pid_t child,
                             const std::string& executable,
                             const std::vector<std::string>& command) {
  auto settings = std::make_unique<Settings>();
  copy_cut(settings->session, session.native());
  int error = 0;
  wire::SessionPage* page = attach_session(*settings, &error);
  if (page == nullptr) return;
  auto names = SessionNames::open(*settings);
  if (!names.ok()) return;
  std::error_code ignored;
  const RankInfo rank = read_rank(environ);
  const auto pid = static_cast<uint32_t>(child);
  writer_ = std::make_unique<RecordingWriter>(
      page, session.native(),
      ProcessImage{
          .pid = pid,
          .parent_pid = static_cast<uint32_t>(getpid()),
          .rank = rank.rank,
          .world_size = rank.world_size,
          // Earlier than any program that it may have become by exec.
          .start_ticks = page->first.counter_ticks,
          .start_time = read_stat(pid).start_time,
          .executable = names->intern(executable),
          .command_line = names->intern(join(command, " ").substr(0, 4000)),
          .working_directory = names->intern(std::filesystem::current_path(ignored).native()),
          // If it becomes another program by exec, the library there creates another page, which
          // follows this one. A page from outside would take over that page's events.
          .recorded_from = wire::RecordedFrom::kInside});
}

UnseenCommand::~UnseenCommand() = default;

void UnseenCommand::end(int wait_status) {
  if (writer_ == nullptr) return;
  const bool exited = WIFEXITED(wait_status);
  writer_->end({.exited = exited ? 1u : 2u,
                .code = exited ? WEXITSTATUS(wait_status) : WTERMSIG(wait_status)});
}

}  // namespace millrace::trace
