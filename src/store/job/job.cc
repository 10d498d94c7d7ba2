#include "store/job/job.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <thread>

#include "base/text/phrases.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "comm/lifeline/message.h"
#include "store/buffer/drain.h"
#include "store/service/service_group.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kEndPatience{10};
constexpr std::chrono::milliseconds kLookInterval{50};
constexpr std::chrono::milliseconds kAnnounceAfter{1000};
constexpr std::chrono::milliseconds kAskPatience{2000};
constexpr std::chrono::milliseconds kFlushInterval{50};
constexpr std::chrono::seconds kFlushPatience{5};  // with something that fails

std::string end_text(int wait_status) {
  if (WIFSIGNALED(wait_status)) return fmt::format("killed by signal {}", WTERMSIG(wait_status));
  return fmt::format("exit code {}", WEXITSTATUS(wait_status));
}

// Says what is waited for, if it takes long.
void announce_copies(const fs::path& buffer, const Say& say) {
  auto contents = read_buffer(buffer);
  for (int i = 0; i < kAnnounceAfter / kLookInterval; ++i) {
    if (!contents.ok() || contents->files.empty()) return;
    std::this_thread::sleep_for(kLookInterval);
    contents = read_buffer(buffer);
  }
  if (!contents.ok() || contents->files.empty()) return;
  say(fmt::format("waiting until {} of {} {} saved in {}",
                  counted(contents->files.size(), "buffered file", "buffered files"),
                  format_bytes(contents->size_bytes), contents->files.size() == 1 ? "is" : "are",
                  printable(contents->owner.upper)));
}

void say_losses(const wire::StoreState& state, const Say& say) {
  for (const auto& line : loss_lines(state.counters, printable(state.origin))) say(line);
}

// Ends the service and removes its folder.
bool end_service(const StartedService& service, const Say& say) {
  auto node = read_node(service.node);
  int status = 0;
  const bool has_ended = ::waitpid(service.pid, &status, WNOHANG) == service.pid;
  if (!has_ended) {
    ::kill(service.pid, SIGTERM);
    announce_copies(buffer_of(service.node), say);
    ::waitpid(service.pid, &status, 0);
  }
  bool is_saved = !WIFEXITED(status) || WEXITSTATUS(status) != kExitNotSaved;
  if (has_ended || (status != 0 && is_saved)) {  // it may have been killed a moment ago
    say(
        fmt::format("the service ended before the command ({}); files that were not there yet were "
                    "read from the origin, or failed",
                    end_text(status)));
    is_saved = flush_node(buffer_of(service.node), say);
  }
  if (!node.ok()) return is_saved;
  say_losses(node->state, say);
  node->is_running = false;
  const Status ended = end_node(*node, kEndPatience);
  if (!ended.ok()) say(ended.error().message());
  return is_saved;
}

// How the flush of another node ended; nothing if it does not answer.
std::optional<wire::FlushProgress> flush_peer(Peers& peers, Rank rank) {
  const auto ticket = peers.ask(rank, wire::PeerKind::kFlush, {});
  auto failing_since = std::chrono::steady_clock::now();
  for (auto answer = ticket; answer.ok();) {
    answer = peers.ask(rank, wire::PeerKind::kFlush, bytes_of(*ticket));
    if (!answer.ok() || answer->size() != 1) break;
    const auto progress = static_cast<wire::FlushProgress>((*answer)[0]);
    const auto now = std::chrono::steady_clock::now();
    if (progress == wire::FlushProgress::kDurable) return progress;
    if (progress == wire::FlushProgress::kRunning) failing_since = now;
    if (now - failing_since > kFlushPatience) return progress;
    std::this_thread::sleep_for(kFlushInterval);
  }
  return std::nullopt;
}

// Waits until the buffers of all these nodes are empty. Returns whether they are, and names the
// nodes that are not.
bool flush_peers(const fs::path& node, const std::string& table, const Say& say) {
  const auto peers = find_peers(node, table);
  if (!peers.ok() || *peers == nullptr) return true;
  bool is_saved = true;
  for (uint32_t i = 0; i < (*peers)->size(); ++i) {
    const auto rank = static_cast<Rank>(i);
    const auto progress = flush_peer(**peers, rank);
    if (progress == wire::FlushProgress::kDurable) continue;
    is_saved = false;
    say(fmt::format("{}: {}; see there: millrace store flush --left {}", (*peers)->name_of(rank),
                    progress ? "buffered files cannot be saved now"
                             : "does not answer; buffered files of it may not be saved",
                    printable(buffer_of(node).string())));
  }
  return is_saved;
}

// The services of other nodes end with the launcher, which the keeper ends. They have said
// themselves what was lost.
bool end_group(const StartedService& keeper, bool has_buffer, const Say& say) {
  const bool is_saved = !has_buffer || flush_peers(keeper.node, keeper.table, say);
  ::kill(keeper.pid, SIGTERM);
  ::waitpid(keeper.pid, nullptr, 0);
  return is_saved;
}

