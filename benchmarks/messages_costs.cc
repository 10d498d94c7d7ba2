// What messages between two ranks cost, compared with plain MPI in the same run: the time per
// message, the share that overlaps with compute, and the cost of a rank that serves but is not
// asked.
//
// usage: mpirun -np 2 bench_messages
//
// The program initializes MPI itself, for the floor; the messages use the same MPI.
#include <fmt/core.h>
#include <mpi.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "base/system/clock.h"
#include "benchmarks/measure.h"
#include "comm/connect.h"
#include "comm/messages.h"

namespace millrace::bench {
namespace {

using namespace std::chrono_literals;
using comm::Messages;
using comm::MessageTag;
using comm::Rank;
using comm::Ticket;

constexpr MessageTag kTag{1};
constexpr MessageTag kServed{2};
constexpr size_t kWindow = 16;  // messages in flight at once

struct Ranks {
  comm::Comm& comm;
  Messages& messages;
  Rank own;
  Rank other;

  bool speaks() const { return own == comm::kFirstRank; }
  int peer() const { return static_cast<int>(index_of(other)); }
  void meet() const { keep(comm.barrier().ok()); }
};

double micros_since(std::chrono::nanoseconds begin) {
  return static_cast<double>((monotonic_now() - begin).count()) / 1e3;
}

// ---- a stream of messages, both ways ----

void plain_window(const Ranks& ranks, const std::string& mine, std::vector<std::string>& theirs) {
  std::vector<MPI_Request> requests(2 * kWindow);
  for (size_t i = 0; i < kWindow; ++i) {
    MPI_Irecv(theirs[i].data(), static_cast<int>(theirs[i].size()), MPI_BYTE, ranks.peer(), 1,
              MPI_COMM_WORLD, &requests[i]);
  }
  for (size_t i = 0; i < kWindow; ++i) {
    MPI_Isend(mine.data(), static_cast<int>(mine.size()), MPI_BYTE, ranks.peer(), 1, MPI_COMM_WORLD,
              &requests[kWindow + i]);
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}

void our_window(const Ranks& ranks, const std::string& mine, bool gives_back) {
  std::vector<Ticket> due;
  std::vector<Ticket> sent;
  for (size_t i = 0; i < kWindow; ++i) due.push_back(ranks.messages.receive(ranks.other, kTag));
  for (size_t i = 0; i < kWindow; ++i) {
    sent.push_back(ranks.messages.send(ranks.other, kTag, bytes_of(mine)));
  }
  for (const Ticket ticket : due) {
    auto bytes = ranks.messages.take(ticket);
    if (gives_back && bytes.ok()) ranks.messages.give_back(*std::move(bytes));
  }
  for (const Ticket ticket : sent) keep(ranks.messages.wait(ticket).ok());
}

// Microseconds per message in one direction, the minimum of the rounds; both ranks send.
void stream_costs(const Ranks& ranks, size_t size_bytes) {
  const std::string mine(size_bytes, 'x');
  std::vector<std::string> theirs(kWindow, std::string(size_bytes, '\0'));
  constexpr int kWindows = 20;
  enum Way { kPlain, kOurs, kOursGivenBack };
  double least[] = {1e300, 1e300, 1e300};
  for (int round = 0; round < 15; ++round) {
    for (const Way way : {kPlain, kOurs, kOursGivenBack}) {
      ranks.meet();
      const auto begin = monotonic_now();
      for (int i = 0; i < kWindows; ++i) {
        way == kPlain ? plain_window(ranks, mine, theirs)
                      : our_window(ranks, mine, way == kOursGivenBack);
      }
      least[way] = std::min(least[way], micros_since(begin) / (kWindows * kWindow));
    }
  }
  if (!ranks.speaks()) return;
  fmt::print(
      "stream of {} bytes, {} under way: plain MPI {:.1f} us a message, ours {:.1f}, with memory "
      "given back {:.1f}\n",
      size_bytes, kWindow, least[kPlain], least[kOurs], least[kOursGivenBack]);
}

// ---- a request and its answer ----

// Pauses before each request, so that the server sleeps.
void ask_costs(const Ranks& ranks, size_t size_bytes, std::chrono::microseconds pause) {
  ranks.meet();
  if (ranks.speaks()) {
    std::vector<double> micros;
    for (int i = 0; i < 100; ++i) {
      std::this_thread::sleep_for(pause);
      const auto begin = monotonic_now();
      const auto answer =
          ranks.messages.take(ranks.messages.ask(ranks.other, kServed, std::to_string(size_bytes)));
      keep(answer.ok());
      micros.push_back(micros_since(begin));
    }
    std::sort(micros.begin(), micros.end());
    fmt::print(
        "question after {:5} us, answer of {:6} bytes: median {:7.1f} us, 9 of 10 within"
        " {:.1f}\n",
        pause.count(), size_bytes, micros[50], micros[90]);
  }
  ranks.meet();
}

// ---- overlapped with compute ----

void compute_for(std::chrono::nanoseconds duration) {
  const auto until = monotonic_now() + duration;
  double value = 1;
  while (monotonic_now() < until) {
    for (int i = 0; i < 2000; ++i) value = value * 1.0000001 + 1e-9;
    keep(value);
  }
}

// CPU time of all other threads so far: what the messages take from the training.
double other_threads_micros() {
  timespec own{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own);
  return static_cast<double>(process_cpu_time().count()) / 1e3 -
         static_cast<double>(own.tv_sec) * 1e6 - static_cast<double>(own.tv_nsec) / 1e3;
}

struct Overlapped {
  double arrived = 0;        // the share that had arrived when compute ended
  double thread_micros = 0;  // CPU time of the other threads during compute
  double left_micros = 0;    // to finish the rest
};

template <typename Begin, typename Arrived, typename Finish>
Overlapped overlap(comm::Comm& comm, Begin begin, Arrived arrived, Finish finish) {
  keep(comm.barrier().ok());
  const double cpu_before = other_threads_micros();
  begin();
  compute_for(300ms);
  Overlapped overlapped = {.arrived = arrived(),
                           .thread_micros = other_threads_micros() - cpu_before};
  const auto before = monotonic_now();
  finish();
  overlapped.left_micros = micros_since(before);
  return overlapped;
}

constexpr size_t kOverlappedCount = 64;

Overlapped overlap_plain(comm::Comm& comm, const std::string& mine,
                         std::vector<std::string>& theirs) {
  const int peer = comm.rank() == comm::kFirstRank ? 1 : 0;
  std::vector<MPI_Request> requests(2 * kOverlappedCount);
  return overlap(
      comm,
      [&] {
        for (size_t i = 0; i < kOverlappedCount; ++i) {
          MPI_Irecv(theirs[i].data(), static_cast<int>(theirs[i].size()), MPI_BYTE, peer, 1,
                    MPI_COMM_WORLD, &requests[i]);
        }
        for (size_t i = 0; i < kOverlappedCount; ++i) {
          MPI_Isend(mine.data(), static_cast<int>(mine.size()), MPI_BYTE, peer, 1, MPI_COMM_WORLD,
                    &requests[kOverlappedCount + i]);
        }
      },
      [&] {  // checks the last byte, because a call of MPI would move the messages
        const auto here = [](const std::string& bytes) { return bytes.back() == 'x'; };
        return static_cast<double>(std::count_if(theirs.begin(), theirs.end(), here)) /
               kOverlappedCount;
      },
      [&] {
        MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
      });
}

Overlapped overlap_ours(const Ranks& ranks, const std::string& mine) {
  std::vector<Ticket> due;
  std::vector<Ticket> sent;
  return overlap(
      ranks.comm,
      [&] {
        for (size_t i = 0; i < kOverlappedCount; ++i) {
          due.push_back(ranks.messages.receive(ranks.other, kTag));
          sent.push_back(ranks.messages.send(ranks.other, kTag, bytes_of(mine)));
        }
      },
      [&] {
        const auto here = [&](Ticket ticket) { return ranks.messages.is_done(ticket); };
        return static_cast<double>(std::count_if(due.begin(), due.end(), here)) / kOverlappedCount;
      },
      [&] {
        for (const Ticket ticket : due) keep(ranks.messages.take(ticket).ok());
        for (const Ticket ticket : sent) keep(ranks.messages.wait(ticket).ok());
      });
}

void print_overlapped(Rank own, const char* name, const Overlapped& overlapped) {
  if (own != comm::kFirstRank) return;
  fmt::print(
      "{} messages behind 300 ms of compute, {}: {:.1f} % arrived, for {:.0f} us of CPU; the rest "
      "took {:.0f} us\n",
      kOverlappedCount, name, 100 * overlapped.arrived, overlapped.thread_micros,
      overlapped.left_micros);
}

// ---- a rank that serves but is not asked ----

double idle_cpu_percent(const Ranks& ranks) {
  ranks.meet();
  std::this_thread::sleep_for(100ms);
  const auto before = process_cpu_time();
  std::this_thread::sleep_for(4s);
  return static_cast<double>((process_cpu_time() - before).count()) / 4e9 * 100;
}

int measure() {
  auto connected = comm::connect();
  if (!connected.ok() || (*connected)->size() != 2) {
    fmt::print(stderr, "usage: mpirun -np 2 bench_messages\n");
    return 2;
  }
  comm::Comm& ours = **connected;
  const Rank own = ours.rank();
  const std::string mine(550'000, 'x');
  // Before the message thread starts, which would drive MPI too.
  for (int round = 0; round < 3; ++round) {
    std::vector<std::string> theirs(kOverlappedCount, std::string(mine.size(), '\0'));
    print_overlapped(own, "plain MPI", overlap_plain(ours, mine, theirs));
  }
  auto messages = ours.open_messages();
  if (!messages.ok()) {
    fmt::print(stderr, "bench_messages: {}\n", messages.error().message());
    return 1;
  }
  const Ranks ranks = {.comm = ours,
                       .messages = **messages,
                       .own = own,
                       .other = static_cast<Rank>(1 - index_of(own))};
  ranks.messages.serve(
      kServed, [](Rank, std::string question) { return std::string(std::stoull(question), 'x'); });
  for (int round = 0; round < 5; ++round) print_overlapped(own, "ours", overlap_ours(ranks, mine));
  for (const size_t size_bytes : {1'000, 100'000, 550'000}) stream_costs(ranks, size_bytes);
  for (const auto pause : {0us, 200us, 20'000us}) ask_costs(ranks, 100'000, pause);
  const double idle = idle_cpu_percent(ranks);
  if (ranks.speaks()) fmt::print("a rank that serves but is not asked: {:.2f} % of a core\n", idle);
  ranks.meet();
  return 0;
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  const int exit_code = millrace::bench::measure();
  MPI_Finalize();
  return exit_code;
}
