// A rank of a job, started by tests/comm/mpi_test.py under mpirun.
//
// usage: comm_ranks names                   prints the clauses of the contract, and whether
//                                           they end in failure
//        comm_ranks check CLAUSE...         with PIECE_BYTES from the environment
//        comm_ranks work HOW RANK           does what a verb does, while RANK has an accident:
//          fail         it returns an error
//          kill         it is killed while the others wait for it
//          kill-busy    it is killed while the others compute
//          kill-moving  it is killed while megabytes move
//          kill-awaited   it is killed while the others wait for its message
//          kill-serving   it is killed while it answers the others, who keep asking
//          kill-taking    it is killed while the others send it megabytes
//          exit         it calls _exit(0) without notice
//          sigterm      it gets SIGTERM while the others compute
//          fork-kill    it forks a process that stays, prints its id, and is killed
//          fork-terminate  it forks a process and ends that with SIGTERM; this does no harm
//          fork-exit    every rank forks a process that returns from main; this does no harm
//        comm_ranks gather SIZE_BYTES       the last rank sends that much to rank 0 with gather
//        comm_ranks send SIZE_BYTES         the same with a message
// Exit code: 0 or 1 as for the program, 3 for a broken clause.
#include <fmt/core.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "base/hash/crc32c.h"
#include "base/system/clock.h"
#include "comm/connect.h"
#include "comm/messages.h"
#include "comm/testing/comm_contract.h"
#include "comm/testing/messages_contract.h"

