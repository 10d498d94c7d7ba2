#include "loader/exchange/exchange.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "base/concurrency/thread.h"
#include "base/system/clock.h"
#include "loader/exchange/message.h"
#include "loader/exchange/settle.h"

namespace millrace::loader::exchange {
namespace {

using namespace std::chrono_literals;

// How often a wait for a peer checks whether the exchange was cancelled.
constexpr auto kPatience = 50ms;

// How often finish() polls `is_interrupted`.
constexpr auto kInterruptPeriod = 100ms;

// The part of the iterations over which the rounds are spread. The rest is for making the next
// epoch durable, which takes the disk an unknown time, and for a rank that is late.
constexpr double kSpread = 0.8;

// The moves of a round by peer, in order of turns.
std::map<uint32_t, std::vector<Move>> by_peer(std::span<const Move> moves) {
  std::map<uint32_t, std::vector<Move>> grouped;
  for (const Move& move : moves) grouped[move.peer].push_back(move);
  return grouped;
}

}  // namespace

double Stats::overlapped_share() const {
  const std::chrono::nanoseconds worked = moving + preparing;
  if (worked.count() == 0) return 1;
  // Waking up takes time too, so a wait for little work can be longer than the work.
  const std::chrono::nanoseconds overlapped =
      std::max(worked - waited, std::chrono::nanoseconds(0));
  return static_cast<double>(overlapped.count()) / static_cast<double>(worked.count());
}

Exchange::Exchange(comm::Comm& comm, comm::Messages& messages, ShardStorage& storage,
                   comm::MessageTag tag)
    : comm_(&comm),
      messages_(&messages),
      storage_(&storage),
      tag_(tag),
      moves_(storage.options().order) {}

Exchange::~Exchange() { end_thread(); }

void Exchange::end_thread() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    is_cancelled_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Status Exchange::start() {
  assert(!thread_.joinable());
  const auto epoch = storage_->epoch();
  if (!epoch) {
    return fail(Errc::kInvalidArgument, "{}: there are no samples to exchange; stage them first",
                storage_->options().directory.string());
  }
  RETURN_IF_ERROR(storage_->discard());
  {
    const MutexLock lock(mutex_);
    allowed_ = 0;
    is_cancelled_ = false;
    is_done_ = false;
    status_ = {};
  }
  ASSIGN_OR_RETURN(thread_, start_thread("mr-exchange", [this, e = *epoch] { run(e); }));
  return {};
}

Status Exchange::advance(uint64_t done, uint64_t count) {
  {
    const MutexLock lock(mutex_);
    if (!status_.ok()) return status_;
    const double part = count == 0 ? 1 : static_cast<double>(done) / static_cast<double>(count);
    allowed_ = part / kSpread;
  }
  changed_.notify_all();
  return {};
}

Status Exchange::finish(const std::function<bool()>& is_interrupted) {
  if (!is_under_way()) {
    const MutexLock lock(mutex_);
    if (!status_.ok()) return status_;
    return fail(Errc::kInvalidArgument, "no exchange is in progress; call start() before finish()");
  }
  const auto begin = monotonic_now();
  Status status;
  {
    MutexLock lock(mutex_);
    allowed_ = 1;
    changed_.notify_all();
    while (
        !changed_.wait_for(lock, kInterruptPeriod, [&]() REQUIRES(mutex_) { return is_done_; })) {
      lock.unlock();
      const bool ends = is_interrupted && is_interrupted();
      lock.lock();
      if (!ends) continue;
      is_cancelled_ = true;
      changed_.notify_all();
    }
    status = status_;
  }
  thread_.join();
  const auto moved = monotonic_now();
  status = commit_together(*storage_, *comm_, status);
  const MutexLock lock(mutex_);
  status_ = status;
  stats_.waited += moved - begin;
  stats_.agreeing += monotonic_now() - moved;
  return status;
}

Stats Exchange::stats() const {
  const MutexLock lock(mutex_);
  return stats_;
}

void Exchange::run(data::Epoch epoch) {
  Status status = move_all(epoch);
  const MutexLock lock(mutex_);
  status_ = std::move(status);
  is_done_ = true;
  changed_.notify_all();
}

Status Exchange::move_all(data::Epoch epoch) {
  auto begin = monotonic_now();
  const auto add_time = [&](std::chrono::nanoseconds Stats::* to) {
    const MutexLock lock(mutex_);
    stats_.*to += monotonic_now() - begin;
  };
  const Plan plan = plan_exchange(moves_, epoch, storage_->options().rank);
  add_time(&Stats::moving);
  std::deque<InFlight> in_flight;
  Status status = move_rounds(plan, in_flight);
  // Wait for sends even after a failure or when cancelled, because they still read the buffers. A
  // send completes without a matching receive, so this ends.
  for (const InFlight& round : in_flight) {
    for (const comm::Ticket ticket : round.sending) {
      Status left = messages_->wait(ticket);
      if (status.ok()) status = std::move(left);
    }
  }
  RETURN_IF_ERROR(std::move(status));
  begin = monotonic_now();
  RETURN_IF_ERROR(storage_->prepare(data::Epoch{data::number_of(epoch) + 1}));
  add_time(&Stats::preparing);
  return {};
}

// Two rounds are in flight at a time, so that the next one travels while one is stored. Rounds in
// flight are completed before waiting for the iterations.
Status Exchange::move_rounds(const Plan& plan, std::deque<InFlight>& in_flight) {
  const uint64_t round_count = plan.round_count();
  for (uint64_t round = 0; round < round_count || !in_flight.empty();) {
    const auto begin = monotonic_now();
    MutexLock lock(mutex_);
    const bool can_post = round < round_count && is_allowed(round, round_count);
    if (!can_post && in_flight.empty()) {
      changed_.wait(
          lock, [&]() REQUIRES(mutex_) { return is_cancelled_ || is_allowed(round, round_count); });
      if (is_cancelled_) return fail(Errc::kCancelled, "the exchange was cancelled");
      continue;
    }
    lock.unlock();
    if (can_post && in_flight.size() < 2) {
      in_flight.push_back({.which = {.epoch = plan.epoch, .round = round++}});
      RETURN_IF_ERROR(post(plan, in_flight.back()));
    } else {
      RETURN_IF_ERROR(complete(in_flight.front()));
      in_flight.pop_front();
    }
    lock.lock();
    stats_.moving += monotonic_now() - begin;
  }
  return {};
}

// Whether the iterations have reached the round.
bool Exchange::is_allowed(uint64_t round, uint64_t round_count) const {
  return allowed_ >= static_cast<double>(round + 1) / static_cast<double>(round_count);
}

Status Exchange::post(const Plan& plan, InFlight& round) {
  for (auto& [peer, moves] : by_peer(plan.receives_of(round.which.round))) {
    round.due.push_back({.peer = peer,
                         .moves = std::move(moves),
                         .ticket = messages_->receive(comm::Rank{peer}, tag_)});
  }
  const auto groups = by_peer(plan.sends_of(round.which.round));
  round.sent.reserve(groups.size());
  for (const auto& [peer, moves] : groups) {
    data::Buffer& room = round.sent.emplace_back();
    if (!spare_.empty()) {
      room = std::move(spare_.back());
      spare_.pop_back();
    }
    ASSIGN_OR_RETURN(const ByteView bytes, pack_samples(round.which, moves, *storage_, room));
    round.sending.push_back(messages_->send(comm::Rank{peer}, tag_, bytes));
    const MutexLock lock(mutex_);
    stats_.samples_sent += moves.size();
    stats_.bytes_sent += bytes.size();
    ++stats_.messages_sent;
  }
  return {};
}

Status Exchange::complete(InFlight& round) {
  for (const auto& [peer, moves, ticket] : round.due) {
    RETURN_IF_ERROR(wait_for(ticket, peer));
    ASSIGN_OR_RETURN(std::string message, messages_->take(ticket));
    ASSIGN_OR_RETURN(const auto samples,
                     unpack_samples(round.which, moves, bytes_of(message))
                         .within(fmt::format("the exchange with rank {}", peer)));
    for (size_t i = 0; i < moves.size(); ++i) {
      const auto& [bytes, checksum] = samples[i];
      RETURN_IF_ERROR(storage_->stage_for(moves[i].in_place_of, moves[i].sample, bytes, checksum));
    }
    {
      const MutexLock lock(mutex_);
      stats_.samples_received += moves.size();
      stats_.bytes_received += message.size();
    }
    messages_->give_back(std::move(message));
  }
  while (!round.sending.empty()) {
    const comm::Ticket ticket = round.sending.back();
    round.sending.pop_back();
    RETURN_IF_ERROR(messages_->wait(ticket));
  }
  std::ranges::move(round.sent, std::back_inserter(spare_));
  return {};
}

Status Exchange::wait_for(comm::Ticket ticket, uint32_t peer) {
  while (true) {
    Status status = messages_->wait(ticket, kPatience);
    if (status.ok() || status.error().code() != Errc::kTimeout) return status;
    const MutexLock lock(mutex_);
    if (is_cancelled_) {
      return fail(Errc::kCancelled, "the exchange with rank {} was cancelled", peer);
    }
  }
}

}  // namespace millrace::loader::exchange
