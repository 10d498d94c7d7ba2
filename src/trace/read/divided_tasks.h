// DividedTasks: tasks of an outer launcher in which an inner launcher started its own ranks.
//
// torchrun inside srun or mpirun is an agent that starts the training processes. The agent, and any
// shell or helper beside it, have the outer launcher's rank in their environment but are not ranks.
// The workers have both. So a process with a launcher's rank is not a rank if another process of
// the same task has a rank from an inner launcher. docs/design/ranks.md.
#pragma once

#include <cstdint>
#include <set>
#include <tuple>

#include "wire/launchers.h"

namespace millrace::trace {

class DividedTasks {
 public:
  // Call for every process of the trace. `session` is any number that identifies the session.
  void add(uint32_t session, const wire::RankOrigin& origin) {
    if (origin.outer_by != wire::RankTeller::kNobody) {
      tasks_.emplace(session, origin.outer_by, origin.outer_rank);
    }
  }

  // Whether the process is an agent or a helper of its task, not a rank. Call it after add() has
  // seen all processes.
  bool is_around_ranks(uint32_t session, int32_t rank, const wire::RankOrigin& origin) const {
    return origin.told_by != wire::RankTeller::kNobody &&
           tasks_.contains({session, origin.told_by, rank});
  }

 private:
  std::set<std::tuple<uint32_t, wire::RankTeller, int32_t>> tasks_;
};

}  // namespace millrace::trace
