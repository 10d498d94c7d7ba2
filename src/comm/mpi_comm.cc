// The collective calls of MpiComm: how ranks meet and move bytes.
#include "comm/mpi_comm.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/system/clock.h"
#include "comm/mpi_calls.h"

namespace millrace::comm {
namespace {

using namespace std::chrono_literals;

constexpr int kGatherTag = 1;
// What a rank gets up to this length needs no second meeting: it has this much memory, or cannot
// even fail in order.
constexpr uint64_t kShortBytes = uint64_t{256} << 10;
// MPI may notice a dead rank before the lifeline does: how long to wait for the latter.
constexpr auto kNewsTime = 500ms;

// Integers are folded as signed: MPICH 4.0.2 computes the minimum and maximum of MPI_UINT64_T as if
// it were signed. A sum has the same bits either way.
MPI_Datatype type_of(const Values& values) {
  return std::holds_alternative<std::span<double>>(values) ? MPI_DOUBLE : MPI_INT64_T;
}

// Maps unsigned to signed numbers in the same order, and back.
void flip_signs(std::span<std::byte> words) {
  for (size_t at = 0; at + sizeof(uint64_t) <= words.size(); at += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, &words[at], sizeof(word));
    word ^= uint64_t{1} << 63;
    std::memcpy(&words[at], &word, sizeof(word));
  }
}

MPI_Op operation_of(Fold fold) {
  switch (fold) {
    case Fold::kSum:
      return MPI_SUM;
    case Fold::kMin:
      return MPI_MIN;
    case Fold::kMax:
      break;
  }
  return MPI_MAX;
}

std::span<std::byte> bytes_in(const Values& values) {
  return std::visit([](auto span) { return std::as_writable_bytes(span); }, values);
}

void pause_after(uint32_t round, Pace pace) {
  if (pace == Pace::kPayload || round < 200) {
    if (round % 16 == 15) sched_yield();
    return;
  }
  const timespec pause = {.tv_sec = 0, .tv_nsec = round < 2000 ? 50'000 : 1'000'000};
  nanosleep(&pause, nullptr);
}

}  // namespace

// ---- waiting ----

Status MpiComm::wait(MPI_Request& request, int started, Pace pace) {
  int code = started;
  int done = 0;
  for (uint32_t round = 0; code == MPI_SUCCESS; ++round) {
    code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) break;
    if (done != 0) return {};
    if (lifeline_ && lifeline_->lost()) break;
    pause_after(round, pace);
  }
  mpi_is_whole_ = false;
  const auto until = monotonic_now() + kNewsTime;
  while (lifeline_ && !lifeline_->lost() && monotonic_now() < until) {
    std::this_thread::sleep_for(1ms);
  }
  if (lifeline_) {
    if (const auto lost = lifeline_->take_lost()) return failed_with(loss_error(*lost));
  }
  return failed_with(named(fail(Errc::kIo, "MPI failed: {}", mpi_text(code)), rank_, size_));
}

// ---- meeting ----

Status MpiComm::meet(Proposal proposal, const Status& mine) {
  if (failure_) return *failure_;
  if (!mine.ok()) proposal.has_failed();
  all_ = proposal;
  const auto words = std::as_writable_bytes(std::span(all_.words()));
  flip_signs(words);
  MPI_Request request = MPI_REQUEST_NULL;
  const int started = MPI_Iallreduce(MPI_IN_PLACE, words.data(), Proposal::kWordCount, MPI_INT64_T,
                                     MPI_MIN, mpi_, &request);
  RETURN_IF_ERROR(wait(request, started, Pace::kMeeting));
  flip_signs(words);
  if (const auto failed = all_.failed_rank()) return tell_failure(*failed, mine);
  if (const Status checked = all_.check(size_); !checked.ok()) return failed_with(checked.error());
  return {};
}

