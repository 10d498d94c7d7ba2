#include "comm/testing/threads.h"

#include <algorithm>
#include <cassert>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "comm/proposal.h"
#include "comm/thread_messages.h"

namespace millrace::comm {
namespace {

template <typename T>
void fold_into(std::span<T> into, std::span<T> from, Fold fold) {
  for (size_t i = 0; i < into.size(); ++i) {
    switch (fold) {
      case Fold::kSum:
        into[i] += from[i];
        break;
      case Fold::kMin:
        into[i] = std::min(into[i], from[i]);
        break;
      case Fold::kMax:
        into[i] = std::max(into[i], from[i]);
        break;
    }
  }
}

// The arguments of a rank that waits. The last rank to arrive reads and fills those of all.
struct Seat {
  CollectiveShape shape;
  const Error* failure = nullptr;  // kAgree
  std::string* bytes = nullptr;    // kBroadcast
  Values values;                   // kReduce, kReduceToAll
  ByteView mine;                   // kGather
  std::vector<std::string>* gathered = nullptr;
  std::shared_ptr<ThreadPost>* post = nullptr;  // kOpenMessages
  bool waiting = false;
  bool ended = false;
};

class Table {
 public:
  explicit Table(uint32_t size) : seats_(size) {}

  uint32_t size() const { return static_cast<uint32_t>(seats_.size()); }

  Status meet(Rank rank, Seat seat) {
    std::unique_lock lock(mutex_);
    const uint64_t round = round_;
    if (failure_) return *failure_;
    if (first_ended_) return break_with(*first_ended_, rank, seat.shape.call);
    seat.waiting = true;
    seats_[index_of(rank)] = seat;
    if (++waiting_count_ < seats_.size()) {
      wake_.wait(lock, [&] { return round_ != round || failure_; });
    } else {
      conclude();
    }
    seats_[index_of(rank)].waiting = false;
    // A rank that wakes late may see the failure of the next round, although its own succeeded.
    return failure_ && failed_round_ <= round ? Status(*failure_) : Status();
  }

  void end(Rank rank) {
    const std::lock_guard lock(mutex_);
    seats_[index_of(rank)].ended = true;
    if (!first_ended_) first_ended_ = rank;
    if (failure_) return;
    for (uint32_t other = 0; other < seats_.size(); ++other) {
      if (!seats_[other].waiting) continue;
      static_cast<void>(break_with(rank, static_cast<Rank>(other), seats_[other].shape.call).ok());
      return;
    }
  }

  // Whether all lower ranks have ended.
  bool speaks(Rank rank) const {
    const std::lock_guard lock(mutex_);
    const auto lower = std::span(seats_).first(index_of(rank));
    return std::all_of(lower.begin(), lower.end(), [](const Seat& seat) { return seat.ended; });
  }

 private:
  Status break_with(Rank ended, Rank waiting, Collective call) {
    Proposal all(ended, {.call = Collective::kEnd});
    all.fold_with(Proposal(waiting, {.call = call}));
    fail_round(all.check(size()).error());
    wake_.notify_all();
    return *failure_;
  }

  void fail_round(Error error) {
    failure_ = std::move(error);
    failed_round_ = round_;
  }

  void conclude() {
    Proposal all = proposal_of(0);
    for (uint32_t rank = 1; rank < seats_.size(); ++rank) all.fold_with(proposal_of(rank));
    if (const auto failed = all.failed_rank()) {
      fail_round(named(*seats_[index_of(*failed)].failure, *failed, size()));
    } else if (const Status checked = all.check(size()); !checked.ok()) {
      fail_round(checked.error());
    } else {
      carry_out(seats_[0].shape);
    }
    for (Seat& seat : seats_) seat.waiting = false;
    waiting_count_ = 0;
    ++round_;
    wake_.notify_all();
  }

  Proposal proposal_of(uint32_t rank) const {
    Proposal proposal(static_cast<Rank>(rank), seats_[rank].shape);
    if (seats_[rank].failure != nullptr) proposal.has_failed();
    return proposal;
  }

  void carry_out(const CollectiveShape& shape) {
    Seat& root = seats_[index_of(shape.root)];
    switch (shape.call) {
      case Collective::kBroadcast:
        for (Seat& seat : seats_) {
          if (&seat != &root) *seat.bytes = *root.bytes;
        }
        return;
      case Collective::kReduce:
      case Collective::kReduceToAll:
        std::visit([&](auto values) { reduce(values, shape); }, root.values);
        return;
      case Collective::kGather:
        for (const Seat& seat : seats_) root.gathered->emplace_back(text_of(seat.mine));
        return;
      case Collective::kOpenMessages: {
        const auto post = std::make_shared<ThreadPost>(size());
        for (Seat& seat : seats_) *seat.post = post;
        return;
      }
      case Collective::kBarrier:
      case Collective::kAgree:
      case Collective::kEnd:
        return;
    }
  }

