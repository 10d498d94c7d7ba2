// A rank of a program that initializes and finalizes MPI itself, like Python's mpi4py: Millrace is
// a guest in it. For tests/comm/mpi_test.py.
//
// usage: comm_guest multiple|funneled [early]
//   early: MPI is finalized while Millrace's Comm and messages are still open
// Exit code: 0, or 1 with the error on standard error.
#include <fmt/core.h>
#include <mpi.h>

#include <cstring>

#include "comm/connect.h"
#include "comm/messages.h"

namespace millrace::comm {
namespace {

Status talk(Comm& comm, Messages& messages) {
  const auto next = static_cast<Rank>((index_of(comm.rank()) + 1) % comm.size());
  messages.serve(MessageTag{1}, [](Rank, std::string question) { return question + "!"; });
  ASSIGN_OR_RETURN(const std::string answer,
                   messages.take(messages.ask(next, MessageTag{1}, "there")));
  if (answer != "there!") return fail(Errc::kCorrupt, "the answer is {}", answer);
  return comm.barrier();
}

Status be_a_guest(bool finalizes_early) {
  ASSIGN_OR_RETURN(auto comm, connect());
  auto messages = comm->open_messages();
  RETURN_IF_ERROR(comm->agree(messages.ok() ? Status() : messages.error()));
  RETURN_IF_ERROR(comm->agree(talk(*comm, **messages)));
  if (finalizes_early) {
    MPI_Finalize();
    const Status after = (*messages)->wait((*messages)->receive(kFirstRank, MessageTag{1}));
    if (after.ok()) return fail(Errc::kCorrupt, "a message came after MPI was finalized");
    fmt::print("after MPI: {}\n", after.error().message());
  }
  return {};
}

}  // namespace
}  // namespace millrace::comm

int main(int argc, char** argv) {
  const bool multiple = argc > 1 && std::strcmp(argv[1], "multiple") == 0;
  const bool early = argc > 2 && std::strcmp(argv[2], "early") == 0;
  int provided = 0;
  MPI_Init_thread(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &provided);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  // MPI stays, so a second connection works.
  for (int round = 0; round < (early ? 1 : 2); ++round) {
    const millrace::Status status = millrace::comm::be_a_guest(early);
    if (!status.ok() && rank == 0) fmt::print(stderr, "{}\n", status.error().message());
    if (!status.ok()) {
      MPI_Finalize();
      return 1;
    }
  }
  if (early) return 0;
  int sum = 0;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) fmt::print("MPI still works: {}\n", sum);
  MPI_Finalize();
  return 0;
}
