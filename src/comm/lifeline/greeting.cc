#include "comm/lifeline/greeting.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "base/system/clock.h"

namespace millrace::comm {
namespace {

using wire::LifelineKind;
using wire::LifelineMessage;

constexpr size_t kMessageBytes = sizeof(LifelineMessage);
// Strangers may use up some descriptors of the program for a while, but not all of them.
constexpr size_t kStrangersMax = 64;
constexpr int kAttemptsMax = 3;  // per address, for a rank that was too slow for rank 0

// A connection whose other end is not known yet.
struct Unknown {
  OwnFile socket;
  LifelineChannel channel;
  std::string inbox;
};

// The message if it has arrived completely. Fails unless it is of kind `due`.
Result<std::optional<LifelineMessage>> receive(Unknown& unknown, LifelineKind due,
                                               uint32_t world_size) {
  RETURN_IF_ERROR(receive_some(unknown.socket, unknown.inbox, kMessageBytes));
  if (unknown.inbox.size() < kMessageBytes) return std::optional<LifelineMessage>();
  ASSIGN_OR_RETURN(const LifelineMessage message,
                   unknown.channel.check(bytes_of(unknown.inbox), world_size));
  unknown.inbox.clear();
  if (static_cast<LifelineKind>(message.kind) != due) {
    return fail(Errc::kCorrupt, "received a lifeline message of kind {}, but expected kind {}",
                message.kind, static_cast<uint32_t>(due));
  }
  return std::optional(message);
}

// A message fits into the buffer of a new connection, so this never waits for a stranger.
Status send_now(Unknown& unknown, const LifelineMessage& message) {
  const LifelineMessage with_tag = unknown.channel.sign(message);
  return send_all(unknown.socket, std::as_bytes(std::span(&with_tag, 1)), monotonic_now());
}

// ---- rank 0 ----

class Reception {
 public:
  Reception(const Listener& listener, const GreetingOptions& options)
      : listener_(&listener), options_(&options), is_here_(options.world_size, false) {
    is_here_[0] = true;
  }

  Result<std::vector<GreetedRank>> run(Deadline deadline) {
    while (greeted_.size() + 1 < options_->world_size) {
      const Status moved = wait(deadline);
      if (!moved.ok()) return missing(moved.error());
    }
    return std::move(greeted_);
  }

 private:
  struct Guest {
    Unknown unknown;
    Deadline until;
    bool is_done = false;  // greeted, or not a rank of this job
  };

  Status wait(Deadline deadline) {
    std::vector<pollfd> watched = {{.fd = listener_->socket.fd(), .events = POLLIN, .revents = 0}};
    for (const Guest& guest : guests_) {
      watched.push_back({.fd = guest.unknown.socket.fd(), .events = POLLIN, .revents = 0});
    }
    const Deadline next = guests_.empty() ? deadline : std::min(deadline, guests_.front().until);
    const int ready = poll(watched.data(), watched.size(), poll_timeout_ms_until(next));
    if (ready < 0 && errno != EINTR) return fail_os(errno, "waiting for a rank");
    if (ready == 0 && monotonic_now() >= deadline) {
      return fail(Errc::kTimeout, "waiting for a rank: no answer in time");
    }
    for (size_t i = 0; ready > 0 && i < guests_.size(); ++i) {
      if (watched[i + 1].revents != 0) hear(guests_[i]);
    }
    std::erase_if(guests_, [now = monotonic_now()](const Guest& guest) {
      return guest.is_done || now >= guest.until;
    });
    return ready > 0 && watched[0].revents != 0 ? let_in() : Status();
  }

  Status let_in() {
    while (true) {
      Result<std::optional<OwnFile>> came = accept_next(*listener_);
      if (!came.ok() && !guests_.empty()) {  // no descriptor is left: drop the oldest
        guests_.erase(guests_.begin());
        return {};
      }
      if (!came.ok()) return came.error();
      if (!*came) return {};
      ASSIGN_OR_RETURN(const Nonce nonce, make_nonce());
      Guest guest{.unknown = {.socket = **std::move(came),
                              .channel = {LifelineChannel::End::kHub, options_->key},
                              .inbox = {}},
                  .until = monotonic_now() + options_->patience};
      // Without a name, so that a stranger learns nothing.
      if (!send_now(guest.unknown, make_message(LifelineKind::kChallenge, {}, nonce)).ok())
        continue;
      guests_.push_back(std::move(guest));
      if (guests_.size() > options_->world_size + kStrangersMax) guests_.erase(guests_.begin());
    }
  }

  void hear(Guest& guest) {
    const auto join = receive(guest.unknown, LifelineKind::kJoin, options_->world_size);
    guest.is_done = !join.ok();
    if (!join.ok() || !*join) return;
    guest.is_done = true;
    const RankName name = name_in(**join);
    // A rank may connect to several addresses. The first connection counts.
    if (is_here_[index_of(name.rank)]) return;
    if (!send_now(guest.unknown, make_message(LifelineKind::kWelcome, options_->own)).ok()) return;
    is_here_[index_of(name.rank)] = true;
    greeted_.push_back({.socket = std::move(guest.unknown.socket),
                        .name = name,
                        .channel = guest.unknown.channel});
  }

  Error missing(const Error& error) const {
    const auto rank = std::find(is_here_.begin(), is_here_.end(), false) - is_here_.begin();
    return fail(error.code(),
                "rank {} did not connect to rank 0, so its death would not be noticed ({}); open "
                "the TCP ports between the hosts, set MILLRACE_INTERFACE to an interface that all "
                "hosts can reach, or set MILLRACE_LIFELINE=off to rely on the launcher alone",
                rank, error.message());
  }