namespace millrace::comm {
namespace {

using namespace std::chrono_literals;

// Longer than any test waits: a rank that should be ended and is not is detected.
constexpr auto kWorkTime = 3600s;

// Like the command line: one rank prints the error.
void print(const Error& error) { fmt::print(stderr, "millrace: {}\n", error.message()); }

void end_by_loss(const LostRank& loss) {
  if (loss.speaks) print(loss.error);
  _exit(1);
}

std::vector<ContractClause> all_clauses() {
  std::vector<ContractClause> clauses(contract().begin(), contract().end());
  clauses.insert(clauses.end(), messages_contract().begin(), messages_contract().end());
  return clauses;
}

int print_names() {
  for (const ContractClause& clause : all_clauses()) {
    fmt::print("{} {}\n", clause.name, clause.ends_in_failure ? "fails" : "succeeds");
  }
  return 0;
}

int check_clauses(const std::vector<std::string>& words) {
  ConnectOptions options;
  const char* piece = std::getenv("PIECE_BYTES");
  if (piece != nullptr) options.piece_bytes = std::stoull(piece);
  auto comm = connect(options);
  if (!comm.ok()) {
    print(comm.error());
    return 1;
  }
  int exit_code = 0;
  for (const ContractClause& clause : all_clauses()) {
    if (std::find(words.begin(), words.end(), clause.name) == words.end()) continue;
    if (!*comm) continue;
    const uint32_t rank = index_of((*comm)->rank());
    const Status status = clause.check(*comm);
    if (!status.ok()) {
      fmt::print(stderr, "{}: rank {}: {}\n", clause.name, rank, status.error().message());
      exit_code = 3;
    } else {
      fmt::print("{} holds on rank {}\n", clause.name, rank);
    }
  }
  return exit_code;
}

[[noreturn]] void die() {
  kill(getpid(), SIGKILL);
  while (true) pause();
}

Status compute_for(std::chrono::seconds duration) {
  const auto until = monotonic_now() + duration;
  while (monotonic_now() < until) std::this_thread::sleep_for(10ms);
  return {};
}

void die_soon() {
  std::thread killer([] {
    std::this_thread::sleep_for(300ms);
    die();
  });
  killer.detach();
}

Status move_for_ever(Comm& comm, bool harmed) {
  if (harmed) die_soon();
  while (true) {
    std::string bytes(size_t{8} << 20, 'x');
    RETURN_IF_ERROR(comm.broadcast(bytes, kFirstRank));
    RETURN_IF_ERROR(comm.gather(bytes_of(bytes), kFirstRank));
  }
}

// Communicates with the rank that is killed, and returns when that fails.
Status talk_for_ever(Comm& comm, const std::string& how, Rank harmed) {
  ASSIGN_OR_RETURN(const auto messages, comm.open_messages());
  constexpr MessageTag kTag{3};
  const std::string bytes(size_t{4} << 20, 'x');
  messages->serve(kTag, [&bytes](Rank, std::string) { return bytes; });
  RETURN_IF_ERROR(comm.barrier());
  if (comm.rank() == harmed) {
    die_soon();
    return compute_for(kWorkTime);
  }
  if (how == "kill-awaited") return messages->wait(messages->receive(harmed, kTag));
  while (true) {
    if (how == "kill-serving") {
      RETURN_IF_ERROR(messages->take(messages->ask(harmed, kTag, "more")));
    } else {
      RETURN_IF_ERROR(messages->wait(messages->send(harmed, kTag, bytes_of(bytes))));
    }
  }
}

// A process that outlives its rank. mpi_test.py ends it.
void fork_sleeper() {
  const pid_t child = fork();
  if (child == 0) {
    setsid();  // at its end, mpirun kills the process groups of its ranks
    for (const int fd : {0, 1, 2}) close(fd);  // mpirun waits for the end of its output
    while (true) pause();
  }
  fmt::print("helper {}\n", child);
  std::fflush(stdout);
}

Status await_child(pid_t child, int expected_status) {
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != expected_status) {
    return fail(Errc::kCorrupt, "the child ended with status {} instead of {}", status,
                expected_status);
  }
  return {};
}

// Like Process.terminate() of Python's multiprocessing.
Status terminate_child() {
  const pid_t child = fork();
  if (child == 0) {
    while (true) pause();
  }
  kill(child, SIGTERM);
  return await_child(child, SIGTERM);
}

// In a child, every call must fail and say why.
Status expect_refusals(Comm& comm, Messages& messages) {
  std::string bytes;
  const Ticket sent = messages.send(comm.rank(), MessageTag{6}, bytes_of("x"));
  const Ticket due = messages.receive(comm.rank(), MessageTag{6});
  const auto gathered = comm.gather({}, kFirstRank);
  const auto taken = messages.take(due);
  const auto again = connect();
  const Status outcomes[] = {comm.barrier(),
                             comm.broadcast(bytes, kFirstRank),
                             comm.agree({}),
                             gathered.ok() ? Status() : gathered.error(),
                             messages.wait(sent),
                             taken.ok() ? Status() : taken.error(),
                             again.ok() ? Status() : again.error()};
  for (const Status& outcome : outcomes) {
    if (outcome.ok()) return fail(Errc::kCorrupt, "a call succeeded in a child");
    if (outcome.error().message().find("forked") == std::string::npos) return outcome;
  }
  return {};
}

// The child returns from main, so all destructors and atexit() functions run in it.
Status fork_and_return(Comm& comm) {
  ASSIGN_OR_RETURN(const auto messages, comm.open_messages());
  messages->serve(MessageTag{5}, [](Rank, std::string question) { return question; });
  const Ticket due = messages->receive(comm.rank(), MessageTag{6});
  // This thread waits with one of our locks and conditions while the process forks. It is never
  // destroyed in the child, where it cannot be joined.
  auto* waits = new std::thread([&] { static_cast<void>(messages->wait(due).ok()); });
  RETURN_IF_ERROR(comm.barrier());
  const pid_t child = fork();
  if (child == 0) {
    const Status refused = expect_refusals(comm, *messages);
    if (!refused.ok())
      fmt::print("child of rank {}: {}\n", index_of(comm.rank()), refused.error().message());
    return refused.ok() ? fail(Errc::kCancelled, "child of rank {}", index_of(comm.rank()))
                        : refused;
  }
  const Status ended = await_child(child, 1 << 8);  // exit code 1
  static_cast<void>(messages->send(comm.rank(), MessageTag{6}, bytes_of("x")));
  waits->join();
  delete waits;
  RETURN_IF_ERROR(ended);
  return comm.barrier();
}

Status do_work(Comm& comm, const std::string& how, Rank harmed_rank) {
  const bool harmed = comm.rank() == harmed_rank;
  RETURN_IF_ERROR(comm.barrier());
  if (how == "kill-awaited" || how == "kill-serving" || how == "kill-taking") {
    return talk_for_ever(comm, how, harmed_rank);
  }
  if (how == "kill-moving") return move_for_ever(comm, harmed);
  if (how == "fork-exit") return fork_and_return(comm);
  if (how == "fork-terminate") {
    if (harmed) RETURN_IF_ERROR(terminate_child());
    return comm.barrier();
  }
  if (how == "sigterm") {
    if (harmed) kill(getpid(), SIGTERM);
    return compute_for(kWorkTime);
  }
  if (harmed) {
    if (how == "fork-kill") fork_sleeper();
    std::this_thread::sleep_for(200ms);
    if (how == "fail") return fail(Errc::kCorrupt, "a/b.mrt: is cut short");
    if (how == "exit") _exit(0);
    die();
  }
  if (how == "kill-busy") RETURN_IF_ERROR(compute_for(kWorkTime));
  uint64_t count = 1;
  return comm.reduce(std::span(&count, 1), Fold::kSum, kFirstRank);
}

int work(const std::string& how, uint32_t harmed) {
  const auto comm = connect({.on_loss = end_by_loss});
  if (!comm.ok()) {
    print(comm.error());
    return 1;
  }
  if ((*comm)->rank() == kFirstRank) fmt::print("{} ranks work\n", (*comm)->size());
  std::fflush(stdout);
  const Status status = (*comm)->agree(do_work(**comm, how, static_cast<Rank>(harmed)));
  if (status.ok()) return 0;
  if ((*comm)->speaks()) print(status.error());
  return 1;
}

// The bytes of the last rank; the others have none.
std::string long_bytes(const Comm& comm, uint64_t size_bytes) {
  std::string bytes;
  if (index_of(comm.rank()) != comm.size() - 1) return bytes;
  bytes.resize(size_bytes);
  for (size_t i = 0; i < bytes.size(); i += 4096) bytes[i] = static_cast<char>(i >> 12);
  return bytes;
}

Status send_long(Comm& comm, uint64_t size_bytes) {
  ASSIGN_OR_RETURN(const auto messages, comm.open_messages());
  const auto last = static_cast<Rank>(comm.size() - 1);
  const std::string mine = long_bytes(comm, size_bytes);
  const uint32_t checksum = crc32c(bytes_of(mine));
  if (comm.rank() == last) {
    RETURN_IF_ERROR(messages->wait(
        messages->send(kFirstRank, MessageTag{1}, std::as_bytes(std::span(&checksum, 1)))));
    return messages->wait(messages->send(kFirstRank, MessageTag{1}, bytes_of(mine)));
  }
  if (comm.rank() != kFirstRank) return {};
  ASSIGN_OR_RETURN(const std::string expected,
                   messages->take(messages->receive(last, MessageTag{1})));
  ASSIGN_OR_RETURN(const std::string bytes, messages->take(messages->receive(last, MessageTag{1})));
  const uint32_t received = crc32c(bytes_of(bytes));
  if (expected != text_of(std::as_bytes(std::span(&received, 1)))) {
    return fail(Errc::kCorrupt, "{} bytes arrived, but not those that were sent", bytes.size());
  }
  fmt::print("{} bytes\n", bytes.size());
  return {};
}

int send(uint64_t size_bytes) {
  const auto comm = connect();
  const Status status = comm.ok() ? (*comm)->agree(send_long(**comm, size_bytes)) : comm.error();
  if (!status.ok()) print(status.error());
  return status.ok() ? 0 : 1;
}

int gather(uint64_t size_bytes) {
  const auto connected = connect();
  if (!connected.ok()) {
    print(connected.error());
    return 1;
  }
  Comm& comm = **connected;
  const std::string mine = long_bytes(comm, size_bytes);
  uint64_t checksums[2] = {crc32c(bytes_of(mine)), 0};
  const auto before = monotonic_now();
  const auto gathered = comm.gather(bytes_of(mine), kFirstRank);
  if (!gathered.ok()) {
    if (comm.speaks()) print(gathered.error());
    return 1;
  }
  const std::chrono::duration<double> took = monotonic_now() - before;
  if (comm.rank() == kFirstRank) {
    checksums[0] = 0;
    checksums[1] = crc32c(bytes_of(gathered->back()));
    fmt::print("{} bytes in {:.2f} s\n", gathered->back().size(), took.count());
  }
  if (!comm.reduce_to_all(std::span(checksums), Fold::kMax).ok()) return 1;
  return checksums[0] == checksums[1] ? 0 : 3;
}

}  // namespace
}  // namespace millrace::comm

int main(int argc, char** argv) {
  using namespace millrace::comm;
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 1 && words[0] == "names") return print_names();
  if (words.size() > 1 && words[0] == "check") return check_clauses(words);
  if (words.size() == 3 && words[0] == "work") {
    return work(words[1], static_cast<uint32_t>(std::stoul(words[2])));
  }
  if (words.size() == 2 && words[0] == "gather") return gather(std::stoull(words[1]));
  if (words.size() == 2 && words[0] == "send") return send(std::stoull(words[1]));
  fmt::print(
      stderr,
      "usage: comm_ranks names | check CLAUSE... | work HOW RANK | gather SIZE | send SIZE\n");
  return 2;
}
