#include "store/peers/peers.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/concurrency/mutex.h"
#include "base/concurrency/thread.h"
#include "base/system/clock.h"
#include "base/system/cpus.h"
#include "base/text/text.h"

namespace millrace::store {
namespace {

using comm::index_of;
using wire::PeerKind;

constexpr size_t kAnswerThreadsMin = 16;
constexpr size_t kAnswerThreadsMax = 64;
constexpr uint64_t kWindow = 4;       // questions of ask_all() in flight
constexpr size_t kIdleChannels = 64;  // of all peers together, roughly
constexpr std::chrono::seconds kStrangerPatience{2};
constexpr size_t kStrangersMax = 1024;
constexpr int kGreetingsMax = 5;  // tries, if the other end drops us before it knows who we are

// Strangers get a quarter of the descriptors at most: the rest is for peers, clients and files.
size_t strangers_max() {
  constexpr size_t kFew = 4;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kFew;
  return std::clamp<size_t>(limit.rlim_cur / 4, kFew, kStrangersMax);
}

uint32_t address_of(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return address.sin_addr.s_addr;
}

Error error_in(const PeerMessage& message) {
  const int code = std::clamp(message.header.error - 1, 0, static_cast<int>(Errc::kCancelled));
  return fail(static_cast<Errc>(code), "{}", printable(text_of(message.bytes())));
}

}  // namespace

// Another service, as one that we ask.
struct Peers::Peer {
  Mutex mutex;
  std::vector<ChannelPointer> idle GUARDED_BY(mutex);
  std::string address GUARDED_BY(mutex);  // that has answered
  bool is_lost GUARDED_BY(mutex) = false;
  std::chrono::nanoseconds lost_until GUARDED_BY(mutex){0};
};

// Another service, as one that asks us; or a stranger.
struct Peers::Asker {
  // One thread at a time has an event of it. The lock tells so to ThreadSanitizer, which does not
  // know that epoll_ctl(2) hands it on.
  Mutex mutex;
  ChannelPointer channel;
  uint32_t address = 0;
  std::chrono::nanoseconds since = monotonic_now();
  // Guarded by askers_mutex_:
  bool is_greeted = false;
  bool is_dismissed = false;  // was shut down; a thread will see that, and drop it
};

std::chrono::milliseconds peer_deadline() {
  constexpr int64_t kDefaultMs = 5000;
  const char* const text = std::getenv("MILLRACE_STORE_PEER_DEADLINE_MS");
  const int64_t given = text != nullptr ? std::strtoll(text, nullptr, 10) : 0;
  return std::chrono::milliseconds(given > 0 ? given : kDefaultMs);
}

Peers::Peers(PeersOptions options) : options_(std::move(options)), strangers_max_(strangers_max()) {
  for (uint32_t i = 0; i < size(); ++i) peers_.push_back(std::make_unique<Peer>());
  serve(PeerKind::kPing, [](Rank, ByteView) { return PeerAnswer(); });
}

Peers::~Peers() {
  sockets_.stop();
  {
    const MutexLock lock(askers_mutex_);
    for (const auto& [key, asker] : askers_) ::shutdown(asker->channel->fd(), SHUT_RDWR);
  }
  for (std::thread& thread : threads_) thread.join();
}

std::string Peers::name_of(Rank rank) const {
  return fmt::format("{} (rank {})", printable(options_.table.places[index_of(rank)].host),
                     index_of(rank));
}

bool Peers::is_lost(Rank rank) const {
  Peer& peer = *peers_[index_of(rank)];
  const MutexLock lock(peer.mutex);
  return peer.is_lost;
}

bool Peers::has_ended(Rank rank) const {
  const PeerPlace& place = options_.table.places[index_of(rank)];
  const comm::Deadline deadline = monotonic_now() + options_.deadline;
  bool is_refused = false;
  for (const std::string& address : place.addresses) {
    const auto begun = comm::begin_connect(address, place.port);
    if (!begun.ok()) continue;
    pollfd waiting{.fd = begun->fd(), .events = POLLOUT, .revents = 0};
    if (::poll(&waiting, 1, comm::poll_timeout_ms_until(deadline)) != 1) continue;
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(begun->fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) return false;
    is_refused = is_refused || error == ECONNREFUSED;
  }
  return is_refused;
}

PeerChannel::Options Peers::channel_options() const {
  return {.job_key = options_.table.key,
          .own = options_.own,
          .size = size(),
          .deadline = options_.deadline};
}

// ---- asking -------------------------------------------------------------------------------------

// After the pause, the first caller tries again; the others are refused for another one.
Status Peers::check_reachable(Rank whom) const {
  Peer& peer = *peers_[index_of(whom)];
  const MutexLock lock(peer.mutex);
  if (!peer.is_lost) return {};
  if (monotonic_now() < peer.lost_until) {
    return fail(Errc::kTimeout, "it did not answer before");
  }
  peer.lost_until = monotonic_now() + options_.pause;
  return {};
}

Result<Peers::ChannelPointer> Peers::channel_to(Rank whom, bool& is_fresh) {
  Peer& peer = *peers_[index_of(whom)];
  if (!is_fresh) {
    const MutexLock lock(peer.mutex);
    if (!peer.idle.empty()) {
      ChannelPointer channel = std::move(peer.idle.back());
      peer.idle.pop_back();
      return channel;
    }
  }
  is_fresh = true;
  return connect(whom);
}

// A peer that strangers besiege may take us for one of them, and close the connection.
Result<Peers::ChannelPointer> Peers::connect(Rank whom) {
  for (int tries = 1;; ++tries) {
    bool was_dropped = false;
    auto channel = connect_once(whom, was_dropped);
    if (channel.ok() || !was_dropped || tries == kGreetingsMax) return channel;
  }
}

// All addresses at once: one that drops packets must not delay the others.
Result<Peers::ChannelPointer> Peers::connect_once(Rank whom, bool& was_dropped) {
  Peer& peer = *peers_[index_of(whom)];
  const PeerPlace& place = options_.table.places[index_of(whom)];
  std::vector<std::string> addresses = place.addresses;
  {
    const MutexLock lock(peer.mutex);
    if (!peer.address.empty()) addresses = {peer.address};
  }
  std::vector<comm::OwnFile> sockets;
  std::vector<pollfd> waiting;
  Error failed = fail(Errc::kTimeout, "cannot connect: no answer in time");
  for (const std::string& address : addresses) {
    auto begun = comm::begin_connect(address, place.port);
    if (!begun.ok()) failed = begun.error();
    sockets.push_back(begun.ok() ? *std::move(begun) : comm::OwnFile());
    waiting.push_back({.fd = sockets.back().fd(), .events = POLLOUT, .revents = 0});
  }
  const comm::Deadline deadline = monotonic_now() + options_.deadline;
  const auto is_open = [](const pollfd& one) { return one.fd >= 0; };
  while (std::any_of(waiting.begin(), waiting.end(), is_open)) {
    const int ready = ::poll(waiting.data(), waiting.size(), comm::poll_timeout_ms_until(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return failed;
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].fd < 0 || waiting[i].revents == 0) continue;
      waiting[i].fd = -1;
      const Status connected = comm::finish_connect(sockets[i]);
      auto greeted = connected.ok()
                         ? PeerChannel::ask_through(std::move(sockets[i]), whom, channel_options())
                         : Result<ChannelPointer>(connected.error());
      if (!greeted.ok()) {
        failed = greeted.error();
        was_dropped |= connected.ok() && failed.code() == Errc::kIo;
        continue;
      }
      const MutexLock lock(peer.mutex);
      peer.address = addresses[i];
      return greeted;
    }
  }
  return failed;
}