// Passes on what was added to the log since the last call. The file may have been removed
// meanwhile.
class LogTail {
 public:
  LogTail(const fs::path& path, const Say& take) : take_(take) {
    auto opened = File::open(path, O_RDONLY);
    if (opened.ok()) log_ = *std::move(opened);
  }

  void pass_on() {
    char buffer[4096];
    while (log_.is_open()) {
      const auto size =
          log_.read_at(passed_bytes_, std::as_writable_bytes(std::span(buffer, sizeof(buffer))));
      if (!size.ok() || *size == 0) return;
      take_(std::string(buffer, *size));
      passed_bytes_ += *size;
    }
  }

 private:
  File log_;
  const Say& take_;
  uint64_t passed_bytes_ = 0;
};

}  // namespace

Result<Job> start_job(JobOptions options) {
  Job job{.started = {}, .is_group = !options.launcher.empty()};
  if (job.is_group) {
    ASSIGN_OR_RETURN(job.started,
                     start_group(std::move(options.launcher), options.program,
                                 options.process.service, std::move(options.process.watched)));
    return job;
  }
  ASSIGN_OR_RETURN(job.started, start_service_process(std::move(options.process)));
  return job;
}

bool end_job(const Job& job, bool has_buffer, const Say& say) {
  return job.is_group ? end_group(job.started, has_buffer, say) : end_service(job.started, say);
}

bool flush_node(const fs::path& buffer, const Say& say) {
  announce_copies(buffer, say);
  const auto kept = flush_buffer(buffer);
  if (!kept.ok()) say(kept.error().message());
  if (!kept.ok()) return false;
  for (const KeptFile& file : *kept) say(kept_text(file));
  return kept->empty();
}

bool flush_job(const NodeStatus& node, const Say& say) {
  if (node.state.globs[0] == '\0') return true;
  const bool are_peers_saved = flush_peers(node.path, {}, say);
  return flush_node(buffer_of(node.path), say) && are_peers_saved;
}

Result<bool> take_down_job(const NodeStatus& node, const Say& say, const Say& log) {
  const bool is_saved = flush_job(node, say);
  LogTail tail(node.path / kLogFile, log);
  tail.pass_on();
  say_losses(node.state, say);
  ASSIGN_OR_RETURN(const auto peers, find_peers(node.path));
  if (peers != nullptr) {
    for (const auto& [rank, error] : peers->tell_all(wire::PeerKind::kEnd, {})) {
      say(fmt::format("not ended: {}", printable(error.message())));
    }
  }
  const Status ended = end_node(node, kEndPatience);
  tail.pass_on();
  RETURN_IF_ERROR(ended);
  return is_saved;
}

Result<std::unique_ptr<Peers>> find_peers(const fs::path& node, const std::string& table) {
  const auto text = read_file(node / wire::kStorePeersFile);
  if (!text.ok() && table.empty()) return std::unique_ptr<Peers>();
  PeersOptions options;
  ASSIGN_OR_RETURN(options.table,
                   read_table(text.ok() ? *text : table).within(printable(node.string())));
  options.deadline = std::min(peer_deadline(), kAskPatience);
  const std::string host = comm::own_name(comm::kFirstRank).host;
  const auto& places = options.table.places;
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i].host == host) options.own = static_cast<Rank>(i);
  }
  return std::make_unique<Peers>(std::move(options));
}

Result<bool> run_rank(RankOptions options) {
  const std::string job = options.process.service.job;
  std::unique_ptr<comm::Comm> comm;
  std::string table_lines;
  const auto exchange = [&](const std::string& place) -> Result<Membership> {
    comm::ConnectOptions connecting;
    connecting.on_loss = options.on_loss;
    ASSIGN_OR_RETURN(comm, comm::connect(connecting));
    if (place.empty()) return fail(Errc::kCancelled, "the service could not be started");
    ASSIGN_OR_RETURN(PeerTable table, exchange_places(*comm, place, job));
    if (std::getenv(kGroupTableVariable) != nullptr) {
      table_lines = kGroupTableBegin + table_text(table) + kGroupTableEnd;
    }
    return Membership{.table = std::move(table), .own = comm->rank()};
  };
  auto service = start_rank_service(std::move(options.process), exchange);
  if (comm == nullptr) return service.error();
  const Status status = comm->agree(service.ok() ? Status() : Status(service.error()));
  if (!status.ok()) {
    if (comm->speaks()) options.on_failure(status.error().message());
    if (service.ok()) {
      ::kill(service->pid, SIGTERM);
      ::waitpid(service->pid, nullptr, 0);
    }
    return false;
  }
  if (comm->rank() == comm::kFirstRank) {
    options.on_ready(service->node,
                     fmt::format("{}# {} on {} nodes\n", table_lines, kGroupReady, comm->size()));
  }
  comm.reset();  // from now on the services find each other without MPI
  const int ended = attend_rank_service(*service);
  if (WIFSIGNALED(ended)) {
    options.say(fmt::format("the service of {} was killed by signal {}",
                            printable(comm::own_name(comm::kFirstRank).host), WTERMSIG(ended)));
  }
  return true;
}

}  // namespace millrace::store
