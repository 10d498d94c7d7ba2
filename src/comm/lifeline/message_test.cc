#include "comm/lifeline/message.h"

#include <gtest/gtest.h>

namespace millrace::comm {
namespace {

TEST(LifelineMessage, AnInvitationCanBeReadBack) {
  const Invitation made = {.hub = {.rank = Rank{0}, .pid = 7, .host = "node1"},
                           .key = {3, 4},
                           .port = 4711,
                           .addresses = {"10.0.0.1", "127.0.0.1"}};
  const auto read = read_invitation(made.text());
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(read->hub.text(), "rank 0 (process 7 on node1)");
  EXPECT_EQ(read->key, made.key);
  EXPECT_EQ(read->port, 4711);
  EXPECT_EQ(read->addresses, made.addresses);
}

TEST(LifelineMessage, ATruncatedInvitationIsRefused) {
  const std::string whole =
      Invitation{.hub = own_name(Rank{0}), .key = {3, 4}, .port = 4711, .addresses = {"10.0.0.1"}}
          .text();
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(read_invitation(whole.substr(0, length)).ok()) << length;
  }
}

// Both ends of a connection after the greeting.
struct Channels {
  explicit Channels(const JobKey& key = {3, 4})
      : hub(LifelineChannel::End::kHub, key), rank(LifelineChannel::End::kRank, key) {
    const auto challenge = hub.sign(make_message(wire::LifelineKind::kChallenge, {}, {8}));
    EXPECT_TRUE(rank.check(std::as_bytes(std::span(&challenge, 1)), 8).ok());
    const auto join = rank.sign(make_message(wire::LifelineKind::kJoin, own_name(Rank{1}), {9}));
    EXPECT_TRUE(hub.check(std::as_bytes(std::span(&join, 1)), 8).ok());
  }

  LifelineChannel hub;
  LifelineChannel rank;
};

TEST(LifelineMessage, CanBeReadBack) {
  Channels channels;
  const RankName name = {.rank = Rank{7}, .pid = 4711, .host = "node7"};
  const auto made = channels.hub.sign(make_message(wire::LifelineKind::kLost, name));
  const auto read = channels.rank.check(std::as_bytes(std::span(&made, 1)), 8);
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(name_in(*read).text(), "rank 7 (process 4711 on node7)");
}

TEST(LifelineMessage, EveryFlippedBitIsNoticed) {
  Channels channels;
  auto message = channels.rank.sign(make_message(wire::LifelineKind::kBye, own_name(Rank{1})));
  const auto bytes = std::as_writable_bytes(std::span(&message, 1));
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    const auto mask = static_cast<std::byte>(1 << bit % 8);
    bytes[bit / 8] ^= mask;
    EXPECT_FALSE(channels.hub.check(bytes, 8).ok()) << "bit " << bit;
    bytes[bit / 8] ^= mask;
  }
  EXPECT_TRUE(channels.hub.check(bytes, 8).ok());
}

TEST(LifelineMessage, IsValidOnlyOnceInOneDirectionOfOneConnection) {
  Channels channels;
  const auto bye = channels.rank.sign(make_message(wire::LifelineKind::kBye, own_name(Rank{1})));
  const auto bytes = std::as_bytes(std::span(&bye, 1));
  EXPECT_FALSE(channels.rank.check(bytes, 8).ok()) << "sent back";
  Channels other_job({3, 5});
  EXPECT_FALSE(other_job.hub.check(bytes, 8).ok()) << "another key";
  LifelineChannel other_connection(LifelineChannel::End::kHub, {3, 4});
  EXPECT_FALSE(other_connection.check(bytes, 8).ok()) << "another connection";
  EXPECT_TRUE(channels.hub.check(bytes, 8).ok());
  EXPECT_FALSE(channels.hub.check(bytes, 8).ok()) << "twice";
}

TEST(LifelineMessage, ARankBeyondTheLastIsRefused) {
  const auto message = make_message(wire::LifelineKind::kJoin, own_name(Rank{5}));
  const auto bytes = std::as_bytes(std::span(&message, 1));
  EXPECT_TRUE(read_message(bytes, 6).ok());
  EXPECT_FALSE(read_message(bytes, 5).ok());
}

TEST(LifelineMessage, ALongHostNameIsCut) {
  const auto message =
      make_message(wire::LifelineKind::kJoin, {.rank = Rank{0}, .host = std::string(300, 'h')});
  const auto read = read_message(std::as_bytes(std::span(&message, 1)), 1);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(name_in(*read).host, std::string(71, 'h'));
}

}  // namespace
}  // namespace millrace::comm