void Peers::keep(Rank whom, ChannelPointer channel) {
  Peer& peer = *peers_[index_of(whom)];
  const MutexLock lock(peer.mutex);
  const size_t most = std::max<size_t>(2, kIdleChannels / size());
  if (peer.idle.size() < most) peer.idle.push_back(std::move(channel));
}

void Peers::note_lost(Rank whom, const Error& error) {
  Peer& peer = *peers_[index_of(whom)];
  std::vector<ChannelPointer> closed;
  {
    const MutexLock lock(peer.mutex);
    closed.swap(peer.idle);
    peer.lost_until = monotonic_now() + options_.pause;
    if (std::exchange(peer.is_lost, true)) return;
  }
  if (!options_.log) return;
  options_.log(fmt::format("{} is lost: {}; what it holds comes from elsewhere", name_of(whom),
                           error.message()));
}

void Peers::note_answer(Rank whom) {
  Peer& peer = *peers_[index_of(whom)];
  {
    const MutexLock lock(peer.mutex);
    if (!std::exchange(peer.is_lost, false)) return;
  }
  if (options_.log) options_.log(fmt::format("{} answers again", name_of(whom)));
}

namespace {

struct Conversation {
  Status status;
  bool is_lost = true;     // the connection failed; otherwise the error is an answer, or our own
  bool is_over = false;    // nothing is on its way: the channel can be used again
  bool was_heard = false;  // at least one answer came
};

// Sends questions ahead of the answers.
Conversation converse(PeerChannel& channel, PeerKind kind, const Peers::Questions& questions,
                      PeerMessage& message) {
  Conversation out;
  uint64_t asked = 0;
  for (uint64_t heard = 0; heard < questions.count; ++heard) {
    for (; asked < questions.count && asked < heard + kWindow; ++asked) {
      out.status =
          channel.send(kind, 0, {.signed_bytes = questions.question(asked), .other_bytes = {}});
      if (!out.status.ok()) return out;
    }
    out.status = channel.receive(message);
    if (!out.status.ok()) return out;
    if (message.header.kind != kind) {
      out.status = fail(Errc::kCorrupt, "it answers another question");
      return out;
    }
    out.was_heard = true;
    out.status = message.header.error != 0 ? Status(error_in(message))
                                           : questions.take(heard, message.bytes());
    if (out.status.ok()) continue;
    out.is_lost = false;
    out.is_over = asked == heard + 1;
    return out;
  }
  out.is_lost = false;
  out.is_over = true;
  return out;
}

}  // namespace

