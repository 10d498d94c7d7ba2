// Exchange: moves samples between the ranks' storages while an epoch is trained, and ends it on all
// ranks together.
//
//   Exchange exchange(comm, *messages, *storage);
//   RETURN_IF_ERROR(exchange.start());                     // the storage's epoch
//   for (uint64_t i = 0; i < iterations; ++i) {
//     train(...);
//     RETURN_IF_ERROR(exchange.advance(i + 1, iterations));  // returns at once
//   }
//   RETURN_IF_ERROR(exchange.finish());                    // the storage is at the next epoch
//
// A thread of its own reads, sends, receives and stores the encoded bytes, one message a peer and
// round of the plan, as far as advance() lets it: as large a part of the rounds as of the
// iterations, so that the network and the disk are used evenly. It also makes the next epoch
// durable; finish() waits for what is left, and then for the slowest rank. No call but finish()
// waits for another rank, and ranks may have different numbers of iterations.
//
// A rank that dies makes the calls of the others fail with its name. After a failure, or when it
// was given up, an exchange begins again with new Messages. The calls are one thread's; the Comm is
// used by finish() alone.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/result.h"
#include "comm/comm.h"
#include "comm/messages.h"
#include "data/buffer.h"
#include "loader/exchange/exchange_message.h"
#include "loader/exchange/exchange_plan.h"
#include "loader/exchange/local_storage.h"

namespace millrace::loader {

// Of all epochs so far.
struct ExchangeStats {
  uint64_t samples_sent = 0;
  uint64_t samples_received = 0;
  uint64_t bytes_sent = 0;  // of messages
  uint64_t bytes_received = 0;
  uint64_t messages_sent = 0;
  std::chrono::nanoseconds moving{};     // by the thread: the plan and the rounds
  std::chrono::nanoseconds preparing{};  // by the thread: making the next epoch durable
  std::chrono::nanoseconds waited{};     // for the thread, in finish(): what was not hidden
  std::chrono::nanoseconds agreeing{};   // for the other ranks and the commit, in finish()

  // The part of the work that nobody waited for; 1 where there was none.
  double hidden_share() const;
};

class Exchange {
 public:
  static constexpr comm::MessageTag kTag{301};

  // All must outlive this. The messages' tag is this exchange's alone.
  Exchange(comm::Comm& comm, comm::Messages& messages, LocalStorage& storage,
           comm::MessageTag tag = kTag);
  ~Exchange();  // an exchange that was not finished is given up
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Begins the exchange of the storage's epoch; what was staged before is forgotten.
  Status start();

  // `done` of `count` iterations of the epoch are over. Fails where the thread has.
  Status advance(uint64_t done, uint64_t count);

  // Completes the exchange, and commits the next epoch once all ranks have it. Collective. It is
  // given up, for all ranks, where `is_interrupted`, asked some times a second, becomes true. Of
  // one that has failed it says why, however often it is called.
  Status finish(const std::function<bool()>& is_interrupted = {});
  bool is_under_way() const { return thread_.joinable(); }

  ExchangeStats stats() const;

 private:
  // A message that a peer sends in a round.
  struct Due {
    uint32_t peer = 0;
    std::vector<ExchangeMove> moves;
    comm::Ticket ticket{};
  };

  // A round whose messages are on their way.
  struct InFlight {
    ExchangeRound which;
    std::vector<Due> due;
    std::vector<data::Buffer> sent;  // stays as it is until the tickets are done
    std::vector<comm::Ticket> sending;
  };

  void run(data::Epoch epoch);
  Status move_all(data::Epoch epoch);
  Status move_rounds(const ExchangePlan& plan, std::deque<InFlight>& in_flight);
  Status post(const ExchangePlan& plan, InFlight& round);
  Status complete(InFlight& round);
  Status wait_for(comm::Ticket ticket, uint32_t peer);
  bool is_allowed(uint64_t round, uint64_t round_count) const;
  void end_thread();

  comm::Comm* comm_;
  comm::Messages* messages_;
  LocalStorage* storage_;
  comm::MessageTag tag_;
  PartialMoves moves_;
  // The thread's: what was sent, to be filled again. Fresh memory takes as long as the copies.
  std::vector<data::Buffer> spare_;
  std::thread thread_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Under mutex_:
  double allowed_ = 0;  // the part of the rounds that may go
  bool is_given_up_ = false;
  bool is_done_ = false;
  Status status_;
  ExchangeStats stats_;
};

}  // namespace millrace::loader
