// Messages: bytes from one rank to another, moved by a thread of their own while the caller works.
//
//   ASSIGN_OR_RETURN(auto messages, comm.open_messages());     // collective
//   const Ticket sent = messages->send(Rank{1}, MessageTag{7}, bytes);        // returns at once
//   const Ticket due = messages->receive(Rank{1}, MessageTag{7});
//   RETURN_IF_ERROR(messages->wait(due));  ... messages->take(due) ...
//
// MPI moves nothing by itself: without a thread that drives it, what was sent arrives when the
// sender next calls MPI (docs/design/ranks.md). The thread sleeps when nothing is under way, and
// gives the core away when it is needed; it must not starve the training.
//
// What arrives before its receive is called for waits in this rank's memory: whoever sends far
// ahead fills it.
//
// Promises, which messages_contract.h checks of every implementation:
//  - send and receive return at once and take any length; messages of one pair of ranks and one tag
//    arrive in the order in which they were sent; a rank may send to itself;
//  - nothing waits for ever, and errors name the rank. One that dies, or fails (Comm::agree), makes
//    whatever is under way fail, and every later call. One that ends its Messages makes those fail
//    that wait for it; what it had sent still arrives;
//  - any thread may call; the collective calls of the Comm go on beside it.
// Ends before its Comm does: sends that nobody waited for are finished first, receives given up.
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

enum class MessageTag : uint32_t {};  // whose conversation this is; below 2^15

// One message under way. Used up by take(), by the wait() that finds a send done, and by either
// that finds a failure.
enum class Ticket : uint64_t {};

inline constexpr uint32_t kTagLimit = 1u << 15;

class Messages {
 public:
  virtual ~Messages() = default;

  virtual Rank rank() const = 0;
  virtual uint32_t size() const = 0;

  // `bytes` must stay as they are until the ticket is done, or has failed.
  virtual Ticket send(Rank to, MessageTag tag, ByteView bytes) = 0;

  // The next message of `from` with this tag, of whatever length it is.
  virtual Ticket receive(Rank from, MessageTag tag) = 0;

  // Whether it is done, or has failed: then wait() returns at once.
  virtual bool is_done(Ticket ticket) = 0;

  // Fails with kTimeout where `patience` ends first; the ticket then stays good.
  virtual Status wait(Ticket ticket, std::chrono::nanoseconds patience) = 0;
  Status wait(Ticket ticket) { return wait(ticket, std::chrono::nanoseconds::max()); }

  // Waits for a receive, and gives its bytes.
  virtual Result<std::string> take(Ticket ticket) = 0;

  // Bytes that take() gave and that are not needed any more, to be filled again. Not a duty; but
  // fresh memory costs several times what the message does (docs/measurements.md).
  virtual void give_back(std::string /*bytes*/) {}

  // Every question asked under this tag, by anybody, goes to `answer` on a thread of ours, one at
  // a time, and what it returns goes back to who asked: how a rank serves what it holds. It must
  // be quick, and must not wait for a ticket. Questions that came before wait for this call.
  // Messages that are sent under the same tag are apart. Not called any more once this has ended.
  using Answer = std::function<std::string(Rank from, std::string question)>;
  virtual void serve(MessageTag tag, Answer answer) = 0;

  // The answer of `from` to one question, by a ticket for take().
  virtual Ticket ask(Rank whom, MessageTag tag, std::string question) = 0;

  // Whether that rank has ended its Messages, in order, and no rank is lost: for who can do without
  // its answers.
  virtual bool has_ended(Rank rank) = 0;
};

}  // namespace millrace::comm
