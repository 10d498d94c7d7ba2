#include "comm/lifeline/lifeline.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <thread>

#include "base/concurrency/mutex.h"
#include "base/concurrency/thread.h"
#include "base/system/clock.h"
#include "comm/lifeline/greeting.h"
#include "comm/sigterm.h"

namespace millrace::comm {
namespace {

using namespace std::chrono_literals;
using wire::LifelineKind;
using wire::LifelineMessage;

constexpr auto kSigtermDelay = 300ms;            // news of a loss may come after the signal
constexpr auto kSigtermDelayAfterLoss = 3000ms;  // to report it and end
constexpr auto kTellDelayAfterSigterm = 50ms;    // SIGKILL follows: do not wait for take_lost()
constexpr Deadline kNever = Deadline::max();

// The other end of one connection.
struct Peer {
  GreetedRank rank;
  std::string inbox = {};
  bool open = true;
  bool said_bye = false;
};

class TcpLifeline : public Lifeline {
 public:
  TcpLifeline(const LifelineOptions& options, const JobKey& key)
      : options_(options), own_(own_name(options.rank)), key_(key) {}

  ~TcpLifeline() override {
    if (watch_.joinable()) {
      static_cast<void>(!write(wake_out_.fd(), "s", 1));
      watch_.join();
    }
  }

  Status listen() {
    ASSIGN_OR_RETURN(listener_, listen_for_ranks({.only_this_host = options_.one_host,
                                                  .interface = options_.interface}));
    return {};
  }

  std::string invitation() const override {
    return Invitation{
        .hub = own_, .key = key_, .port = listener_.port, .addresses = listener_.addresses}
        .text();
  }

  Status admit() override;
  Status join_at(const Invitation& invitation);

  void start_telling() override { telling_ = true; }

  std::optional<LostName> lost() const override {
    if (!is_lost_) return std::nullopt;
    const MutexLock lock(mutex_);
    return lost_;
  }

  std::optional<LostName> take_lost() override {
    const auto lost_rank = lost();
    // Waits while on_loss runs: otherwise the loss would be reported twice.
    const MutexLock lock(tell_mutex_);
    if (lost_rank) taken_ = true;
    return lost_rank;
  }

  void await_speaker() override {
    const Deadline until = monotonic_now() + options_.speaking_time;
    while (!speaker_gone_ && monotonic_now() < until) std::this_thread::sleep_for(5ms);
  }

  bool leave() override {
    if (!watch_.joinable()) return !is_lost_;
    static_cast<void>(!write(wake_out_.fd(), "b", 1));
    watch_.join();
    return !is_lost_;
  }

 private:
  bool is_hub() const { return options_.rank == kFirstRank; }

  GreetingOptions greeting() const {
    return {.own = own_,
            .key = key_,
            .world_size = options_.size,
            .patience = options_.greeting_patience};
  }

  Status start_watching();
  void watch();
  bool read_wakes();
  void read_peer(Peer& peer);
  void take_message(Peer& peer, const LifelineMessage& message);
  void lose(const LostName& name);
  void say_bye();
  bool all_said_bye() const;
  void act_on_time();
  // The lowest rank that is left. REQUIRES: a rank is lost.
  Rank speaker() const { return lost_->rank == kFirstRank ? Rank{1} : kFirstRank; }
  bool speaks() const { return options_.rank == speaker(); }
  void go_missing(const LostName& name);
  void hurry_to_tell();
  int poll_timeout_ms() const;
  void say(Peer& peer, LifelineKind kind, const RankName& about);

  LifelineOptions options_;
  RankName own_;
  JobKey key_;
  Listener listener_;        // rank 0, until all have connected
  std::vector<Peer> peers_;  // rank 0: all others; others: rank 0
  OwnFile wake_in_;
  OwnFile wake_out_;
  std::optional<SigtermHeld> sigterm_;
  std::thread watch_;

  mutable Mutex mutex_;
  // Set once, under the lock, by the watching thread, which reads it without.
  std::optional<LostName> lost_;
  std::atomic<bool> is_lost_ = false;  // the same, cheap to check in a loop
  std::atomic<bool> speaker_gone_ = false;
  Mutex tell_mutex_;
  bool taken_ GUARDED_BY(tell_mutex_) = false;
  std::atomic<bool> telling_ = false;

