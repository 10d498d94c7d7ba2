#include "store/job/rank.h"

#include <signal.h>
#include <sys/wait.h>

#include <cstdlib>
#include <memory>

#include "base/text/text.h"
#include "comm/lifeline/message.h"
#include "store/service/service_group.h"

namespace millrace::store {

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
