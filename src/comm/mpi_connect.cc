// The lifetime of an MpiComm: how MPI and the lifeline start, how messages are opened, and in which
// order all of them end. Also the entry point of the library.
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/hash/siphash.h"
#include "base/io/file.h"
#include "base/system/single_copy.h"
#include "comm/mpi.h"
#include "comm/mpi_calls.h"
#include "comm/mpi_comm.h"
#include "comm/process_comm.h"

namespace millrace::comm {
namespace {

constexpr int kHighestMpiTag = (1 << 18) - 1;  // 15 bits of our tag, and 3 for the WireKind

constexpr int kBellAddressBytes = 96;  // four numbers, and a zero byte

std::atomic<MpiComm*> the_comm = nullptr;  // at most one per process

Status check_mpi_for_messages() {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (level < MPI_THREAD_MULTIPLE) {
    return fail(Errc::kUnsupported,
                "messages between ranks need MPI_THREAD_MULTIPLE, but MPI was initialized with a "
                "lower thread level; call MPI_Init_thread with MPI_THREAD_MULTIPLE (mpi4py does), "
                "or use an MPI that is built with thread support");
  }
  int* highest_tag = nullptr;
  int has_it = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&highest_tag), &has_it);
  if (has_it == 0 || *highest_tag < kHighestMpiTag) {
    return fail(Errc::kUnsupported,
                "messages between ranks need MPI tags up to {}, but this MPI has fewer; use "
                "another of its transports, or another MPI",
                kHighestMpiTag);
  }
  return {};
}

// Differs between two processes that cannot reach each other over the loopback.
uint64_t number_of_this_host() {
  std::string name(256, '\0');
  static_cast<void>(gethostname(name.data(), name.size() - 1));
  struct stat network = {};
  static_cast<void>(stat("/proc/self/ns/net", &network));
  name += std::to_string(network.st_ino);
  // Hosts may have the same name.
  const auto boot = read_file("/proc/sys/kernel/random/boot_id", 4096);
  if (boot.ok()) name += *boot;
  const SipHashTag tag = siphash(SipHashKey{}, bytes_of(name));
  uint64_t number;
  std::memcpy(&number, tag.data(), sizeof(number));
  return number;
}

}  // namespace

// ---- messages ----

Status MpiComm::find_bells(const Doorbell& own, std::vector<std::optional<Doorbell>>& bells) {
  std::string mine = own.address();
  assert(mine.size() < kBellAddressBytes);
  mine.resize(kBellAddressBytes, '\0');
  std::string all(kBellAddressBytes * size_, '\0');
  MPI_Request request = MPI_REQUEST_NULL;
  const int started = MPI_Iallgather(mine.data(), kBellAddressBytes, MPI_BYTE, all.data(),
                                     kBellAddressBytes, MPI_BYTE, mpi_, &request);
  if (const Status moved = wait(request, started, Pace::kPayload); !moved.ok()) {
    given_up_.push_back(std::move(mine));
    given_up_.push_back(std::move(all));
    return moved;
  }
  const char* wish = std::getenv("MILLRACE_DOORBELL");
  const bool is_off = wish != nullptr && std::strcmp(wish, "off") == 0;
  for (size_t at = 0; at < all.size(); at += kBellAddressBytes) {
    bells.push_back(is_off ? std::nullopt : Doorbell::find(&all[at]));
  }
  return {};
}