  // Used only by the watching thread.
  bool leaving_ = false;
  bool bye_sent_ = false;
  Deadline tell_at_ = kNever;
  Deadline sigterm_at_ = kNever;
};

void make_room_for_descriptors(uint32_t count) {
  rlimit limit{};
  const rlim_t wanted = rlim_t{count} + 256;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));
}

Status TcpLifeline::admit() {
  make_room_for_descriptors(options_.size);
  const Deadline deadline = monotonic_now() + options_.patience;
  ASSIGN_OR_RETURN(auto greeted, admit_ranks(listener_, greeting(), deadline));
  for (GreetedRank& rank : greeted) peers_.push_back({.rank = std::move(rank)});
  listener_ = {};
  return start_watching();
}

Status TcpLifeline::join_at(const Invitation& invitation) {
  const Deadline deadline = monotonic_now() + options_.patience * 3 / 4;
  ASSIGN_OR_RETURN(GreetedRank hub, reach_hub(invitation, greeting(), deadline));
  peers_.push_back({.rank = std::move(hub)});
  return start_watching();
}

Status TcpLifeline::start_watching() {
  {
    const NoFork no_fork;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return fail_os(errno, "cannot create a pipe");
    wake_in_ = OwnFile(ends[0], no_fork);
    wake_out_ = OwnFile(ends[1], no_fork);
  }
  if (options_.takes_sigterm) sigterm_.emplace(wake_out_.fd());
  ASSIGN_OR_RETURN(watch_, start_thread("mr-lifeline", [this] { watch(); }));
  return {};
}

void TcpLifeline::watch() {
  std::vector<pollfd> watched;
  while (true) {
    watched.assign(1, {.fd = wake_in_.fd(), .events = POLLIN, .revents = 0});
    for (const Peer& peer : peers_) {
      const int fd = peer.open ? peer.rank.socket.fd() : -1;
      watched.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    }
    if (poll(watched.data(), watched.size(), poll_timeout_ms()) > 0) {
      for (size_t i = 0; i < peers_.size(); ++i) {
        if (watched[i + 1].revents != 0) read_peer(peers_[i]);
      }
      if (watched[0].revents != 0 && !read_wakes()) return;
    }
    if (leaving_) {
      // Rank 0 answers when all have said bye: no rank ends while another may still be lost.
      if (!bye_sent_ && (!is_hub() || all_said_bye())) say_bye();
      if (is_lost_ || (bye_sent_ && all_said_bye())) return;
    }
    act_on_time();
  }
}

// Returns false to stop at once.
bool TcpLifeline::read_wakes() {
  char wakes[16];
  const ssize_t count = read(wake_in_.fd(), wakes, sizeof(wakes));
  for (ssize_t i = 0; i < count; ++i) {
    if (wakes[i] == 's') return false;
    if (wakes[i] == 'b') leaving_ = true;
    if (wakes[i] == 't' && sigterm_at_ == kNever) {
      sigterm_at_ = monotonic_now() + (is_lost_ ? kSigtermDelayAfterLoss : kSigtermDelay);
      hurry_to_tell();
    }
  }
  return true;
}

void TcpLifeline::read_peer(Peer& peer) {
  constexpr size_t kMessageBytes = sizeof(LifelineMessage);
  while (peer.open) {
    const Status received = receive_some(peer.rank.socket, peer.inbox, kMessageBytes);
    if (!received.ok()) {
      peer.open = false;
      const bool is_silent = received.error().code() == Errc::kTimeout;
      if (!peer.said_bye) go_missing({peer.rank.name, is_silent});
      return;
    }
    if (peer.inbox.size() < kMessageBytes) return;
    const auto message = peer.rank.channel.check(bytes_of(peer.inbox), options_.size);
    peer.inbox.clear();
    // After an invalid message, nothing on this connection can be trusted.
    if (!message.ok()) {
      peer.open = false;
      return go_missing({peer.rank.name});
    }
    take_message(peer, *message);
  }
}