  const Listener* listener_;
  const GreetingOptions* options_;
  std::vector<bool> is_here_;  // by rank
  std::vector<Guest> guests_;  // oldest first
  std::vector<GreetedRank> greeted_;
};

// ---- the others ----

// One address of rank 0.
struct Attempt {
  enum class Step { kConnecting, kAwaitingChallenge, kAwaitingWelcome, kGivenUp };

  std::string address;
  Step step = Step::kGivenUp;
  Unknown unknown = {};
  int count = 0;
  std::string failure = "no answer in time";

  bool is_open() const { return step != Step::kGivenUp; }
  pollfd watched() const {
    const bool connects = step == Step::kConnecting;
    const auto events = static_cast<short>(connects ? POLLOUT : POLLIN);
    return {.fd = is_open() ? unknown.socket.fd() : -1, .events = events, .revents = 0};
  }
};

class Search {
 public:
  Search(const Invitation& invitation, const GreetingOptions& options)
      : invitation_(&invitation), options_(&options) {
    for (const std::string& address : invitation.addresses) {
      attempts_.push_back({.address = address});
      begin(attempts_.back());
    }
  }

  Result<GreetedRank> run(Deadline deadline) {
    while (std::ranges::any_of(attempts_, &Attempt::is_open)) {
      std::vector<pollfd> watched;
      for (const Attempt& attempt : attempts_) watched.push_back(attempt.watched());
      const int timeout_ms = poll_timeout_ms_until(deadline);
      const int ready = poll(watched.data(), watched.size(), timeout_ms);
      if (ready < 0 && errno != EINTR) return fail_os(errno, "waiting for rank 0");
      if (ready == 0 && timeout_ms == 0) break;
      for (size_t i = 0; ready > 0 && i < attempts_.size(); ++i) {
        if (watched[i].revents == 0) continue;
        if (const Status moved = move_on(attempts_[i]); !moved.ok()) {
          give_up(attempts_[i], moved.error());
        }
        if (greeted_) return *std::move(greeted_);
      }
    }
    return unreached();
  }

 private:
  void begin(Attempt& attempt) {
    auto socket = begin_connect(attempt.address, invitation_->port);
    ++attempt.count;
    if (!socket.ok()) {
      attempt.step = Attempt::Step::kGivenUp;
      attempt.failure = socket.error().message();
      return;
    }
    attempt.step = Attempt::Step::kConnecting;
    attempt.unknown = {.socket = *std::move(socket),
                       .channel = {LifelineChannel::End::kRank, options_->key},
                       .inbox = {}};
  }

  Status move_on(Attempt& attempt) {
    const uint32_t world_size = options_->world_size;
    if (attempt.step == Attempt::Step::kConnecting) {
      RETURN_IF_ERROR(finish_connect(attempt.unknown.socket));
      attempt.step = Attempt::Step::kAwaitingChallenge;
      return {};
    }
    if (attempt.step == Attempt::Step::kAwaitingChallenge) {
      ASSIGN_OR_RETURN(const auto challenge,
                       receive(attempt.unknown, LifelineKind::kChallenge, world_size));
      if (!challenge) return {};
      ASSIGN_OR_RETURN(const Nonce nonce, make_nonce());
      attempt.step = Attempt::Step::kAwaitingWelcome;
      return send_now(attempt.unknown, make_message(LifelineKind::kJoin, options_->own, nonce));
    }
    ASSIGN_OR_RETURN(const auto welcome,
                     receive(attempt.unknown, LifelineKind::kWelcome, world_size));
    if (!welcome) return {};
    greeted_ = GreetedRank{.socket = std::move(attempt.unknown.socket),
                           .name = name_in(*welcome),
                           .channel = attempt.unknown.channel};
    return {};
  }

  // Rank 0 drops connections that are silent for long. A rank on a busy host may be, so it retries.
  void give_up(Attempt& attempt, const Error& error) {
    const bool was_dropped =
        attempt.step != Attempt::Step::kConnecting && error.code() == Errc::kIo;
    attempt.step = Attempt::Step::kGivenUp;
    attempt.failure = error.message();
    attempt.unknown = {};
    if (was_dropped && attempt.count < kAttemptsMax) begin(attempt);
  }

  Error unreached() const {
    std::string tried;
    for (const Attempt& attempt : attempts_) {
      if (!tried.empty()) tried += "; ";
      tried += fmt::format("{}:{}: {}", attempt.address, invitation_->port, attempt.failure);
    }
    return fail(Errc::kIo,
                "{} cannot be reached by TCP, so a dead rank would not be noticed ({}); open the "
                "ports between the hosts, set MILLRACE_INTERFACE to an interface that all hosts "
                "can reach, or set MILLRACE_LIFELINE=off to rely on the launcher alone",
                invitation_->hub.text(), tried);
  }

  const Invitation* invitation_;
  const GreetingOptions* options_;
  std::vector<Attempt> attempts_;
  std::optional<GreetedRank> greeted_;
};

}  // namespace

Result<std::vector<GreetedRank>> admit_ranks(const Listener& listener,
                                             const GreetingOptions& options, Deadline deadline) {
  return Reception(listener, options).run(deadline);
}

Result<GreetedRank> reach_hub(const Invitation& invitation, const GreetingOptions& options,
                              Deadline deadline) {
  return Search(invitation, options).run(deadline);
}

}  // namespace millrace::comm