Result<std::unique_ptr<Messages>> MpiComm::open_messages() {
  auto bell = Doorbell::make();
  Status usable = check_mpi_for_messages();
  if (usable.ok() && !bell.ok()) usable = bell.error();
  RETURN_IF_ERROR(meet(Proposal(rank_, {.call = Collective::kOpenMessages}), usable));
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
  // No rank stops listening before all have sent their last message. The ranks are still in step
  // after a failure of a rank, but not after one of MPI.
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

// ---- start and end ----

// With many ranks on few cores, each collective call takes long. So there are as few as possible
// (docs/measurements.md).
Status MpiComm::connect_star(const LifelineOptions& options) {
  std::string invitation;  // stays empty if rank 0 cannot open its end
  Status opened;
  if (rank_ == kFirstRank) {
    auto lifeline = Lifeline::open(options);
    if (lifeline.ok()) {
      lifeline_ = *std::move(lifeline);
      invitation = lifeline_->invitation();
    } else {
      opened = lifeline.error();
    }
  }
  RETURN_IF_ERROR(broadcast(invitation, kFirstRank));
  if (invitation.empty()) return agree(opened);
  if (rank_ == kFirstRank) return agree(lifeline_->admit());
  auto joined = Lifeline::join(options, invitation);
  // Not in lifeline_ until all agree: wait() must not check it yet.
  RETURN_IF_ERROR(agree(joined.ok() ? Status() : joined.error()));
  lifeline_ = *std::move(joined);
  return {};
}

// Not MPI_Comm_split_type(), which is several collective calls.
Result<bool> MpiComm::all_on_one_host() {
  small_[0] = number_of_this_host();
  small_[1] = ~small_[0];
  MPI_Request request = MPI_REQUEST_NULL;
  const int started = MPI_Iallreduce(MPI_IN_PLACE, small_, 2, MPI_INT64_T, MPI_MIN, mpi_, &request);
  RETURN_IF_ERROR(wait(request, started, Pace::kMeeting));
  return small_[0] == ~small_[1];  // the lowest is the highest
}

Status MpiComm::connect_lifeline(const ConnectOptions& options) {
  const char* wish = std::getenv("MILLRACE_LIFELINE");
  if (size_ == 1 || (wish != nullptr && std::strcmp(wish, "off") == 0)) return {};
  const char* interface = std::getenv("MILLRACE_INTERFACE");
  ASSIGN_OR_RETURN(const bool one_host, all_on_one_host());
  const Status connected = connect_star({.rank = rank_,
                                         .size = size_,
                                         .one_host = one_host,
                                         .interface = interface == nullptr ? "" : interface,
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
  // A child of fork() may call MPI_Finalize at its exit, as mpi4py does.
  if (has_ended_ || getpid() != process_) return;
  has_ended_ = true;
  for (const auto& post : posts_) post->close();
  const bool has_failed = failure_.has_value();
  // Ranks that still wait in a call learn that this one has ended. After a failure all know
  // already. A rank that is lost from here on had finished its work.
  static_cast<void>(meet(Proposal(rank_, {.call = Collective::kEnd})).ok());
  // After a loss the ranks cannot meet; the lifeline ensures the order in which they end.
  if (has_failed && lifeline_ && lifeline_->lost() && !speaks()) lifeline_->await_speaker();
  end_messages();
  const bool all_leave = !mpi_is_whole_ ? false : lifeline_ ? lifeline_->leave() : true;
  // MPI_Finalize would wait for a dead rank. Without it the launcher rightly sees an abnormal end.
  if (mpi_is_whole_ && all_leave) {
    MPI_Comm_free(&mpi_);
    if (owns_mpi_) MPI_Finalize();
  }
  if (!failure_) failure_ = fail(Errc::kCancelled, "MPI has ended in this process");
}

MpiComm::~MpiComm() {
  end();
  the_comm = nullptr;
}

namespace {

// MPI_Finalize first deletes the attributes of MPI_COMM_SELF, while MPI may still be called. This
// is the last moment at which the thread of the messages can be stopped.
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

// Whether we initialized MPI. Python's mpi4py does it on import.
Result<bool> initialize_mpi(const Launch& launch) {
  int is_so = 0;
  MPI_Finalized(&is_so);
  if (is_so != 0) {
    return fail(Errc::kInvalidArgument,
                "MPI was finalized in this process and cannot be initialized again; connect to the "
                "other ranks only once, before MPI_Finalize");
  }
  MPI_Initialized(&is_so);
  if (is_so != 0) return false;
  // Before MPI_Init, which reads it. A program that initializes MPI itself must set it itself;
  // `millrace doctor` says so.
  if (!single_copy_is_allowed()) setenv(kSingleCopyVariable, kSingleCopyOff, 0);
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS) {
    return fail(Errc::kUnsupported, "MPI cannot be initialized (the launcher says {})", launch.by);
  }
  return true;
}

// "Open MPI v4.1.4 (/usr/lib/libmpi.so.40)". Drops what MPIs print after a comma or a line break.
std::string describe() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string version(text, std::strcspn(text, ",\n"));
  std::replace(version.begin(), version.end(), '\t', ' ');
  Dl_info info{};
  dladdr(reinterpret_cast<const void*>(&MPI_Get_library_version), &info);
  return fmt::format("{} ({})", version, info.dli_fname);
}

Result<std::unique_ptr<Comm>> connect_by_mpi(const ConnectOptions& options, const Launch& launch) {
  static const pid_t process = getpid();  // in a child of fork(), still that of its parent
  if (getpid() != process) return forked_error(process);
  if (the_comm != nullptr) {
    return fail(Errc::kInvalidArgument, "this process is already connected to the other ranks");
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
                "the launcher says {}, but MPI found {} rank(s): the launcher does not belong to "
                "{}; use the mpirun of that MPI, srun --mpi=pmix, or MILLRACE_COMM=single",
                launch.by, comm->size(), describe());
  }
  RETURN_IF_ERROR(comm->connect_lifeline(options));
  return std::unique_ptr<Comm>(std::move(comm));
}

}  // namespace
}  // namespace millrace::comm

extern "C" __attribute__((visibility("default"))) const millrace::comm::MpiEntry millrace_mpi_entry;
const millrace::comm::MpiEntry millrace_mpi_entry = {.version = MILLRACE_VERSION,
                                                     .connect = millrace::comm::connect_by_mpi,
                                                     .describe = millrace::comm::describe};
