#include "comm/mailbox.h"

#include <algorithm>

#include "comm/proposal.h"

namespace millrace::comm {
namespace {

Error ended_error(Rank ended, Rank waiting, bool is_send) {
  return fail(Errc::kCancelled, "rank {} ended while rank {} {}", index_of(ended),
              index_of(waiting), is_send ? "sent it a message" : "waited for its message");
}

uint64_t key_of(Ticket ticket) { return static_cast<uint64_t>(ticket); }

Error unknown_ticket(Ticket ticket) {
  return fail(Errc::kInvalidArgument,
              "ticket {} was already used, or never issued; wait for it only once", key_of(ticket));
}

}  // namespace

// ---- tickets ----

std::optional<Error> Mailbox::refusal(Rank peer, MessageTag tag, bool is_send) const {
  const auto size = static_cast<uint32_t>(ended_.size());
  if (const Status checked = check_root(peer, size); !checked.ok()) return checked.error();
  if (static_cast<uint32_t>(tag) >= kTagLimit) {
    return millrace::fail(Errc::kInvalidArgument, "tag {} is too large; tags are below {}",
                          static_cast<uint32_t>(tag), kTagLimit);
  }
  if (failure_) return failure_;
  if (ended_[index_of(peer)]) return ended_error(peer, rank_, is_send);
  return std::nullopt;
}

Ticket Mailbox::open(Slot slot) {
  slot.done = slot.error.has_value();
  if (!slot.done) ++(slot.is_send ? open_sends_ : open_receives_);
  slots_.emplace(++last_ticket_, std::move(slot));
  return static_cast<Ticket>(last_ticket_);
}

void Mailbox::settle(Slot& slot, std::optional<Error> error) {
  slot.error = std::move(error);
  slot.done = true;
  --(slot.is_send ? open_sends_ : open_receives_);
  // Waking threads that wait for other tickets would take a core from those that work.
  if (slot.is_waited_for || flushing_) changed_.notify_all();
}

Ticket Mailbox::open_send(Rank to, MessageTag tag) {
  const MutexLock lock(mutex_);
  return open({.is_send = true, .peer = to, .error = refusal(to, tag, true)});
}

Ticket Mailbox::open_receive(const Channel& channel) {
  const MutexLock lock(mutex_);
  std::optional<Error> refused = refusal(channel.from, channel.tag, false);
  const auto queue = queues_.find(channel);
  const bool has_come = queue != queues_.end() && !queue->second.arrived.empty();
  // What a rank sent before it ended still arrives.
  const bool only_ended = refused && !failure_ && index_of(channel.from) < ended_.size();
  if (refused && !(has_come && only_ended)) {
    return open({.peer = channel.from, .error = std::move(refused)});
  }
  const Ticket ticket = open({.peer = channel.from});
  if (!has_come) {
    queues_[channel].waiting.push_back(ticket);
    return ticket;
  }
  const std::shared_ptr<Arrival> arrival = queue->second.arrived.front();
  queue->second.arrived.pop_front();
  if (queue->second.arrived.empty()) queues_.erase(queue);
  arrival->ticket = ticket;
  if (arrival->complete) hand_over(*arrival);
  return ticket;
}

void Mailbox::finish_send(Ticket ticket) {
  const MutexLock lock(mutex_);
  const auto slot = slots_.find(key_of(ticket));
  if (slot == slots_.end() || slot->second.done) return;
  settle(slot->second, std::nullopt);
}

bool Mailbox::has_failed(Ticket ticket) const {
  const MutexLock lock(mutex_);
  const auto slot = slots_.find(key_of(ticket));
  return slot != slots_.end() && slot->second.error;
}

bool Mailbox::is_done(Ticket ticket) const {
  const MutexLock lock(mutex_);
  const auto slot = slots_.find(key_of(ticket));
  return slot == slots_.end() || slot->second.done;
}

Status Mailbox::wait_locked(MutexLock& lock, Ticket ticket, std::chrono::nanoseconds patience) {
  // Looked up each time: another thread may have consumed it meanwhile.
  const auto is_done = [&]() REQUIRES(mutex_) {
    const auto slot = slots_.find(key_of(ticket));
    return slot == slots_.end() || slot->second.done;
  };
  if (const auto slot = slots_.find(key_of(ticket)); slot != slots_.end()) {
    slot->second.is_waited_for = true;
  }
  bool done = true;
  if (patience > std::chrono::hours(24 * 365)) {  // more would overflow the clock
    changed_.wait(lock, is_done);
  } else {
    done = changed_.wait_for(lock, patience, is_done);
  }
  const auto slot = slots_.find(key_of(ticket));
  if (slot == slots_.end()) return failure_ ? *failure_ : unknown_ticket(ticket);
  if (!done) {
    return millrace::fail(Errc::kTimeout, "rank {} has not {} a message within {} ms",
                          index_of(slot->second.peer), slot->second.is_send ? "taken" : "sent",
                          std::chrono::duration_cast<std::chrono::milliseconds>(patience).count());
  }
  if (!slot->second.error) return {};
  const Error error = *slot->second.error;
  slots_.erase(slot);
  return error;
}

Status Mailbox::wait(Ticket ticket, std::chrono::nanoseconds patience) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(wait_locked(lock, ticket, patience));
  if (slots_.at(key_of(ticket)).is_send) slots_.erase(key_of(ticket));
  return {};
}

Result<std::string> Mailbox::take(Ticket ticket) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(wait_locked(lock, ticket, std::chrono::nanoseconds::max()));
  std::string bytes = std::move(slots_.at(key_of(ticket)).bytes);
  slots_.erase(key_of(ticket));
  return bytes;
}

