// Mailbox: matches messages to tickets on one rank, independently of what moves the bytes.
//
// A message takes its place in the order when it begins to arrive; it may be complete later than
// the one behind it. Messages, questions and answers of one rank and tag are separate channels.
// Answers come in the order of the questions, so they need no number.
//
// Thread-safe.
#pragma once

#include <chrono>
#include <compare>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/concurrency/mutex.h"
#include "base/result.h"
#include "comm/messages.h"

namespace millrace::comm {

enum class MessageKind : uint8_t { kMessage, kQuestion, kAnswer };

struct Channel {
  Rank from = kFirstRank;
  MessageKind kind = MessageKind::kMessage;
  MessageTag tag{0};

  auto operator<=>(const Channel&) const = default;
};

// A message that has begun to arrive. `bytes` belongs to the code that moves it until `complete`.
struct Arrival {
  Channel channel;
  std::string bytes;
  bool complete = false;
  std::optional<Ticket> ticket;  // of the receive that it matches
};

struct Question {
  Rank from = kFirstRank;
  MessageTag tag{0};
  std::string text;
  std::shared_ptr<const Messages::Answer> answer;  // shared with the mailbox during the call
};

class Mailbox {
 public:
  Mailbox(Rank rank, uint32_t size) : rank_(rank), ended_(size, false) {}

  // ---- tickets ----

  Ticket open_send(Rank to, MessageTag tag);  // until finish_send()
  Ticket open_receive(const Channel& channel);
  void finish_send(Ticket ticket);
  bool has_failed(Ticket ticket) const;

  bool is_done(Ticket ticket) const;
  Status wait(Ticket ticket, std::chrono::nanoseconds patience);
  Result<std::string> take(Ticket ticket);

  // Waits until no send is in flight. Those that are left after `patience` fail.
  void wait_for_sends(std::chrono::nanoseconds patience);

  // What this rank waits for from others.
  enum class Expects { kNothing, kQuestions, kMessages };
  Expects expects() const;

  // ---- arrivals ----

  std::shared_ptr<Arrival> begin(const Channel& channel);  // shared with the caller, who fills it
  void complete(const std::shared_ptr<Arrival>& arrival);

  // ---- questions: take the next, answer it, then call answered() ----

  void serve(MessageTag tag, Messages::Answer answer);
  std::optional<Question> next_question();
  std::optional<Question> wait_for_question();  // none: the mailbox is closed
  void answered();

  // ---- failures ----

  void rank_ended(Rank rank);
  bool has_ended(Rank rank) const;  // and nothing has failed

  // Fails everything in flight and every later call. Only the first failure counts.
  enum class Spare { kNothing, kSendsToOthers };
  void fail(const Error& error, Spare spare = Spare::kNothing, Rank lost = kFirstRank);

  // Ends this rank's messages: cancels receives, drops arrivals, and answers no more questions.
  // Returns when no answer is being computed any more.
  void close();

 private:
  struct Slot {
    bool is_send = false;
    Rank peer = kFirstRank;
    bool done = false;
    bool is_waited_for = false;
    std::optional<Error> error;
    std::string bytes;
  };
  struct Queue {
    std::deque<std::shared_ptr<Arrival>> arrived;  // no receive yet
    std::deque<Ticket> waiting;
  };

  Ticket open(Slot slot) REQUIRES(mutex_);
  std::optional<Error> refusal(Rank peer, MessageTag tag, bool is_send) const REQUIRES(mutex_);
  std::optional<Question> next_question_locked() REQUIRES(mutex_);
  void hand_over(Arrival& arrival) REQUIRES(mutex_);
  Status wait_locked(MutexLock& lock, Ticket ticket, std::chrono::nanoseconds patience)
      REQUIRES(mutex_);
  void settle(Slot& slot, std::optional<Error> error) REQUIRES(mutex_);
  void drop_waiting() REQUIRES(mutex_);

  const Rank rank_;
  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<uint64_t, Slot> slots_ GUARDED_BY(mutex_);
  uint64_t last_ticket_ GUARDED_BY(mutex_) = 0;
  size_t open_sends_ GUARDED_BY(mutex_) = 0;
  size_t open_receives_ GUARDED_BY(mutex_) = 0;
  std::map<Channel, Queue> queues_ GUARDED_BY(mutex_);
  std::map<MessageTag, std::shared_ptr<const Messages::Answer>> served_ GUARDED_BY(mutex_);
  bool answering_ GUARDED_BY(mutex_) = false;
  bool flushing_ GUARDED_BY(mutex_) = false;  // wait_for_sends() is waiting
  bool closed_ GUARDED_BY(mutex_) = false;
  std::vector<bool> ended_ GUARDED_BY(mutex_);  // by rank
  std::optional<Error> failure_ GUARDED_BY(mutex_);
};

}  // namespace millrace::comm
