// The Comm over MPI. With mpi_messages.cc it is the library libmillrace_mpi.so; no other file knows
// an mpi.h.
//
// Every call of MPI that waits for another rank is a non-blocking one, and the loop that waits for
// it looks at the lifeline too. MPI itself tells nobody that a rank has died (over shared memory it
// cannot know), and an MPI_Reduce that waits for a dead rank waits for ever.
#include <mpi.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "comm/lifeline.h"
#include "comm/messages.h"
#include "comm/mpi.h"
#include "comm/mpi_calls.h"
#include "comm/mpi_messages.h"
#include "comm/proposal.h"

namespace millrace::comm {
namespace {

using namespace std::chrono_literals;

constexpr int kGatherTag = 1;
constexpr int kHighestMpiTag = (1 << 18) - 1;  // ours have 15 bits, and 3 for what they are about

class MpiComm;
std::atomic<MpiComm*> the_comm = nullptr;  // a process has one at a time
// The connection of a dead rank fails in MPI before or after its lifeline does.
constexpr auto kNewsTime = 500ms;

MPI_Datatype type_of(const Values& values) {
  return std::holds_alternative<std::span<double>>(values) ? MPI_DOUBLE : MPI_UINT64_T;
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

// How a rank waits. Others may need the core: with more ranks than cores, one that spins keeps back
// the one it waits for.
enum class Pace {
  kPayload,  // all ranks are here, and bytes move only while MPI is called
  kMeeting,  // another may come in a minute
};

void pause_after(uint32_t round, Pace pace) {
  if (pace == Pace::kPayload || round < 200) {
    if (round % 16 == 15) sched_yield();
    return;
  }
  const timespec pause = {.tv_sec = 0, .tv_nsec = round < 2000 ? 50'000 : 1'000'000};
  nanosleep(&pause, nullptr);
}

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

  ~MpiComm() override {
    end();
    the_comm = nullptr;
  }

  // In step with the others. Every later call fails.
  void end();

  Status connect_lifeline(const ConnectOptions& options);

  Rank rank() const override { return rank_; }
  uint32_t size() const override { return size_; }

  bool speaks() const override {
    const auto lost = lifeline_ ? lifeline_->lost() : std::nullopt;
    return rank_ == (lost && lost->rank == kFirstRank ? Rank{1} : kFirstRank);
  }

  Status barrier() override { return meet(Proposal(rank_, {.call = Call::kBarrier})); }

  Status broadcast(std::string& bytes, Rank root) override;

  Status reduce(Values values, Fold fold, Rank root) override {
    if (const Status checked = check_root(root, size_); !checked.ok()) return agree(checked);
    return reduce_as(reduction(Call::kReduce, values, fold, root), values);
  }

  Status reduce_to_all(Values values, Fold fold) override {
    return reduce_as(reduction(Call::kReduceToAll, values, fold, kFirstRank), values);
  }

  Result<std::vector<std::string>> gather(ByteView mine, Rank root) override;

  Status agree(const Status& mine) override {
    const bool is_news = !mine.ok() && !failure_ && !was_told();
    // First, since who waits for a message of this rank does not come to the meeting.
    for (const auto& post : posts_) {
      if (is_news) post->tell_failure(mine.error());
    }
    return meet(Proposal(rank_, {.call = Call::kAgree}), is_news ? mine : Status());
  }

  Result<std::unique_ptr<Messages>> open_messages() override;

 private:
  int root_number(Rank root) const { return static_cast<int>(index_of(root)); }

  Status meet(Proposal proposal, const Status& mine = {});
  Status tell_failure(Rank failed, const Status& mine);
  Status wait(MPI_Request& request, int started, Pace pace);
  Status reduce_as(const CallShape& shape, Values values);
  Status reduce_piece(const CallShape& shape, MPI_Datatype type, std::byte* at, int count);
  Status broadcast_pieces(std::string& bytes, Rank root);
  Status send_pieces(ByteView bytes, Rank to);
  Status receive_pieces(std::string& bytes, Rank from);
  Result<std::vector<uint64_t>> gather_sizes(uint64_t size_bytes, Rank root);
  Status connect_star(const LifelineOptions& options);
  Status find_bells(const Doorbell& own, std::vector<std::optional<Doorbell>>& bells);
  void end_messages();

  // That a message failed because another rank did is that one's to tell: it is in agree().
  bool was_told() const {
    return std::any_of(posts_.begin(), posts_.end(), [](auto& post) { return post->was_told(); });
  }

  // Calls `move(at, size)` for each piece of what may be too long for one call.
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
  bool owns_mpi_;                                // it was not initialized when we came
  std::shared_ptr<Lifeline> lifeline_;           // shared with the messages; null: switched off
  std::vector<std::shared_ptr<MpiPost>> posts_;  // shared with the Messages, which may go later
  std::optional<Error> failure_;
  bool has_ended_ = false;
  bool mpi_is_whole_ = true;  // all ranks are in it, in step: it can be finalized
  Proposal all_;              // of the last meeting
  uint64_t small_[2] = {};  // what a call of MPI reads and writes must outlive the call that fails
  // Buffers of calls that were given up: MPI may still write to them.
  std::vector<std::string> given_up_;
};

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
  MPI_Request request = MPI_REQUEST_NULL;
  const int started = MPI_Iallreduce(MPI_IN_PLACE, all_.words().data(), Proposal::kWordCount,
                                     MPI_UINT64_T, MPI_MIN, mpi_, &request);
  RETURN_IF_ERROR(wait(request, started, Pace::kMeeting));
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
  const CallShape shape = {.call = Call::kBroadcast, .root = root};
  Proposal proposal(rank_, shape);
  if (rank_ == root) proposal.has_bytes(bytes.size());
  RETURN_IF_ERROR(meet(proposal));
  // Once more, since a rank without the memory cannot take part in what follows.
  std::string received;
  Status room;
  if (rank_ != root) room = make_room(received, all_.size_bytes());
  RETURN_IF_ERROR(meet(Proposal(rank_, shape), room));
  RETURN_IF_ERROR(broadcast_pieces(rank_ == root ? bytes : received, root));
  if (rank_ != root) bytes = std::move(received);
  return {};
}

// The numbers of a failed call stay as they were, and MPI writes to a buffer that is ours.
Status MpiComm::reduce_as(const CallShape& shape, Values values) {
  const std::span<std::byte> target = bytes_in(values);
  std::string folded;
  const Status room = make_room(folded, target.size());
  if (room.ok() && !target.empty()) std::memcpy(folded.data(), target.data(), target.size());
  RETURN_IF_ERROR(meet(Proposal(rank_, shape), room));
  const Status moved = in_pieces(target.size(), [&](size_t at, int length) {
    return reduce_piece(shape, type_of(values), reinterpret_cast<std::byte*>(folded.data()) + at,
                        length / static_cast<int>(sizeof(uint64_t)));
  });
  if (!moved.ok()) {
    given_up_.push_back(std::move(folded));
    return moved;
  }
  const bool gets_it = shape.call == Call::kReduceToAll || rank_ == shape.root;
  if (gets_it && !target.empty()) std::memcpy(target.data(), folded.data(), target.size());
  return {};
}

Status MpiComm::reduce_piece(const CallShape& shape, MPI_Datatype type, std::byte* at, int count) {
  MPI_Request request = MPI_REQUEST_NULL;
  const MPI_Op operation = operation_of(shape.fold);
  int started = MPI_SUCCESS;
  if (shape.call == Call::kReduceToAll) {
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

Result<std::vector<std::string>> MpiComm::gather(ByteView mine, Rank root) {
  if (const Status checked = check_root(root, size_); !checked.ok()) {
    RETURN_IF_ERROR(agree(checked));
  }
  const CallShape shape = {.call = Call::kGather, .root = root};
  RETURN_IF_ERROR(meet(Proposal(rank_, shape)));
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

// ---- messages ----

Status check_mpi_for_messages() {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (level < MPI_THREAD_MULTIPLE) {
    return fail(Errc::kUnsupported,
                "messages between ranks need an MPI that several threads may call, and this one "
                "was initialized for less; initialize it by MPI_Init_thread with "
                "MPI_THREAD_MULTIPLE (mpi4py does), or use an MPI that is built with threads");
  }
  int* highest_tag = nullptr;
  int has_it = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&highest_tag), &has_it);
  if (has_it == 0 || *highest_tag < kHighestMpiTag) {
    return fail(Errc::kUnsupported,
                "messages between ranks need MPI tags up to {}, and this MPI has less; use another "
                "transport of it, or another MPI",
                kHighestMpiTag);
  }
  return {};
}

Status MpiComm::find_bells(const Doorbell& own, std::vector<std::optional<Doorbell>>& bells) {
  ASSIGN_OR_RETURN(const auto addresses, gather_to_all(bytes_of(own.address())));
  const char* wish = std::getenv("MILLRACE_DOORBELL");
  const bool is_off = wish != nullptr && std::strcmp(wish, "off") == 0;
  for (const std::string& address : addresses) {
    bells.push_back(is_off ? std::nullopt : Doorbell::find(address));
  }
  return {};
}

Result<std::unique_ptr<Messages>> MpiComm::open_messages() {
  auto bell = Doorbell::make();
  Status usable = check_mpi_for_messages();
  if (usable.ok() && !bell.ok()) usable = bell.error();
  RETURN_IF_ERROR(meet(Proposal(rank_, {.call = Call::kOpenMessages}), usable));
  MpiPostOptions options = {.rank = rank_,
                            .size = size_,
                            .piece_bytes = piece_bytes_,
                            .lifeline = lifeline_,
                            .bells = {}};
  RETURN_IF_ERROR(find_bells(*bell, options.bells));
  MPI_Request request = MPI_REQUEST_NULL;
  const int started = MPI_Comm_idup(mpi_, &options.mpi, &request);
  RETURN_IF_ERROR(wait(request, started, Pace::kPayload));
  const auto post = std::make_shared<MpiPost>(std::move(options), *std::move(bell));
  RETURN_IF_ERROR(agree(post->start()));
  posts_.push_back(post);
  return mpi_messages(post);
}

void MpiComm::end_messages() {
  // All have said what they had to say before any stops listening. A failure of the ranks, as
  // against one of MPI, leaves them in step.
  if (!posts_.empty() && mpi_is_whole_) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int started = MPI_Ibarrier(mpi_, &request);
    static_cast<void>(wait(request, started, Pace::kMeeting).ok());
  }
  for (const auto& post : posts_) {
    post->stop();
    MPI_Comm of_post = post->options().mpi;
    if (mpi_is_whole_) MPI_Comm_free(&of_post);
  }
}

// ---- the beginning and the end ----

bool all_on_one_host(MPI_Comm mpi, uint32_t size) {
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(mpi, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  int host_size = 0;
  MPI_Comm_size(host, &host_size);
  MPI_Comm_free(&host);
  return static_cast<uint32_t>(host_size) == size;
}

Status MpiComm::connect_star(const LifelineOptions& options) {
  std::string invitation;
  if (rank_ == kFirstRank) {
    auto opened = Lifeline::open(options);
    RETURN_IF_ERROR(agree(opened.ok() ? Status() : opened.error()));
    lifeline_ = *std::move(opened);
    invitation = lifeline_->invitation();
  } else {
    RETURN_IF_ERROR(agree({}));
  }
  RETURN_IF_ERROR(broadcast(invitation, kFirstRank));
  if (rank_ == kFirstRank) return agree(lifeline_->admit());
  auto joined = Lifeline::join(options, invitation);
  // Kept aside until all agree: what waits does not yet look at it.
  RETURN_IF_ERROR(agree(joined.ok() ? Status() : joined.error()));
  lifeline_ = *std::move(joined);
  return {};
}

Status MpiComm::connect_lifeline(const ConnectOptions& options) {
  const char* wish = std::getenv("MILLRACE_LIFELINE");
  if (size_ == 1 || (wish != nullptr && std::strcmp(wish, "off") == 0)) return {};
  const Status connected = connect_star({.rank = rank_,
                                         .size = size_,
                                         .one_host = all_on_one_host(mpi_, size_),
                                         .takes_sigterm = true,
                                         .on_loss = options.on_loss});
  if (connected.ok()) {
    lifeline_->start_telling();
  } else {
    lifeline_.reset();
  }
  return connected;
}

void MpiComm::end() {
  if (has_ended_) return;
  has_ended_ = true;
  for (const auto& post : posts_) post->close();
  const bool has_failed = failure_.has_value();
  // Whoever still waits in a call learns that this rank has ended. After a failure all know it
  // already. A rank that is lost from here on had done its work.
  static_cast<void>(meet(Proposal(rank_, {.call = Call::kEnd})).ok());
  // After a loss ranks cannot meet: the lifeline keeps the order in which they go.
  if (has_failed && lifeline_ && lifeline_->lost() && !speaks()) lifeline_->await_speaker();
  end_messages();
  const bool all_leave = !mpi_is_whole_ ? false : lifeline_ ? lifeline_->leave() : true;
  // With a dead rank MPI_Finalize would wait for it. Ending without it is an abnormal end to the
  // launcher, which is what it is.
  if (mpi_is_whole_ && all_leave) {
    MPI_Comm_free(&mpi_);
    if (owns_mpi_) MPI_Finalize();
  }
  if (!failure_) failure_ = fail(Errc::kCancelled, "MPI has ended in this process");
}

// MPI_Finalize deletes the attributes of MPI_COMM_SELF before all else, and may still be called
// then: the last moment at which the thread of the messages can be stopped.
int on_finalize(MPI_Comm, int, void*, void*) {
  if (MpiComm* const comm = the_comm) comm->end();
  return MPI_SUCCESS;
}

void watch_for_finalize() {
  static bool watches = false;
  if (std::exchange(watches, true)) return;
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalize, &key, nullptr);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
}

// Whether this process was the one to initialize MPI. Python's mpi4py does it when it is imported.
Result<bool> initialize_mpi(const Launch& launch) {
  int is_so = 0;
  MPI_Finalized(&is_so);
  if (is_so != 0) {
    return fail(Errc::kInvalidArgument,
                "MPI was finalized in this process, and cannot begin again: a process connects to "
                "the other ranks once, before MPI_Finalize");
  }
  MPI_Initialized(&is_so);
  if (is_so != 0) return false;
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS) {
    return fail(Errc::kUnsupported, "MPI cannot be initialized (the launcher says {})", launch.by);
  }
  return true;
}

Result<std::unique_ptr<Comm>> connect_by_mpi(const ConnectOptions& options, const Launch& launch) {
  if (the_comm != nullptr) {
    return fail(Errc::kInvalidArgument, "a process connects to the other ranks once");
  }
  ASSIGN_OR_RETURN(const bool owns_mpi, initialize_mpi(launch));
  if (owns_mpi) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm mpi = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &mpi);
  MPI_Comm_set_errhandler(mpi, MPI_ERRORS_RETURN);
  if (!owns_mpi) watch_for_finalize();
  auto comm =
      std::make_unique<MpiComm>(mpi, std::max<size_t>(options.piece_bytes / 8 * 8, 8), owns_mpi);
  the_comm = comm.get();
  if (launch.size != 0 && launch.size != comm->size()) {
    return fail(Errc::kUnsupported,
                "the launcher says {}, but MPI found {} rank(s): the launcher and {} do not know "
                "each other; use the mpirun of that MPI, srun --mpi=pmix, or MILLRACE_COMM=single",
                launch.by, comm->size(), "the MPI that Millrace was built with");
  }
  RETURN_IF_ERROR(comm->connect_lifeline(options));
  return std::unique_ptr<Comm>(std::move(comm));
}

}  // namespace
}  // namespace millrace::comm

extern "C" __attribute__((visibility("default"))) const millrace::comm::MpiEntry millrace_mpi_entry;
const millrace::comm::MpiEntry millrace_mpi_entry = {.version = MILLRACE_VERSION,
                                                     .connect = millrace::comm::connect_by_mpi};
