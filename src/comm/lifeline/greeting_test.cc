#include "comm/lifeline/greeting.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <thread>

#include "base/io/file.h"
#include "base/system/clock.h"
#include "comm/lifeline/lifeline.h"

namespace millrace::comm {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// If something never comes, ctest's time limit ends the test.
template <typename Condition>
void wait_until(Condition condition) {
  while (!condition()) std::this_thread::sleep_for(1ms);
}

constexpr Deadline kLater = 600s;  // from now on; the test's time limit is shorter

OwnFile connect_to(const Invitation& invitation) {
  return *begin_connect("127.0.0.1", invitation.port);
}

void send_bytes(const OwnFile& socket, ByteView bytes) {
  ASSERT_TRUE(send_all(socket, bytes, monotonic_now() + kLater).ok());
}

// What rank 0 sends to anyone who connects.
std::string read_challenge(const OwnFile& socket) {
  std::string bytes;
  while (bytes.size() < sizeof(wire::LifelineMessage)) {
    EXPECT_TRUE(receive_some(socket, bytes, sizeof(wire::LifelineMessage)).ok());
    std::this_thread::sleep_for(1ms);
  }
  return bytes;
}

// Rank 0 of a job of two ranks. It waits for rank 1 on its own thread.
class Waiting {
 public:
  explicit Waiting(LifelineOptions options = {}) {
    options.size = 2;
    options.patience = 600s;
    lifeline_ = *Lifeline::open(options);
    thread_ = std::thread([this] { EXPECT_TRUE(lifeline_->admit().ok()); });
  }
  ~Waiting() { thread_.join(); }

  std::string invitation() const { return lifeline_->invitation(); }
  Invitation read() const { return *read_invitation(invitation()); }

  // The real rank 1: joins and leaves.
  void let_rank_1_come(const std::string& invitation) {
    const LifelineOptions options = {.rank = Rank{1}, .size = 2, .patience = 600s};
    auto joined = Lifeline::join(options, invitation);
    // On a busy machine, a rank 0 with little patience may have dropped it as silent.
    while (!joined.ok() && joined.error().message().find("it closed") != std::string::npos) {
      joined = Lifeline::join(options, invitation);
    }
    ASSERT_TRUE(joined.ok()) << joined.error().message();
    std::thread leaving([&] { EXPECT_TRUE((*joined)->leave()); });
    thread_.join();
    thread_ = std::thread([this] { EXPECT_TRUE(lifeline_->leave()); });
    leaving.join();
  }
  void let_rank_1_come() { let_rank_1_come(invitation()); }

