#include "comm/lifeline.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/thread.h"
#include "comm/lifeline_socket.h"
#include "comm/sigterm.h"

namespace millrace::comm {
namespace {

using namespace std::chrono_literals;
using wire::LifelineKind;
using wire::LifelineMessage;

constexpr auto kSigtermDelay = 300ms;            // the news of a loss may come after the signal
constexpr auto kSigtermDelayAfterLoss = 3000ms;  // to tell it and end
constexpr auto kTellDelayAfterSigterm = 50ms;    // the launcher will kill: no time for a call
constexpr auto kGreetingTime = 2s;               // for a stranger on the port, who says nothing
constexpr int kGreetingAttempts = 3;             // by a rank that was too late for that
constexpr Deadline kNever = Deadline::max();

// The other end of one connection.
struct Peer {
  File socket;
  RankName name;
  std::string inbox;
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
    ASSIGN_OR_RETURN(listener_, listen_for_ranks(options_.one_host));
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

  std::optional<RankName> lost() const override {
    if (!is_lost_) return std::nullopt;
    const std::lock_guard lock(mutex_);
    return lost_;
  }

  std::optional<RankName> take_lost() override {
    const auto lost_rank = lost();
    // While it is told, whoever asks for it waits: it would be told twice.
    const std::lock_guard lock(tell_mutex_);
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

  Status start_watching();
  Status greet(Peer& peer, Deadline deadline);
  Status reach_hub(Peer& hub, const std::string& address, uint16_t port, Deadline deadline);
  void watch();
  bool read_wakes();
  void read_peer(Peer& peer);
  void take_message(Peer& peer, const LifelineMessage& message);
  void lose(const RankName& name);
  void say_bye();
  bool all_said_bye() const;
  void act_on_time();
  // Once a rank is lost: the lowest that is left.
  Rank speaker() const { return lost_->rank == kFirstRank ? Rank{1} : kFirstRank; }
  bool speaks() const { return options_.rank == speaker(); }
  void go_missing(const RankName& name);
  void hurry_to_tell();
  int poll_timeout_ms() const;
  void say(Peer& peer, LifelineKind kind, const RankName& about);

  LifelineOptions options_;
  RankName own_;
  JobKey key_;
  Listener listener_;        // rank 0, until all have come
  std::vector<Peer> peers_;  // rank 0: all others; others: rank 0
  File wake_in_;
  File wake_out_;
  std::optional<SigtermHeld> sigterm_;
  std::thread watch_;

  mutable std::mutex mutex_;
  std::optional<RankName> lost_;
  std::atomic<bool> is_lost_ = false;  // the same, cheap to ask in a loop
  std::atomic<bool> speaker_gone_ = false;
  std::mutex tell_mutex_;
  bool taken_ = false;
  std::atomic<bool> telling_ = false;

  // Of the watching thread alone.
  bool leaving_ = false;
  bool bye_sent_ = false;
  Deadline tell_at_ = kNever;
  Deadline sigterm_at_ = kNever;
};

Status TcpLifeline::greet(Peer& peer, Deadline deadline) {
  const LifelineMessage hello = make_message(LifelineKind::kHello, key_, own_);
  RETURN_IF_ERROR(send_all(peer.socket, std::as_bytes(std::span(&hello, 1)), deadline));
  std::byte bytes[sizeof(LifelineMessage)];
  RETURN_IF_ERROR(receive_all(peer.socket, bytes, deadline));
  ASSIGN_OR_RETURN(const LifelineMessage answer, read_message(bytes, key_, options_.size));
  peer.name = name_in(answer);
  return {};
}

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
  std::vector<bool> here(options_.size, false);
  here[0] = true;
  while (peers_.size() + 1 < options_.size) {
    Result<File> socket = accept_rank(listener_, deadline);
    if (!socket.ok()) {
      const auto missing = std::find(here.begin(), here.end(), false) - here.begin();
      return fail(socket.error().code(),
                  "rank {} did not connect to rank 0, so that its death would not be noticed ({}); "
                  "open the TCP ports between the hosts, or set MILLRACE_LIFELINE=off to rely on "
                  "the launcher alone",
                  missing, socket.error().message());
    }
    Peer peer{.socket = *std::move(socket)};
    // Whoever is not one of ours is dropped: a scan of the ports must not end a job.
    if (!greet(peer, std::min(deadline, monotonic_now() + kGreetingTime)).ok()) continue;
    if (here[index_of(peer.name.rank)]) continue;
    here[index_of(peer.name.rank)] = true;
    peers_.push_back(std::move(peer));
  }
  listener_ = {};
  return start_watching();
}

// Rank 0 drops who is silent for long, as strangers are, and a rank on a busy host may be: it comes
// again.
Status TcpLifeline::reach_hub(Peer& hub, const std::string& address, uint16_t port,
                              Deadline deadline) {
  for (int attempt = 1;; ++attempt) {
    ASSIGN_OR_RETURN(hub.socket, connect_to(address, port, deadline));
    const Status greeted = greet(hub, deadline);
    if (greeted.ok() && hub.name.rank != kFirstRank) {
      return fail(Errc::kCorrupt, "another rank answered");
    }
    const bool was_dropped = !greeted.ok() && greeted.error().code() == Errc::kIo;
    if (!was_dropped || attempt == kGreetingAttempts) return greeted;
  }
}

Status TcpLifeline::join_at(const Invitation& invitation) {
  // On the same host the last one, the loopback, is sure; elsewhere it leads to the wrong host.
  std::vector<std::string> addresses = invitation.addresses;
  if (invitation.hub.host == own_.host) {
    std::rotate(addresses.begin(), addresses.end() - 1, addresses.end());
  }
  const Deadline deadline = monotonic_now() + options_.patience * 3 / 4;
  std::string tried;
  for (size_t i = 0; i < addresses.size(); ++i) {
    const auto share = (deadline - monotonic_now()) / static_cast<int64_t>(addresses.size() - i);
    const Deadline until = monotonic_now() + share;
    Peer hub;
    const Status reached = reach_hub(hub, addresses[i], invitation.port, until);
    if (reached.ok()) {
      peers_.push_back(std::move(hub));
      return start_watching();
    }
    if (!tried.empty()) tried += "; ";
    tried += fmt::format("{}:{}: {}", addresses[i], invitation.port, reached.error().message());
  }
  return fail(
      Errc::kIo,
      "{} cannot be reached by TCP, so that a dead rank would not be noticed ({}); open the "
      "ports between the hosts, or set MILLRACE_LIFELINE=off to rely on the launcher alone",
      invitation.hub.text(), tried);
}

Status TcpLifeline::start_watching() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return fail_os(errno, "cannot make a pipe");
  wake_in_ = File(ends[0]);
  wake_out_ = File(ends[1]);
  if (options_.takes_sigterm) sigterm_.emplace(wake_out_.fd());
  ASSIGN_OR_RETURN(watch_, start_thread("mr-lifeline", [this] { watch(); }));
  return {};
}

void TcpLifeline::watch() {
  std::vector<pollfd> watched;
  while (true) {
    watched.assign(1, {.fd = wake_in_.fd(), .events = POLLIN, .revents = 0});
    for (const Peer& peer : peers_) {
      watched.push_back({.fd = peer.open ? peer.socket.fd() : -1, .events = POLLIN, .revents = 0});
    }
    if (poll(watched.data(), watched.size(), poll_timeout_ms()) > 0) {
      for (size_t i = 0; i < peers_.size(); ++i) {
        if (watched[i + 1].revents != 0) read_peer(peers_[i]);
      }
      if (watched[0].revents != 0 && !read_wakes()) return;
    }
    if (leaving_) {
      // Rank 0 answers when all have come: nobody goes while another may still be lost.
      if (!bye_sent_ && (!is_hub() || all_said_bye())) say_bye();
      if (is_lost_ || (bye_sent_ && all_said_bye())) return;
    }
    act_on_time();
  }
}

// False: stop at once.
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
  char buffer[4096];
  const ssize_t count = recv(peer.socket.fd(), buffer, sizeof(buffer), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    peer.open = false;
    if (!peer.said_bye) go_missing(peer.name);
    return;
  }
  peer.inbox.append(buffer, static_cast<size_t>(count));
  while (peer.inbox.size() >= sizeof(LifelineMessage)) {
    const auto bytes = bytes_of(peer.inbox).first(sizeof(LifelineMessage));
    const auto message = read_message(bytes, key_, options_.size);
    peer.inbox.erase(0, sizeof(LifelineMessage));
    // A connection that carries nonsense is of no use: what it would tell is not known any more.
    if (!message.ok()) {
      peer.open = false;
      return go_missing(peer.name);
    }
    take_message(peer, *message);
  }
}

