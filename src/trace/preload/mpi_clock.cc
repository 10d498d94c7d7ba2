// Compares the clocks of a job's hosts by messages. One rank of each node asks rank 0 for its time
// in several rounds, and keeps the shortest round. The error is at most half of that round: some
// microseconds, whereas wall clocks differ by milliseconds.
//
// All of this is collective, and ranks would wait forever for one that is not traced. So nothing is
// done unless all ranks are known to take part (mpi_agreement.h). It happens where the ranks meet
// anyway, after MPI_Init and before MPI_Finalize, and costs only the round trips.
#include <unistd.h>

#include <string_view>

#include "hook/environment.h"
#include "trace/preload/mpi_agreement.h"
#include "trace/preload/mpi_library.h"
#include "trace/preload/recorder.h"
#include "wire/clock.h"

namespace millrace::trace {
namespace {

constexpr int kRoundsMax = 10;
constexpr int kRoundsMin = 2;
constexpr int kRoundsOfAllNodes = 2000;
constexpr int kTag = 0;

// The ranks that represent their nodes. Its rank 0 is rank 0 of the world. 0: no exchange.
struct Leaders {
  Handle comm = 0;
  int rank = 0;
  int size = 0;
};
constinit Leaders leaders;

enum class ClockMode { kNever, kAcrossNodes, kAlways };

ClockMode read_clock_mode() {
  const char* value = hook::find_variable(environ, "MILLRACE_TRACE_MPI_CLOCK",
                                          sizeof("MILLRACE_TRACE_MPI_CLOCK") - 1);
  if (value == nullptr || value[0] == '\0') return ClockMode::kAcrossNodes;
  return std::string_view(value) == "0" ? ClockMode::kNever : ClockMode::kAlways;
}

// Collective over all ranks.
Leaders choose_leaders(const MpiLibrary& mpi, int world_rank, bool every_rank) {
  int node_rank = 0;
  if (!every_rank) {
    Handle node = 0;
    if (mpi.comm_split_type(mpi.world, mpi.shared_type, world_rank, mpi.no_info, &node) !=
        kMpiSuccess) {
      return {};
    }
    mpi.comm_rank(node, &node_rank);
    mpi.comm_free(&node);
  }
  Leaders chosen;
  const int colour = node_rank == 0 ? 0 : 1;
  if (mpi.comm_split(mpi.world, colour, world_rank, &chosen.comm) != kMpiSuccess) return {};
  mpi.comm_rank(chosen.comm, &chosen.rank);
  mpi.comm_size(chosen.comm, &chosen.size);
  if (colour == 0 && chosen.size > 1) return chosen;
  mpi.comm_free(&chosen.comm);
  return {};
}

// Rank 0 answers the nodes one after the other, so the last one waits for all others. With many
// nodes each gets fewer rounds, so that this takes at most some tenths of a second.
int round_count() {
  const int share = kRoundsOfAllNodes / leaders.size;
  return share > kRoundsMax ? kRoundsMax : share < kRoundsMin ? kRoundsMin : share;
}

// Rank 0 of the leaders sends its time to each of the others.
void answer(const MpiLibrary& mpi) {
  const int rounds = round_count();
  for (int peer = 1; peer < leaders.size; ++peer) {
    for (int round = 0; round < rounds; ++round) {
      uint64_t time_ns = 0;
      mpi.receive(&time_ns, sizeof(time_ns), mpi.bytes, peer, kTag, leaders.comm,
                  mpi.status_ignore);
      time_ns = wire::monotonic_clock_ns();
      mpi.send(&time_ns, sizeof(time_ns), mpi.bytes, peer, kTag, leaders.comm);
    }
  }
}

PeerClock ask(const MpiLibrary& mpi) {
  PeerClock best{};
  const int rounds = round_count();
  for (int round = 0; round < rounds; ++round) {
    uint64_t peer_ns = 0;
    const uint64_t sent_ns = wire::monotonic_clock_ns();
    mpi.send(&sent_ns, sizeof(sent_ns), mpi.bytes, 0, kTag, leaders.comm);
    mpi.receive(&peer_ns, sizeof(peer_ns), mpi.bytes, 0, kTag, leaders.comm, mpi.status_ignore);
    const uint64_t back_ns = wire::monotonic_clock_ns();
    const uint64_t half_ns = (back_ns - sent_ns) / 2;
    if (best.uncertainty_ns != 0 && half_ns + 1 >= best.uncertainty_ns) continue;
    best.at_ns = sent_ns + half_ns;
    best.offset_ns = static_cast<int64_t>(peer_ns - best.at_ns);
    best.uncertainty_ns = half_ns + 1;
  }
  return best;
}

void measure(const MpiLibrary& mpi, PeerMoment moment) {
  if (leaders.comm == 0) return;
  if (leaders.rank == 0) {
    answer(mpi);
    set_peer_clock(moment,
                   {.offset_ns = 0, .uncertainty_ns = 1, .at_ns = wire::monotonic_clock_ns()});
  } else {
    set_peer_clock(moment, ask(mpi));
  }
}

}  // namespace

void mpi_will_begin(const MpiLibrary& mpi) {
  if (!mpi.known() || read_clock_mode() != ClockMode::kAcrossNodes) return;
  const int saved_errno = errno;
  promise_to_agree();
  errno = saved_errno;
}

void mpi_has_begun(const MpiLibrary& mpi) {
  if (!mpi.known()) return;
  const int saved_errno = errno;
  int rank = -1;
  int size = -1;
  mpi.comm_rank(mpi.world, &rank);
  mpi.comm_size(mpi.world, &size);
  set_rank_by_mpi(rank, size);
  const ClockMode mode = read_clock_mode();
  if (mode == ClockMode::kAlways ||
      (mode == ClockMode::kAcrossNodes && all_ranks_agree({rank, size}))) {
    leaders = choose_leaders(mpi, rank, mode == ClockMode::kAlways);
    measure(mpi, PeerMoment::kInit);
  }
  errno = saved_errno;
}

void mpi_is_ending(const MpiLibrary& mpi) {
  const int saved_errno = errno;
  if (leaders.comm != 0) {
    measure(mpi, PeerMoment::kFinalize);
    mpi.comm_free(&leaders.comm);
    leaders = {};
  }
  errno = saved_errno;
}

void mpi_has_ended() {
  const int saved_errno = errno;
  end_agreement();
  errno = saved_errno;
}

}  // namespace millrace::trace