  // Folds in the order of ranks.
  template <typename T>
  void reduce(std::span<T> result, const CollectiveShape& shape) {
    const auto of = [this](uint32_t rank) { return std::get<std::span<T>>(seats_[rank].values); };
    std::vector<T> folded(of(0).begin(), of(0).end());
    for (uint32_t rank = 1; rank < seats_.size(); ++rank) {
      fold_into(std::span(folded), of(rank), shape.fold);
    }
    std::copy(folded.begin(), folded.end(), result.begin());
    if (shape.call == Collective::kReduce) return;
    for (uint32_t rank = 0; rank < seats_.size(); ++rank) {
      std::copy(folded.begin(), folded.end(), of(rank).begin());
    }
  }

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Seat> seats_;  // by rank
  size_t waiting_count_ = 0;
  uint64_t round_ = 0;
  std::optional<Rank> first_ended_;  // the others may have ended because of it
  std::optional<Error> failure_;
  uint64_t failed_round_ = 0;  // the round that failure_ belongs to
};

class ThreadsComm : public Comm {
 public:
  ThreadsComm(std::shared_ptr<Table> table, Rank rank) : table_(std::move(table)), rank_(rank) {}
  ~ThreadsComm() override {
    for (const auto& post : posts_) post->end(rank_);
    table_->end(rank_);
  }

  Rank rank() const override { return rank_; }
  uint32_t size() const override { return table_->size(); }
  bool speaks() const override { return table_->speaks(rank_); }

  Status barrier() override {
    return table_->meet(rank_, {.shape = {.call = Collective::kBarrier}});
  }

  Status broadcast(std::string& bytes, Rank root) override {
    return meet_at(root,
                   {.shape = {.call = Collective::kBroadcast, .root = root}, .bytes = &bytes});
  }

  Status reduce(Values values, Fold fold, Rank root) override {
    return meet_at(root,
                   {.shape = reduction(Collective::kReduce, values, fold, root), .values = values});
  }

  Status reduce_to_all(Values values, Fold fold) override {
    const CollectiveShape shape = reduction(Collective::kReduceToAll, values, fold, kFirstRank);
    return table_->meet(rank_, {.shape = shape, .values = values});
  }

  Result<std::vector<std::string>> gather(ByteView mine, Rank root) override {
    std::vector<std::string> gathered;
    const CollectiveShape shape = {.call = Collective::kGather, .root = root};
    RETURN_IF_ERROR(meet_at(root, {.shape = shape, .mine = mine, .gathered = &gathered}));
    return gathered;
  }

  Status agree(const Status& mine) override {
    const Error* failure = mine.ok() ? nullptr : &mine.error();
    for (const auto& post : posts_) {
      // Another rank has failed, which is why a message failed here. That rank reports it.
      if (post->was_told(rank_)) failure = nullptr;
    }
    // First, because a rank that waits for a message from this one does not come to the table.
    for (const auto& post : posts_) {
      if (failure != nullptr) post->fail(rank_, named(*failure, rank_, size()));
    }
    return table_->meet(rank_, {.shape = {.call = Collective::kAgree}, .failure = failure});
  }

  Result<std::unique_ptr<Messages>> open_messages() override {
    std::shared_ptr<ThreadPost> post;
    RETURN_IF_ERROR(
        table_->meet(rank_, {.shape = {.call = Collective::kOpenMessages}, .post = &post}));
    posts_.push_back(post);
    return thread_messages(std::move(post), rank_);
  }

 private:
  // A root that does not exist is a failure of the rank that passes it.
  Status meet_at(Rank root, const Seat& seat) {
    const Status checked = check_root(root, size());
    return checked.ok() ? table_->meet(rank_, seat) : agree(checked);
  }

  std::shared_ptr<Table> table_;  // shared by the ranks of the job; the last one destroys it
  Rank rank_;
  std::vector<std::shared_ptr<ThreadPost>> posts_;  // shared by the ranks and their Messages
};

}  // namespace

std::vector<std::unique_ptr<Comm>> threads_comm(uint32_t size) {
  assert(size > 0);
  auto table = std::make_shared<Table>(size);
  std::vector<std::unique_ptr<Comm>> ranks;
  for (uint32_t rank = 0; rank < size; ++rank) {
    ranks.push_back(std::make_unique<ThreadsComm>(table, static_cast<Rank>(rank)));
  }
  return ranks;
}

}  // namespace millrace::comm
