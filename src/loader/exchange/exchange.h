// Exchange: moves samples between the storages of ranks while an epoch is trained, and commits the
// next epoch on all ranks together.
//
//   Exchange exchange(comm, *messages, *storage);
//   RETURN_IF_ERROR(exchange.start());                     // the storage's epoch
//   for (uint64_t i = 0; i < iterations; ++i) {
//     train(...);
//     RETURN_IF_ERROR(exchange.advance(i + 1, iterations));  // returns at once
//   }
//   RETURN_IF_ERROR(exchange.finish());                    // the storage is at the next epoch
//
// Its own thread reads, sends, receives and stores the encoded bytes, one message per peer and
// round of the plan, as far as advance() allows: the same part of the rounds as of the iterations,
// so that the network and the disk are used evenly. The thread also makes the next epoch durable.
// finish() waits for what is left, and then for the slowest rank. Only finish() waits for other
// ranks, and ranks may have different numbers of iterations.
//
// If a rank dies, the calls of the others fail and name it. After a failure or a cancelled
// exchange, start again with new Messages. Single-threaded; only finish() uses the Comm.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/concurrency/mutex.h"
#include "base/result.h"
#include "comm/comm.h"
#include "comm/messages.h"
#include "data/buffer.h"
#include "loader/exchange/message.h"
#include "loader/exchange/plan.h"
#include "loader/exchange/shard_storage.h"

namespace millrace::loader::exchange {

// Sums over all epochs so far.
struct Stats {
  uint64_t samples_sent = 0;
  uint64_t samples_received = 0;
  uint64_t bytes_sent = 0;  // of messages
  uint64_t bytes_received = 0;
  uint64_t messages_sent = 0;
  std::chrono::nanoseconds moving{};     // by the thread: the plan and the rounds
  std::chrono::nanoseconds preparing{};  // by the thread: making the next epoch durable
  std::chrono::nanoseconds waited{};     // in finish(), for the thread: not overlapped
  std::chrono::nanoseconds agreeing{};   // in finish(), for the other ranks and the commit

  // The part of the work that was overlapped, 0 to 1; 1 if there was no work.
  double overlapped_share() const;
};

class Exchange {
 public:
  static constexpr comm::MessageTag kTag{301};

  // All must outlive this. Nothing else may use the tag.
  Exchange(comm::Comm& comm, comm::Messages& messages, ShardStorage& storage,
           comm::MessageTag tag = kTag);
  ~Exchange();  // cancels an exchange that is not finished
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Begins the exchange of the storage's epoch; discards what was staged before.
  Status start();

  // Reports that `done` of `count` iterations are over. Fails if the thread has failed.
  Status advance(uint64_t done, uint64_t count);

  // Completes the exchange, and commits the next epoch once all ranks have it. Collective. Polls
  // `is_interrupted` several times per second; if it returns true, the exchange is cancelled for
  // all ranks. After a failure, every call returns the reason.
  Status finish(const std::function<bool()>& is_interrupted = {});
  bool is_under_way() const { return thread_.joinable(); }

  Stats stats() const;

 private:
  // A message that a peer sends in a round.
  struct Due {
    uint32_t peer = 0;
    std::vector<Move> moves;
    comm::Ticket ticket{};
  };

  // A round whose messages are in flight.
  struct InFlight {
    Round which;
    std::vector<Due> due;
    std::vector<data::Buffer> sent;  // must not change until the tickets are done
    std::vector<comm::Ticket> sending;
  };

  void run(data::Epoch epoch);
  Status move_all(data::Epoch epoch);
  Status move_rounds(const Plan& plan, std::deque<InFlight>& in_flight);
  Status post(const Plan& plan, InFlight& round);
  Status complete(InFlight& round);
  Status wait_for(comm::Ticket ticket, uint32_t peer);
  bool is_allowed(uint64_t round, uint64_t round_count) const REQUIRES(mutex_);
  void end_thread();

  comm::Comm* comm_;
  comm::Messages* messages_;
  ShardStorage* storage_;
  comm::MessageTag tag_;
  order::PartialMoves moves_;
  // Buffers of completed sends, reused by the thread. Fresh memory takes as long as the copies.
  std::vector<data::Buffer> spare_;
  std::thread thread_;

  mutable Mutex mutex_;
  std::condition_variable changed_;
  double allowed_ GUARDED_BY(mutex_) = 0;  // the part of the rounds that may be sent
  bool is_cancelled_ GUARDED_BY(mutex_) = false;
  bool is_done_ GUARDED_BY(mutex_) = false;
  Status status_ GUARDED_BY(mutex_);
  Stats stats_ GUARDED_BY(mutex_);
};

}  // namespace millrace::loader::exchange
