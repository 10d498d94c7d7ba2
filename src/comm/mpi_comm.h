// MpiComm: the Comm over MPI. Only files of libmillrace_mpi_*.so may include this: it needs mpi.h.
//
// Every MPI call that waits for another rank is non-blocking, and the loop that waits for it also
// checks the lifeline. MPI does not report that a rank has died (over shared memory it cannot
// know), and an MPI_Reduce that waits for a dead rank never returns.
#pragma once

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/comm.h"
#include "comm/connect.h"
#include "comm/lifeline/lifeline.h"
#include "comm/messages.h"
#include "comm/mpi_messages.h"
#include "comm/proposal.h"

namespace millrace::comm {

// How a rank waits. Others may need the core: with more ranks than cores, a rank that spins delays
// the one that it waits for.
enum class Pace {
  kPayload,  // all ranks are here, and bytes move only while MPI is called
  kMeeting,  // another rank may arrive a minute later
};

class MpiComm : public Comm {
 public:
  MpiComm(MPI_Comm mpi, size_t piece_bytes, bool owns_mpi)
      : mpi_(mpi), piece_bytes_(piece_bytes), owns_mpi_(owns_mpi) {
    int number = 0;
    MPI_Comm_rank(mpi_, &number);
    rank_ = static_cast<Rank>(number);
    MPI_Comm_size(mpi_, &number);
    size_ = static_cast<uint32_t>(number);
  }

  ~MpiComm() override;

  // Collective. Every later call fails.
  void end();

  Status connect_lifeline(const ConnectOptions& options);

  Rank rank() const override { return rank_; }
  uint32_t size() const override { return size_; }

  bool speaks() const override {
    const auto lost = lifeline_ ? lifeline_->lost() : std::nullopt;
    return rank_ == (lost && lost->rank == kFirstRank ? Rank{1} : kFirstRank);
  }

  Status barrier() override { return meet(Proposal(rank_, {.call = Collective::kBarrier})); }

  Status broadcast(std::string& bytes, Rank root) override;

  Status reduce(Values values, Fold fold, Rank root) override {
    if (const Status checked = check_root(root, size_); !checked.ok()) return agree(checked);
    return reduce_as(reduction(Collective::kReduce, values, fold, root), values);
  }

  Status reduce_to_all(Values values, Fold fold) override {
    return reduce_as(reduction(Collective::kReduceToAll, values, fold, kFirstRank), values);
  }

  Result<std::vector<std::string>> gather(ByteView mine, Rank root) override;

  Status agree(const Status& mine) override {
    const bool is_news = !mine.ok() && !failure_ && !was_told();
    // First, because a rank that waits for a message from this one does not come to the meeting.
    for (const auto& post : posts_) {
      if (is_news) post->tell_failure(mine.error());
    }
    return meet(Proposal(rank_, {.call = Collective::kAgree}), is_news ? mine : Status());
  }

  Result<std::unique_ptr<Messages>> open_messages() override;

 private:
  int root_number(Rank root) const { return static_cast<int>(index_of(root)); }

  Status meet(Proposal proposal, const Status& mine = {});
  Status tell_failure(Rank failed, const Status& mine);
  Status wait(MPI_Request& request, int started, Pace pace);
  Status reduce_as(const CollectiveShape& shape, Values values);
  Status reduce_piece(const CollectiveShape& shape, MPI_Datatype type, std::byte* at, int count);
  Status broadcast_pieces(std::string& bytes, Rank root);
  Status send_pieces(ByteView bytes, Rank to);
  Status receive_pieces(std::string& bytes, Rank from);
  Result<std::vector<uint64_t>> gather_sizes(uint64_t size_bytes, Rank root);
  Result<std::vector<std::string>> gather_short(ByteView mine, size_t longest, Rank root);
  Status connect_star(const LifelineOptions& options);
  Result<bool> all_on_one_host();
  Status find_bells(const Doorbell& own, std::vector<std::optional<Doorbell>>& bells);
  void end_messages();

  // Another rank has failed, which is why a message failed here. That rank reports it in agree().
  bool was_told() const {
    return std::any_of(posts_.begin(), posts_.end(), [](auto& post) { return post->was_told(); });
  }

  // Calls `move(at, size)` for each piece of a buffer that may be too long for one MPI call.
  template <typename Move>
  Status in_pieces(size_t size_bytes, Move move) {
    for (size_t at = 0; at < size_bytes;) {
      const size_t length = std::min(piece_bytes_, size_bytes - at);
      RETURN_IF_ERROR(move(at, static_cast<int>(length)));
      at += length;
    }
    return {};
  }

  Status failed_with(Error error) {
    failure_ = std::move(error);
    return *failure_;
  }

  MPI_Comm mpi_;
  size_t piece_bytes_;
  Rank rank_ = kFirstRank;
  uint32_t size_ = 1;
  pid_t process_ = getpid();
  bool owns_mpi_;                                // we initialized it
  std::shared_ptr<Lifeline> lifeline_;           // shared with the messages; null if switched off
  std::vector<std::shared_ptr<MpiPost>> posts_;  // shared with the Messages, which may live longer
  std::optional<Error> failure_;
  bool has_ended_ = false;
  bool mpi_is_whole_ = true;  // all ranks are alive and in step: MPI can be finalized
  Proposal all_;              // of the last meeting
  uint64_t small_[2] = {};    // a member: MPI may use it after a call that failed
  // Buffers of abandoned calls: MPI may still write to them.
  std::vector<std::string> given_up_;
};

}  // namespace millrace::comm