void TcpLifeline::take_message(Peer& peer, const LifelineMessage& message) {
  const auto kind = static_cast<LifelineKind>(message.kind);
  if (kind == LifelineKind::kBye) peer.said_bye = true;
  if (kind == LifelineKind::kLost) lose(name_in(message));
}

void TcpLifeline::lose(const RankName& name) {
  if (is_lost_) return;
  {
    const std::lock_guard lock(mutex_);
    lost_ = name;
  }
  is_lost_ = true;
  tell_at_ = monotonic_now() + (speaks() ? options_.taking_time : options_.speaking_time);
  if (sigterm_at_ != kNever) {
    sigterm_at_ = monotonic_now() + kSigtermDelayAfterLoss;
    hurry_to_tell();
  }
  if (!is_hub()) return;
  for (Peer& peer : peers_) say(peer, LifelineKind::kLost, name);
}

// The other end of a connection is gone. After the first loss that tells nothing new, unless it is
// the rank that speaks: it has spoken.
void TcpLifeline::go_missing(const RankName& name) {
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
  const LifelineMessage message = make_message(kind, key_, about);
  // A peer that does not take it has gone, or goes: its end of the connection will tell.
  static_cast<void>(
      send_all(peer.socket, std::as_bytes(std::span(&message, 1)), monotonic_now() + 100ms).ok());
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
    const std::lock_guard lock(tell_mutex_);
    if (telling_ && !taken_ && options_.on_loss) {
      options_.on_loss({.error = loss_error(*lost_), .speaks = speaks()});
    }
  }
  if (now >= sigterm_at_) end_by_sigterm();
}

