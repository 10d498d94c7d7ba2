// DividedTasks: the tasks of an outer launcher in which an inner one started ranks of its own.
//
// torchrun inside srun or mpirun is an agent that starts the processes which train. The agent, and
// the shell or the helpers beside it, have the outer launcher's rank in their environment and are
// not ranks. The workers have both. So a process whose rank comes from a launcher is not a rank if
// another process of the same task has a rank from a launcher further in. docs/design/ranks.md.
#pragma once

#include <cstdint>
#include <set>
#include <tuple>

#include "wire/launchers.h"

namespace millrace::trace {

class DividedTasks {
 public:
  // Every process of the trace. `session` is any number that tells sessions apart.
  void add(uint32_t session, const wire::RankOrigin& origin) {
    if (origin.outer_by != wire::RankTeller::kNobody) {
      tasks_.emplace(session, origin.outer_by, origin.outer_rank);
    }
  }

  // Whether the process stands around the ranks of its task. Call it after all were added.
  bool is_around_ranks(uint32_t session, int32_t rank, const wire::RankOrigin& origin) const {
    return origin.told_by != wire::RankTeller::kNobody &&
           tasks_.contains({session, origin.told_by, rank});
  }

 private:
  std::set<std::tuple<uint32_t, wire::RankTeller, int32_t>> tasks_;
};

}  // namespace millrace::trace