Status MpiComm::tell_failure(Rank failed, const Status& mine) {
  std::string message;
  if (failed == rank_) {
    message = mine.error().message();
    small_[0] = message.size();
    small_[1] = static_cast<uint64_t>(mine.error().code());
  }
  MPI_Request request = MPI_REQUEST_NULL;
  const int started = MPI_Ibcast(small_, 2, MPI_UINT64_T, root_number(failed), mpi_, &request);
  RETURN_IF_ERROR(wait(request, started, Pace::kPayload));
  message.resize(small_[0]);
  RETURN_IF_ERROR(broadcast_pieces(message, failed));
  return failed_with(named(Error(static_cast<Errc>(small_[1]), message), failed, size_));
}

// ---- moving bytes ----

Status MpiComm::broadcast_pieces(std::string& bytes, Rank root) {
  const Status moved = in_pieces(bytes.size(), [&](size_t at, int length) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int started =
        MPI_Ibcast(bytes.data() + at, length, MPI_BYTE, root_number(root), mpi_, &request);
    return wait(request, started, Pace::kPayload);
  });
  if (!moved.ok()) given_up_.push_back(std::move(bytes));
  return moved;
}

Status MpiComm::broadcast(std::string& bytes, Rank root) {
  if (const Status checked = check_root(root, size_); !checked.ok()) return agree(checked);
  const CollectiveShape shape = {.call = Collective::kBroadcast, .root = root};
  Proposal proposal(rank_, shape);
  if (rank_ == root) proposal.has_bytes(bytes.size());
  RETURN_IF_ERROR(meet(proposal));
  // Meet again: a rank that lacks the memory cannot take part in what follows.
  std::string received;
  Status room;
  const uint64_t size_bytes = all_.size_bytes();
  if (rank_ != root) room = make_room(received, size_bytes);
  if (size_bytes > kShortBytes) RETURN_IF_ERROR(meet(Proposal(rank_, shape), room));
  RETURN_IF_ERROR(broadcast_pieces(rank_ == root ? bytes : received, root));
  if (rank_ != root) bytes = std::move(received);
  return {};
}

// Uses a buffer of our own, so that a failed call leaves `values` unchanged and MPI does not write
// to the caller's memory.
Status MpiComm::reduce_as(const CollectiveShape& shape, Values values) {
  const std::span<std::byte> target = bytes_in(values);
  std::string folded;
  const Status room = make_room(folded, target.size());
  if (room.ok() && !target.empty()) std::memcpy(folded.data(), target.data(), target.size());
  const bool is_flipped = shape.fold != Fold::kSum && !shape.floating_point;
  if (is_flipped) flip_signs(std::as_writable_bytes(std::span(folded)));
  RETURN_IF_ERROR(meet(Proposal(rank_, shape), room));
  const Status moved = in_pieces(target.size(), [&](size_t at, int length) {
    return reduce_piece(shape, type_of(values), reinterpret_cast<std::byte*>(folded.data()) + at,
                        length / static_cast<int>(sizeof(uint64_t)));
  });
  if (!moved.ok()) {
    given_up_.push_back(std::move(folded));
    return moved;
  }
  const bool gets_it = shape.call == Collective::kReduceToAll || rank_ == shape.root;
  if (!gets_it || target.empty()) return {};
  std::memcpy(target.data(), folded.data(), target.size());
  if (is_flipped) flip_signs(target);
  return {};
}

Status MpiComm::reduce_piece(const CollectiveShape& shape, MPI_Datatype type, std::byte* at,
                             int count) {
  MPI_Request request = MPI_REQUEST_NULL;
  const MPI_Op operation = operation_of(shape.fold);
  int started = MPI_SUCCESS;
  if (shape.call == Collective::kReduceToAll) {
    started = MPI_Iallreduce(MPI_IN_PLACE, at, count, type, operation, mpi_, &request);
  } else {
    const bool is_root = rank_ == shape.root;
    started = MPI_Ireduce(is_root ? MPI_IN_PLACE : at, is_root ? at : nullptr, count, type,
                          operation, root_number(shape.root), mpi_, &request);
  }
  return wait(request, started, Pace::kPayload);
}