int TcpLifeline::poll_timeout_ms() const {
  const Deadline next = std::min(tell_at_, sigterm_at_);
  if (next == kNever) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - monotonic_now());
  return static_cast<int>(std::max<int64_t>(left.count(), 0));
}

}  // namespace

Error loss_error(const RankName& lost) {
  return fail(Errc::kCancelled,
              "{} ended without a word: it was killed or it crashed; look for the reason in the "
              "logs of its host and of the batch system (out of memory is the commonest)",
              lost.text());
}

Result<std::unique_ptr<Lifeline>> Lifeline::open(const LifelineOptions& options) {
  JobKey key;
  if (getentropy(&key, sizeof(key)) != 0) return fail_os(errno, "cannot get random bytes");
  auto lifeline = std::make_unique<TcpLifeline>(options, key);
  RETURN_IF_ERROR(lifeline->listen());
  return std::unique_ptr<Lifeline>(std::move(lifeline));
}

Result<std::unique_ptr<Lifeline>> Lifeline::join(const LifelineOptions& options,
                                                 const std::string& invitation) {
  ASSIGN_OR_RETURN(const Invitation read, read_invitation(invitation, options.size));
  auto lifeline = std::make_unique<TcpLifeline>(options, read.key);
  RETURN_IF_ERROR(lifeline->join_at(read));
  return std::unique_ptr<Lifeline>(std::move(lifeline));
}

}  // namespace millrace::comm
