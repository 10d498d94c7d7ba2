#include "loader/exchange.h"

#include <map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "loader/exchange_message.h"
#include "loader/settle.h"

namespace millrace::loader {
namespace {

using namespace std::chrono_literals;

// How long a wait for a peer goes on before it looks whether the exchange is given up.
constexpr auto kPatience = 50ms;

// The moves of a round by peer, in the order of turns.
std::map<uint32_t, std::vector<ExchangeMove>> by_peer(std::span<const ExchangeMove> moves) {
  std::map<uint32_t, std::vector<ExchangeMove>> grouped;
  for (const ExchangeMove& move : moves) grouped[move.peer].push_back(move);
  return grouped;
}

}  // namespace

double ExchangeStats::hidden_share() const {
  const std::chrono::nanoseconds worked = moving + preparing;
  if (worked.count() == 0) return 1;
  return 1 - static_cast<double>(waited.count()) / static_cast<double>(worked.count());
}

Exchange::Exchange(comm::Comm& comm, comm::Messages& messages, LocalStorage& storage, comm::Tag tag)
    : comm_(&comm),
      messages_(&messages),
      storage_(&storage),
      tag_(tag),
      moves_(storage.options().order) {}

Exchange::~Exchange() { end_thread(); }

void Exchange::end_thread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_given_up_ = true;
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
  allowed_ = 0;
  is_given_up_ = false;
  is_done_ = false;
  status_ = {};
  thread_ = std::thread([this, e = *epoch] { run(e); });
  return {};
}

Status Exchange::advance(uint64_t done, uint64_t count) {
  {
    const std::lock_guard lock(mutex_);
    if (!status_.ok()) return status_;
    allowed_ = count == 0 ? 1 : static_cast<double>(done) / static_cast<double>(count);
  }
  changed_.notify_all();
  return {};
}

Status Exchange::finish() {
  assert(thread_.joinable());
  const auto begin = monotonic_now();
  {
    std::unique_lock lock(mutex_);
    allowed_ = 1;
    changed_.notify_all();
    changed_.wait(lock, [&] { return is_done_; });
  }
  thread_.join();
  const auto moved = monotonic_now();
  const Status status = commit_together(*storage_, *comm_, status_);
  const std::lock_guard lock(mutex_);
  stats_.waited += moved - begin;
  stats_.agreeing += monotonic_now() - moved;
  return status;
}

ExchangeStats Exchange::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void Exchange::run(data::Epoch epoch) {
  Status status = move_all(epoch);
  const std::lock_guard lock(mutex_);
  status_ = std::move(status);
  is_done_ = true;
  changed_.notify_all();
}

Status Exchange::move_all(data::Epoch epoch) {
  auto begin = monotonic_now();
  const auto add_time = [&](std::chrono::nanoseconds ExchangeStats::* to) {
    const std::lock_guard lock(mutex_);
    stats_.*to += monotonic_now() - begin;
  };
  const ExchangePlan plan = plan_exchange(moves_, epoch, storage_->options().rank);
  add_time(&ExchangeStats::moving);
  for (uint64_t round = 0; round < plan.round_count(); ++round) {
    if (!may_go(round, plan.round_count())) return fail(Errc::kCancelled, "given up");
    begin = monotonic_now();
    RETURN_IF_ERROR(move_round(plan, round));
    add_time(&ExchangeStats::moving);
  }
  begin = monotonic_now();
  RETURN_IF_ERROR(storage_->prepare(data::Epoch{data::number_of(epoch) + 1}));
  add_time(&ExchangeStats::preparing);
  return {};
}

// Waits until the iterations have come as far as the round; false where the exchange is given up.
bool Exchange::may_go(uint64_t round, uint64_t round_count) {
  const double needed = static_cast<double>(round + 1) / static_cast<double>(round_count);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_given_up_ || allowed_ >= needed; });
  return !is_given_up_;
}

Status Exchange::move_round(const ExchangePlan& plan, uint64_t round) {
  std::vector<Due> due;
  for (auto& [peer, moves] : by_peer(plan.receives_of(round))) {
    due.push_back({.peer = peer,
                   .moves = std::move(moves),
                   .ticket = messages_->receive(comm::Rank{peer}, tag_)});
  }
  const auto groups = by_peer(plan.sends_of(round));
  std::vector<std::string> sent;  // stays as it is until the tickets are done
  sent.reserve(groups.size());
  std::vector<comm::Ticket> sending;
  Status status;
  for (const auto& [peer, moves] : groups) {
    auto message = pack_samples({.epoch = plan.epoch, .round = round}, moves, *storage_);
    if (!message.ok()) {
      status = std::move(message).error();
      break;
    }
    sent.push_back(*std::move(message));
    sending.push_back(messages_->send(comm::Rank{peer}, tag_, bytes_of(sent.back())));
    const std::lock_guard lock(mutex_);
    stats_.samples_sent += moves.size();
    stats_.bytes_sent += sent.back().size();
    ++stats_.messages_sent;
  }
  if (status.ok()) status = store_round({.epoch = plan.epoch, .round = round}, due);
  // Also after a failure, and when given up: the bytes must stay until nobody reads them. A send
  // needs no receive to be done, so that this ends.
  for (const comm::Ticket ticket : sending) {
    Status left = messages_->wait(ticket);
    if (status.ok()) status = std::move(left);
  }
  return status;
}

Status Exchange::store_round(const ExchangeRound& round, const std::vector<Due>& due) {
  for (const auto& [peer, moves, ticket] : due) {
    RETURN_IF_ERROR(wait_for(ticket, peer));
    ASSIGN_OR_RETURN(const std::string message, messages_->take(ticket));
    ASSIGN_OR_RETURN(const auto samples,
                     unpack_samples(round, moves, bytes_of(message))
                         .within(fmt::format("the exchange with rank {}", peer)));
    for (size_t i = 0; i < moves.size(); ++i) {
      RETURN_IF_ERROR(storage_->stage(moves[i].slot, moves[i].sample, samples[i]));
    }
    const std::lock_guard lock(mutex_);
    stats_.samples_received += moves.size();
    stats_.bytes_received += message.size();
  }
  return {};
}

Status Exchange::wait_for(comm::Ticket ticket, uint32_t peer) {
  while (true) {
    Status status = messages_->wait(ticket, kPatience);
    if (status.ok() || status.error().code() != Errc::kTimeout) return status;
    const std::lock_guard lock(mutex_);
    if (is_given_up_) return fail(Errc::kCancelled, "the exchange with rank {} was given up", peer);
  }
}

}  // namespace millrace::loader