Result<std::vector<uint64_t>> MpiComm::gather_sizes(uint64_t size_bytes, Rank root) {
  small_[0] = size_bytes;
  std::string sizes(rank_ == root ? size_ * sizeof(uint64_t) : 0, '\0');
  MPI_Request request = MPI_REQUEST_NULL;
  const int started = MPI_Igather(small_, 1, MPI_UINT64_T, sizes.data(), 1, MPI_UINT64_T,
                                  root_number(root), mpi_, &request);
  if (const Status moved = wait(request, started, Pace::kPayload); !moved.ok()) {
    given_up_.push_back(std::move(sizes));
    return moved.error();
  }
  std::vector<uint64_t> numbers(sizes.size() / sizeof(uint64_t));
  if (!sizes.empty()) std::memcpy(numbers.data(), sizes.data(), sizes.size());
  return numbers;
}

Status MpiComm::send_pieces(ByteView bytes, Rank to) {
  return in_pieces(bytes.size(), [&](size_t at, int length) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int started =
        MPI_Isend(bytes.data() + at, length, MPI_BYTE, root_number(to), kGatherTag, mpi_, &request);
    return wait(request, started, Pace::kPayload);
  });
}

Status MpiComm::receive_pieces(std::string& bytes, Rank from) {
  const Status moved = in_pieces(bytes.size(), [&](size_t at, int length) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int started = MPI_Irecv(bytes.data() + at, length, MPI_BYTE, root_number(from),
                                  kGatherTag, mpi_, &request);
    return wait(request, started, Pace::kPayload);
  });
  if (!moved.ok()) given_up_.push_back(std::move(bytes));
  return moved;
}

// In one call: every rank sends the length of its bytes, the bytes, and nothing up to `longest`.
Result<std::vector<std::string>> MpiComm::gather_short(ByteView mine, size_t longest, Rank root) {
  const uint64_t own_bytes = mine.size();
  const size_t stride = sizeof(own_bytes) + longest;
  std::string packed(stride, '\0');
  std::memcpy(packed.data(), &own_bytes, sizeof(own_bytes));
  std::copy_n(text_of(mine).data(), mine.size(), packed.data() + sizeof(own_bytes));
  std::string all(rank_ == root ? size_ * stride : 0, '\0');
  MPI_Request request = MPI_REQUEST_NULL;
  const int count = static_cast<int>(stride);
  const int started = MPI_Igather(packed.data(), count, MPI_BYTE, all.data(), count, MPI_BYTE,
                                  root_number(root), mpi_, &request);
  if (const Status moved = wait(request, started, Pace::kPayload); !moved.ok()) {
    given_up_.push_back(std::move(packed));
    given_up_.push_back(std::move(all));
    return moved.error();
  }
  std::vector<std::string> gathered;
  for (size_t at = 0; at < all.size(); at += stride) {
    uint64_t size_bytes;
    std::memcpy(&size_bytes, &all[at], sizeof(size_bytes));
    gathered.push_back(all.substr(at + sizeof(size_bytes), size_bytes));
  }
  return gathered;
}

Result<std::vector<std::string>> MpiComm::gather(ByteView mine, Rank root) {
  if (const Status checked = check_root(root, size_); !checked.ok()) {
    RETURN_IF_ERROR(agree(checked));
  }
  const CollectiveShape shape = {.call = Collective::kGather, .root = root};
  Proposal proposal(rank_, shape);
  proposal.has_bytes(~mine.size());  // the lowest complement is that of the longest
  RETURN_IF_ERROR(meet(proposal));
  const uint64_t longest = ~all_.size_bytes();
  if (longest <= kShortBytes / size_) return gather_short(mine, longest, root);
  ASSIGN_OR_RETURN(const std::vector<uint64_t> sizes, gather_sizes(mine.size(), root));
  std::vector<std::string> gathered(sizes.size());
  Status room;
  for (size_t i = 0; i < sizes.size() && room.ok(); ++i) room = make_room(gathered[i], sizes[i]);
  RETURN_IF_ERROR(meet(Proposal(rank_, shape), room));
  if (rank_ != root) {
    RETURN_IF_ERROR(send_pieces(mine, root));
    return gathered;
  }
  for (uint32_t from = 0; from < size_; ++from) {
    if (static_cast<Rank>(from) == root) {
      gathered[from] = text_of(mine);
    } else {
      RETURN_IF_ERROR(receive_pieces(gathered[from], static_cast<Rank>(from)));
    }
  }
  return gathered;
}

}  // namespace millrace::comm