void Mailbox::wait_for_sends(std::chrono::nanoseconds patience) {
  MutexLock lock(mutex_);
  flushing_ = true;
  const bool is_empty =
      changed_.wait_for(lock, patience, [&]() REQUIRES(mutex_) { return open_sends_ == 0; });
  flushing_ = false;
  if (is_empty) return;
  for (auto& [key, slot] : slots_) {
    if (!slot.done) settle(slot, failure_);
  }
}

Mailbox::Expects Mailbox::expects() const {
  const MutexLock lock(mutex_);
  if (open_receives_ > 0) return Expects::kMessages;
  return served_.empty() ? Expects::kNothing : Expects::kQuestions;
}

// ---- arrivals ----

std::shared_ptr<Arrival> Mailbox::begin(const Channel& channel) {
  auto arrival = std::make_shared<Arrival>(Arrival{.channel = channel});
  const MutexLock lock(mutex_);
  if (closed_) return arrival;  // nobody will receive it
  Queue& queue = queues_[channel];
  if (queue.waiting.empty()) {
    queue.arrived.push_back(arrival);
    return arrival;
  }
  arrival->ticket = queue.waiting.front();
  queue.waiting.pop_front();
  if (queue.waiting.empty()) queues_.erase(channel);
  return arrival;
}

void Mailbox::complete(const std::shared_ptr<Arrival>& arrival) {
  const MutexLock lock(mutex_);
  arrival->complete = true;
  if (arrival->ticket) {
    hand_over(*arrival);
  } else if (arrival->channel.kind == MessageKind::kQuestion) {
    changed_.notify_all();
  }
}

void Mailbox::hand_over(Arrival& arrival) {
  const auto found = slots_.find(key_of(*arrival.ticket));
  if (found == slots_.end() || found->second.done) return;  // it failed meanwhile
  found->second.bytes = std::move(arrival.bytes);
  settle(found->second, std::nullopt);
}

// ---- questions ----

void Mailbox::serve(MessageTag tag, Messages::Answer answer) {
  const MutexLock lock(mutex_);
  served_[tag] = std::make_shared<const Messages::Answer>(std::move(answer));
  changed_.notify_all();
}

std::optional<Question> Mailbox::next_question_locked() {
  if (closed_ || served_.empty()) return std::nullopt;
  for (auto queue = queues_.begin(); queue != queues_.end(); ++queue) {
    const Channel channel = queue->first;
    if (channel.kind != MessageKind::kQuestion || queue->second.arrived.empty()) continue;
    const auto server = served_.find(channel.tag);
    const std::shared_ptr<Arrival> first = queue->second.arrived.front();
    if (server == served_.end() || !first->complete) continue;
    queue->second.arrived.pop_front();
    if (queue->second.arrived.empty()) queues_.erase(queue);
    answering_ = true;
    return Question{channel.from, channel.tag, std::move(first->bytes), server->second};
  }
  return std::nullopt;
}

std::optional<Question> Mailbox::next_question() {
  const MutexLock lock(mutex_);
  return next_question_locked();
}

std::optional<Question> Mailbox::wait_for_question() {
  MutexLock lock(mutex_);
  std::optional<Question> question;
  changed_.wait(lock, [&]() REQUIRES(mutex_) {
    question = next_question_locked();
    return question || closed_;
  });
  return question;
}

void Mailbox::answered() {
  const MutexLock lock(mutex_);
  answering_ = false;
  changed_.notify_all();
}

// ---- failures ----

void Mailbox::rank_ended(Rank rank) {
  const MutexLock lock(mutex_);
  ended_[index_of(rank)] = true;
  for (auto& [channel, queue] : queues_) {
    if (channel.from != rank) continue;
    for (const Ticket ticket : queue.waiting) {
      settle(slots_.at(key_of(ticket)), ended_error(rank, rank_, false));
    }
    queue.waiting.clear();
  }
  std::erase_if(queues_, [](const auto& entry) {
    return entry.second.waiting.empty() && entry.second.arrived.empty();
  });
  changed_.notify_all();
}

bool Mailbox::has_ended(Rank rank) const {
  const MutexLock lock(mutex_);
  return !failure_ && index_of(rank) < ended_.size() && ended_[index_of(rank)];
}

void Mailbox::fail(const Error& error, Spare spare, Rank lost) {
  const MutexLock lock(mutex_);
  if (!failure_) failure_ = error;
  for (auto& [key, slot] : slots_) {
    if (slot.done) continue;
    if (spare == Spare::kSendsToOthers && slot.is_send && slot.peer != lost) continue;
    settle(slot, failure_);
  }
  drop_waiting();
  changed_.notify_all();
}

void Mailbox::drop_waiting() {
  for (auto& [channel, queue] : queues_) queue.waiting.clear();
  std::erase_if(queues_, [](const auto& entry) { return entry.second.arrived.empty(); });
}

void Mailbox::close() {
  MutexLock lock(mutex_);
  closed_ = true;
  const Error error = millrace::fail(
      Errc::kCancelled, "rank {} closed its messages while it waited for one", index_of(rank_));
  if (!failure_) failure_ = error;
  for (auto& [key, slot] : slots_) {
    if (slot.done || slot.is_send) continue;  // sends complete: their bytes belong to the caller
    settle(slot, failure_);
  }
  queues_.clear();
  changed_.notify_all();
  changed_.wait(lock, [&]() REQUIRES(mutex_) { return !answering_; });
}

}  // namespace millrace::comm