void TcpLifeline::take_message(Peer& peer, const LifelineMessage& message) {
  const auto kind = static_cast<LifelineKind>(message.kind);
  if (kind == LifelineKind::kBye) peer.said_bye = true;
  if (kind == LifelineKind::kLost) lose({name_in(message)});
  if (kind == LifelineKind::kSilent) lose({name_in(message), true});
}

void TcpLifeline::lose(const LostName& name) {
  if (is_lost_) return;
  {
    const MutexLock lock(mutex_);
    lost_ = name;
  }
  is_lost_ = true;
  tell_at_ = monotonic_now() + (speaks() ? options_.taking_time : options_.speaking_time);
  if (sigterm_at_ != kNever) {
    sigterm_at_ = monotonic_now() + kSigtermDelayAfterLoss;
    hurry_to_tell();
  }
  if (!is_hub()) return;
  const auto kind = name.is_silent ? LifelineKind::kSilent : LifelineKind::kLost;
  for (Peer& peer : peers_) say(peer, kind, name);
}

// The other end of a connection is gone. After the first loss this matters only for the speaker: it
// has reported the loss.
void TcpLifeline::go_missing(const LostName& name) {
  if (is_lost_ && name.rank == speaker()) {
    speaker_gone_ = true;
    if (tell_at_ != kNever) tell_at_ = monotonic_now();
  }
  lose(name);
}

void TcpLifeline::hurry_to_tell() {
  if (!is_lost_ || !speaks() || tell_at_ == kNever) return;
  tell_at_ = std::min(tell_at_, monotonic_now() + kTellDelayAfterSigterm);
}

void TcpLifeline::say(Peer& peer, LifelineKind kind, const RankName& about) {
  if (!peer.open) return;
  const LifelineMessage message = peer.rank.channel.sign(make_message(kind, about));
  const auto bytes = std::as_bytes(std::span(&message, 1));
  // A peer that does not take it is ending; its connection will show that.
  static_cast<void>(send_all(peer.rank.socket, bytes, monotonic_now() + 100ms).ok());
}

void TcpLifeline::say_bye() {
  bye_sent_ = true;
  for (Peer& peer : peers_) say(peer, LifelineKind::kBye, own_);
}

bool TcpLifeline::all_said_bye() const {
  return std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.said_bye; });
}

void TcpLifeline::act_on_time() {
  const Deadline now = monotonic_now();
  if (now >= tell_at_) {
    tell_at_ = kNever;
    const MutexLock lock(tell_mutex_);
    if (telling_ && !taken_ && options_.on_loss) {
      options_.on_loss({.error = loss_error(*lost_), .speaks = speaks()});
    }
  }
  if (now >= sigterm_at_) end_by_sigterm();
}

int TcpLifeline::poll_timeout_ms() const {
  const Deadline next = std::min(tell_at_, sigterm_at_);
  if (next == kNever) return -1;
  return poll_timeout_ms_until(next);
}

}  // namespace

Error loss_error(const LostName& lost) {
  if (lost.is_silent) {
    return fail(Errc::kCancelled,
                "{} does not answer any more: its host has lost its power or its network; look at "
                "the host, its cables and switches, and in the logs of the batch system",
                lost.text());
  }
  return fail(Errc::kCancelled,
              "{} ended unexpectedly: it was killed or it crashed; look for the reason in the logs "
              "of its host and of the batch system (most often it ran out of memory)",
              lost.text());
}

Result<std::unique_ptr<Lifeline>> Lifeline::open(const LifelineOptions& options) {
  ASSIGN_OR_RETURN(const JobKey key, make_key());
  auto lifeline = std::make_unique<TcpLifeline>(options, key);
  RETURN_IF_ERROR(lifeline->listen());
  return std::unique_ptr<Lifeline>(std::move(lifeline));
}

Result<std::unique_ptr<Lifeline>> Lifeline::join(const LifelineOptions& options,
                                                 const std::string& invitation) {
  ASSIGN_OR_RETURN(const Invitation read, read_invitation(invitation));
  auto lifeline = std::make_unique<TcpLifeline>(options, read.key);
  RETURN_IF_ERROR(lifeline->join_at(read));
  return std::unique_ptr<Lifeline>(std::move(lifeline));
}

}  // namespace millrace::comm