Status Peers::ask_all(Rank whom, PeerKind kind, const Questions& questions) {
  thread_local std::vector<std::byte> spare;  // fresh memory would cost more than the message
  Status reachable = check_reachable(whom);
  if (!reachable.ok()) return std::move(reachable).within(name_of(whom));
  PeerMessage message{.header = {}, .memory = std::exchange(spare, {})};
  Conversation out;
  for (bool is_fresh = false;;) {
    auto channel = channel_to(whom, is_fresh);
    out = channel.ok() ? converse(**channel, kind, questions, message)
                       : Conversation{.status = channel.error()};
    if (out.is_over) keep(whom, *std::move(channel));
    // A kept connection may have been closed meanwhile; then a fresh one decides.
    const bool tries_again =
        out.is_lost && !is_fresh && !out.was_heard && out.status.error().code() != Errc::kTimeout;
    if (!tries_again) break;
    is_fresh = true;
  }
  spare = std::move(message.memory);
  if (out.is_lost) {
    note_lost(whom, out.status.error());
  } else {
    note_answer(whom);
  }
  return std::move(out.status).within(name_of(whom));
}

Result<std::string> Peers::ask(Rank whom, PeerKind kind, ByteView question) {
  std::string answer;
  RETURN_IF_ERROR(ask_all(whom, kind,
                          {.count = 1,
                           .question = [&](uint64_t) { return question; },
                           .take = [&](uint64_t, ByteView bytes) -> Status {
                             answer = text_of(bytes);
                             return {};
                           }}));
  return answer;
}

// Threads, because a peer that is silent must not delay the news for the others.
std::vector<std::pair<Rank, Error>> Peers::tell_all(PeerKind kind, ByteView question) {
  constexpr uint32_t kThreads = 16;
  std::vector<std::pair<Rank, Error>> failed;
  Mutex mutex;
  std::atomic<uint32_t> next = 0;
  const auto tell = [&] {
    for (uint32_t i = next++; i < size(); i = next++) {
      if (i == index_of(own())) continue;
      const auto told = ask(static_cast<Rank>(i), kind, question);
      const MutexLock lock(mutex);
      if (!told.ok()) failed.emplace_back(static_cast<Rank>(i), told.error());
    }
  };
  std::vector<std::thread> others;
  for (uint32_t i = 2; i < std::min(kThreads, size()); ++i) {
    auto thread = start_thread("store tells", tell);
    if (thread.ok()) others.push_back(*std::move(thread));
  }
  tell();
  for (std::thread& thread : others) thread.join();
  return failed;
}

// ---- answering ----------------------------------------------------------------------------------

void Peers::serve(PeerKind kind, PeerResponder handler) { handlers_[kind] = std::move(handler); }

Status Peers::start() {
  RETURN_IF_ERROR(sockets_.open(options_.listener.socket.fd()));
  const size_t count =
      options_.thread_count != 0
          ? options_.thread_count
          : std::clamp(2 * usable_cpu_count(), kAnswerThreadsMin, kAnswerThreadsMax);
  ASSIGN_OR_RETURN(threads_, start_threads("peers", count, [this] { work(); }));
  return {};
}

