// Messages: moves bytes from one rank to another on its own thread, while the caller works.
//
//   ASSIGN_OR_RETURN(auto messages, comm.open_messages());     // collective
//   const Ticket sent = messages->send(Rank{1}, MessageTag{7}, bytes);        // returns at once
//   const Ticket due = messages->receive(Rank{1}, MessageTag{7});
//   RETURN_IF_ERROR(messages->wait(due));  ... messages->take(due) ...
//
// MPI makes no progress by itself: without a thread that drives it, a message arrives only when its
// sender next calls MPI (docs/design/ranks.md). The thread sleeps when nothing is in flight, and
// yields the core when others need it; it must not starve the training.
//
// A message that arrives before its receive() stays in this rank's memory. A sender that runs far
// ahead fills that memory.
//
// Guarantees, which messages_contract.h checks for every implementation:
//  - send and receive return at once and take any length. Messages between two ranks with the same
//    tag arrive in the order in which they were sent. A rank may send to itself;
//  - nothing waits forever, and errors name the rank. If a rank dies or fails (Comm::agree),
//    everything in flight fails, and so does every later call. If a rank destroys its Messages,
//    those who wait for it fail; what it had sent still arrives;
//  - any thread may call, and the collective calls of the Comm keep working meanwhile.
// Destroy it before its Comm. The destructor completes pending sends and cancels receives.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/base.h"
#include "base/result.h"
#include "comm/comm.h"

namespace millrace::comm {

enum class MessageTag : uint32_t {};  // separates independent conversations; below 2^15

// One message in flight. Consumed by take(), by a wait() that finds a send done, and by either of
// them when it returns a failure.
enum class Ticket : uint64_t {};

inline constexpr uint32_t kTagLimit = 1u << 15;

class Messages {
 public:
  virtual ~Messages() = default;

  virtual Rank rank() const = 0;
  virtual uint32_t size() const = 0;

  // REQUIRES: `bytes` stay valid and unchanged until the ticket is done or has failed.
  virtual Ticket send(Rank to, MessageTag tag, ByteView bytes) = 0;

  // The next message from `from` with this tag, of any length.
  virtual Ticket receive(Rank from, MessageTag tag) = 0;

  // Whether it is done or has failed, so that wait() returns at once.
  virtual bool is_done(Ticket ticket) = 0;

  // Fails with kTimeout after `patience`; the ticket then stays valid.
  virtual Status wait(Ticket ticket, std::chrono::nanoseconds patience) = 0;
  Status wait(Ticket ticket) { return wait(ticket, std::chrono::nanoseconds::max()); }

  // Waits for a receive, and returns its bytes.
  virtual Result<std::string> take(Ticket ticket) = 0;

  // Returns the memory of bytes from take() for reuse. Optional, but fresh memory costs several
  // times as much as the message itself (docs/measurements.md).
  virtual void give_back(std::string /*bytes*/) {}

  // Serves what this rank holds: calls `answer` for every question with this tag, from any rank,
  // and sends the result back to the rank that asked. `answer` runs on a thread of Messages, one
  // call at a time, and not after the destructor returns. It must be quick and must not wait for a
  // ticket. Questions that arrive before this call wait for it. Questions and messages with the
  // same tag are independent.
  using Answer = std::function<std::string(Rank from, std::string question)>;
  virtual void serve(MessageTag tag, Answer answer) = 0;

  // Asks `whom` one question. take() on the ticket returns the answer.
  virtual Ticket ask(Rank whom, MessageTag tag, std::string question) = 0;

  // Whether that rank has destroyed its Messages in the regular way, and no rank is lost. For
  // callers that can do without its answers.
  virtual bool has_ended(Rank rank) = 0;
};

}  // namespace millrace::comm