 private:
  std::unique_ptr<Lifeline> lifeline_;
  std::thread thread_;
};

TEST(LifelineGreeting, AStrangerIsNotToldTheKey) {
  Waiting hub;
  const Invitation invitation = hub.read();
  const std::string challenge = read_challenge(connect_to(invitation));
  const std::string key(invitation.key.begin(), invitation.key.end());
  EXPECT_EQ(challenge.find(key), std::string::npos);
  EXPECT_EQ(challenge.find(invitation.hub.host), std::string::npos);  // nor the host's name
  hub.let_rank_1_come();
}

TEST(LifelineGreeting, StrangersOnThePortAreDropped) {
  Waiting hub;
  const Invitation invitation = hub.read();
  const OwnFile scanner = connect_to(invitation);
  send_bytes(scanner, bytes_of(std::string(500, 'x')));
  // It knows the format, but not the key.
  const OwnFile forger = connect_to(invitation);
  const auto join = LifelineChannel(LifelineChannel::End::kRank, {1, 2})
                        .sign(make_message(wire::LifelineKind::kJoin, own_name(Rank{1}), {7}));
  send_bytes(forger, std::as_bytes(std::span(&join, 1)));
  // Rank 0 hangs up on them while it waits for rank 1.
  for (const OwnFile* stranger : {&scanner, &forger}) {
    std::string rest;
    wait_until([&] { return !receive_some(*stranger, rest, 4096).ok(); });
    EXPECT_EQ(rest.size(), sizeof(wire::LifelineMessage)) << "more than the challenge";
  }
  hub.let_rank_1_come();
}

TEST(LifelineGreeting, AJoinOfAnotherConnectionIsRefused) {
  Waiting hub;
  const Invitation invitation = hub.read();
  const OwnFile first = connect_to(invitation);
  LifelineChannel channel(LifelineChannel::End::kRank, invitation.key);
  ASSERT_TRUE(channel.check(bytes_of(read_challenge(first)), 2).ok());
  const auto join = channel.sign(make_message(wire::LifelineKind::kJoin, own_name(Rank{1}), {7}));
  // A stranger replays it.
  const OwnFile second = connect_to(invitation);
  send_bytes(second, std::as_bytes(std::span(&join, 1)));
  std::string rest;
  wait_until([&] { return !receive_some(second, rest, 4096).ok(); });
  EXPECT_EQ(rest.size(), sizeof(wire::LifelineMessage));
  hub.let_rank_1_come();
}

TEST(LifelineGreeting, SilentStrangersDoNotDelayARank) {
  // No stranger is dropped for its silence while the test runs.
  Waiting hub({.greeting_patience = 3600s});
  const Invitation invitation = hub.read();
  std::vector<OwnFile> strangers;
  for (int i = 0; i < 10; ++i) {
    strangers.push_back(connect_to(invitation));
    read_challenge(strangers.back());  // it has been let in
  }
  send_bytes(strangers.front(), bytes_of("GET / HTTP/1.0\r\n\r\n"));
  hub.let_rank_1_come();
}

TEST(LifelineGreeting, SilentStrangersAreDroppedInTime) {
  Waiting hub({.greeting_patience = 100ms});
  const OwnFile stranger = connect_to(hub.read());
  std::string bytes;
  wait_until([&] { return !receive_some(stranger, bytes, 4096).ok(); });
  EXPECT_EQ(bytes.size(), sizeof(wire::LifelineMessage));
  hub.let_rank_1_come();
}

// ---- addresses ----

// An address that neither accepts nor refuses connections, like one without a route: a listener
// whose queue is full.
class BlackHole {
 public:
  BlackHole(const char* address, uint16_t port) {
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    inet_pton(AF_INET, address, &at.sin_addr);
    listener_ = File(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(bind(listener_.fd(), reinterpret_cast<sockaddr*>(&at), sizeof(at)), 0);
    EXPECT_EQ(listen(listener_.fd(), 0), 0);
    for (int i = 0; i < 100 && !is_full_; ++i) {
      queued_.push_back(*begin_connect(address, port));
      pollfd made = {.fd = queued_.back().fd(), .events = POLLOUT, .revents = 0};
      is_full_ = poll(&made, 1, 200) == 0;
    }
  }
  bool is_full() const { return is_full_; }

 private:
  File listener_;
  std::vector<OwnFile> queued_;
  bool is_full_ = false;
};

TEST(LifelineGreeting, AnUnreachableAddressDoesNotDelayARank) {
  Waiting hub;
  Invitation invitation = hub.read();
  const BlackHole nowhere("127.0.0.2", invitation.port);
  ASSERT_TRUE(nowhere.is_full());
  invitation.hub.host = "elsewhere";
  invitation.addresses = {"127.0.0.2", "127.0.0.1"};
  // With a patience of 600 s for each address, the time limit of the test would end it.
  hub.let_rank_1_come(invitation.text());
}

TEST(LifelineGreeting, ARankThatConnectsToAllAddressesCountsOnce) {
  Waiting hub({.one_host = false});
  hub.let_rank_1_come();
}

TEST(LifelineGreeting, ARankThatConnectsSeveralTimesCountsOnce) {
  Waiting hub;
  Invitation invitation = hub.read();
  invitation.addresses.assign(5, "127.0.0.1");
  hub.let_rank_1_come(invitation.text());
}

// For example, an address of rank 0's host that belongs to another machine here.
TEST(LifelineGreeting, AnAddressWhereAStrangerListensIsNotUsed) {
  Waiting hub;
  Invitation invitation = hub.read();
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_port = htons(invitation.port);
  inet_pton(AF_INET, "127.0.0.3", &at.sin_addr);
  const File stranger(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(stranger.fd(), reinterpret_cast<sockaddr*>(&at), sizeof(at)), 0);
  ASSERT_EQ(listen(stranger.fd(), 8), 0);
  std::thread answering([&] {
    const File came(accept(stranger.fd(), nullptr, nullptr));
    const auto forged = LifelineChannel(LifelineChannel::End::kHub, {1, 2})
                            .sign(make_message(wire::LifelineKind::kChallenge, {}, {7}));
    EXPECT_EQ(send(came.fd(), &forged, sizeof(forged), MSG_NOSIGNAL), ssize_t{sizeof(forged)});
    char byte;
    EXPECT_LE(recv(came.fd(), &byte, 1, 0), 0) << "a rank answered a stranger";
  });
  invitation.addresses = {"127.0.0.3", "127.0.0.1"};
  hub.let_rank_1_come(invitation.text());
  answering.join();
}

TEST(LifelineSocket, ListensOnTheNamedInterface) {
  for (const char* interface : {"lo", "127.0.0.0/8", "127.0.0.1"}) {
    const auto listener = listen_for_ranks({.only_this_host = false, .interface = interface});
    ASSERT_TRUE(listener.ok()) << listener.error().message();
    EXPECT_EQ(listener->addresses, std::vector<std::string>{"127.0.0.1"});
    sockaddr_in bound = {};
    socklen_t length = sizeof(bound);
    ASSERT_EQ(getsockname(listener->socket.fd(), reinterpret_cast<sockaddr*>(&bound), &length), 0);
    EXPECT_EQ(ntohl(bound.sin_addr.s_addr), INADDR_LOOPBACK) << interface;
  }
}

TEST(LifelineSocket, AnUnknownInterfaceIsReportedWithTheKnownOnes) {
  for (const char* interface : {"nosuch0", "240.0.0.0/8", "127.0.0.0/33", "127.0.0.0/", "1.2.3"}) {
    const auto listener = listen_for_ranks({.only_this_host = false, .interface = interface});
    ASSERT_FALSE(listener.ok()) << interface;
    EXPECT_THAT(listener.error().message(),
                HasSubstr(std::string("MILLRACE_INTERFACE=") + interface));
    EXPECT_THAT(listener.error().message(), HasSubstr("lo 127.0.0.1"));
  }
}

}  // namespace
}  // namespace millrace::comm