void Peers::work() {
  ask_for_short_slices();
  PeerMessage message;
  while (const auto ready = sockets_.next()) {
    if (*ready == nullptr) {
      accept_askers();
    } else {
      hear(*static_cast<Asker*>(*ready), message);
    }
  }
}

void Peers::accept_askers() {
  for (;;) {
    auto accepted = comm::accept_next(options_.listener);
    if (!accepted.ok()) {  // no descriptors: without a pause, we would spin
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return;
    }
    if (!*accepted) return;
    auto channel = PeerChannel::answer_through(*std::move(*accepted), channel_options());
    if (!channel.ok()) continue;
    auto asker = std::make_unique<Asker>();
    asker->channel = *std::move(channel);
    asker->address = address_of(asker->channel->fd());
    Asker& added = *asker;
    bool is_crowded = false;
    {
      const MutexLock lock(askers_mutex_);
      askers_.emplace(&added, std::move(asker));
      is_crowded = !dismiss_strangers();
    }
    if (!sockets_.add(added.channel->fd(), &added)) drop(added);
    if (is_crowded) {  // until the other threads have dropped them
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
  }
}

// Ends connections that have not proved that they belong to the job: those that take long, and, if
// there are too many, the oldest one of the address that has most. So a stranger who connects
// again and again drives out himself. Returns whether more may come.
bool Peers::dismiss_strangers() {
  const auto dismiss = [](Asker& asker) {
    asker.is_dismissed = true;
    ::shutdown(asker.channel->fd(), SHUT_RDWR);
  };
  const auto longest = monotonic_now() - kStrangerPatience;
  std::unordered_map<uint32_t, std::pair<size_t, Asker*>> by_address;  // how many, the oldest one
  size_t waiting = 0;
  size_t dismissed = 0;
  for (const auto& [key, asker] : askers_) {
    if (asker->is_greeted) continue;
    if (!asker->is_dismissed && asker->since < longest) dismiss(*asker);
    if (asker->is_dismissed) {
      ++dismissed;
      continue;
    }
    ++waiting;
    auto& [count, oldest] = by_address[asker->address];
    ++count;
    if (oldest == nullptr || asker->since < oldest->since) oldest = asker.get();
  }
  const size_t most = strangers_max_ / 2;  // the other half have been dismissed
  if (waiting > most) {
    const auto crowd = std::max_element(
        by_address.begin(), by_address.end(),
        [](const auto& a, const auto& b) { return a.second.first < b.second.first; });
    dismiss(*crowd->second.second);
    ++dismissed;
  }
  return dismissed < most;
}

void Peers::hear(Asker& asker, PeerMessage& message) {
  bool is_fine = true;
  {
    const MutexLock turn(asker.mutex);
    if (asker.is_greeted) {
      is_fine = answer(asker, message);
    } else {
      const auto greeted = asker.channel->greet();
      is_fine = greeted.ok();
      const MutexLock lock(askers_mutex_);
      asker.is_greeted = greeted.ok() && *greeted;
    }
    // Another thread may have it from then on, as soon as it is unlocked.
    if (is_fine) sockets_.arm(asker.channel->fd(), &asker);
  }
  if (!is_fine) drop(asker);
}

bool Peers::answer(Asker& asker, PeerMessage& message) {
  PeerChannel& channel = *asker.channel;
  if (!channel.receive(message).ok()) return false;
  const PeerKind kind = message.header.kind;
  const auto handler = handlers_.find(kind);
  if (handler == handlers_.end()) return false;
  const Result<PeerAnswer> made = handler->second(channel.other(), message.bytes());
  if (made.ok()) {
    return channel.send(kind, 0, {.signed_bytes = bytes_of(made->bytes), .other_bytes = made->view})
        .ok();
  }
  const std::string text = made.error().message().substr(0, 4096);
  return channel
      .send(kind, 1 + static_cast<int>(made.error().code()),
            {.signed_bytes = bytes_of(text), .other_bytes = {}})
      .ok();
}

// REQUIRES: no other thread can get an event of this connection.
void Peers::drop(Asker& asker) {
  sockets_.remove(asker.channel->fd());
  const MutexLock lock(askers_mutex_);
  askers_.erase(&asker);
}

}  // namespace millrace::store
