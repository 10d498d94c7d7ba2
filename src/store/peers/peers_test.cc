#include "store/peers/peers.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/system/clock.h"
#include "store/testing/store_case.h"

namespace millrace::store {
namespace {

using testing::HasSubstr;
using testing::SizeIs;
using wire::PeerKind;

constexpr PeerKind kEcho{100};
constexpr PeerKind kBytes{102};

// Services of one job, in this process.
class StorePeers : public StoreCase {
 protected:
  void make(uint32_t count) {
    places_.make(count);
    for (uint32_t i = 0; i < count; ++i) add(i);
  }

  PeersOptions options(uint32_t rank) {
    PeersOptions options = places_.options(rank);
    options.thread_count = 4;
    options.log = logger();
    return options;
  }

  // Asks as rank 0, and answers nobody.
  PeersOptions options_of_asker() {
    PeersOptions options;
    options.table = places_.table;
    options.deadline = std::chrono::seconds(30);
    options.log = logger();
    return options;
  }

  void add(uint32_t rank) {
    auto peers = std::make_unique<Peers>(options(rank));
    peers->serve(kEcho, [rank](Rank from, ByteView question) -> Result<PeerAnswer> {
      if (question.empty()) return fail(Errc::kNotFound, "nothing was asked");
      return PeerAnswer{
          .bytes = fmt::format("{} to {}: {}", rank, comm::index_of(from), text_of(question)),
          .view = {}};
    });
    peers->serve(kBytes, [this](Rank, ByteView) -> Result<PeerAnswer> {
      return PeerAnswer{.bytes = "head ", .view = bytes_of(long_)};
    });
    ASSERT_TRUE(peers->start().ok());
    peers_.push_back(std::move(peers));
  }

  std::string long_ = std::string(1 << 20, 'l');
  JobPlaces places_;
  std::vector<std::unique_ptr<Peers>> peers_;
};

TEST_F(StorePeers, AnswersEachOther) {
  make(3);
  for (uint32_t from = 0; from < 3; ++from) {
    for (uint32_t to = 0; to < 3; ++to) {
      const auto answer = peers_[from]->ask(static_cast<Rank>(to), kEcho, bytes_of("hello"));
      ASSERT_TRUE(answer.ok()) << answer.error().message();
      EXPECT_EQ(*answer, fmt::format("{} to {}: hello", to, from));
    }
  }
}

TEST_F(StorePeers, PassesAnErrorOfAHandlerOn) {
  make(2);
  const auto answer = peers_[0]->ask(Rank{1}, kEcho, {});
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code(), Errc::kNotFound);
  EXPECT_EQ(answer.error().message(), "node2 (rank 1): nothing was asked");
  EXPECT_FALSE(peers_[0]->is_lost(Rank{1}));
}

TEST_F(StorePeers, AsksManyQuestionsInOrder) {
  make(2);
  std::vector<std::string> answers;
  std::string question;
  const Status status = peers_[0]->ask_all(Rank{1}, kEcho,
                                           {.count = 10,
                                            .question =
                                                [&](uint64_t index) {
                                                  question = std::to_string(index);
                                                  return bytes_of(question);
                                                },
                                            .take = [&](uint64_t, ByteView answer) -> Status {
                                              answers.emplace_back(text_of(answer));
                                              return {};
                                            }});
  ASSERT_TRUE(status.ok()) << status.error().message();
  ASSERT_THAT(answers, SizeIs(10));
  EXPECT_EQ(answers[9], "1 to 0: 9");
}

TEST_F(StorePeers, ManyThreadsAskAtOnce) {
  make(2);
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&, i] {
      for (int j = 0; j < 50; ++j) {
        const auto whom = static_cast<uint32_t>((i + j) % 2);
        const auto answer = peers_[1 - whom]->ask(static_cast<Rank>(whom), kBytes, bytes_of("?"));
        if (answer.ok() && *answer == "head " + long_) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 16 * 50);
}

TEST_F(StorePeers, AnEndedPeerIsLostAtOnceAndTheLogSaysSoOnce) {
  make(3);
  ASSERT_TRUE(peers_[0]->ask(Rank{1}, kEcho, bytes_of("a")).ok());
  peers_[1].reset();
  for (int i = 0; i < 3; ++i) {
    const auto answer = peers_[0]->ask(Rank{1}, kEcho, bytes_of("b"));
    ASSERT_FALSE(answer.ok());
    EXPECT_THAT(answer.error().message(), HasSubstr("node2 (rank 1): "));
  }
  EXPECT_TRUE(peers_[0]->is_lost(Rank{1}));
  EXPECT_TRUE(peers_[0]->ask(Rank{2}, kEcho, bytes_of("c")).ok());
  ASSERT_THAT(lines_, SizeIs(1));
  EXPECT_THAT(lines_[0], HasSubstr("node2 (rank 1) is lost"));
}

TEST_F(StorePeers, TellsAllAndReturnsThoseThatFailed) {
  make(3);
  EXPECT_THAT(peers_[0]->tell_all(kEcho, bytes_of("news")), SizeIs(0));
  peers_[2].reset();
  const auto failed = peers_[0]->tell_all(kEcho, bytes_of("news"));
  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_EQ(failed[0].first, Rank{2});
}

// A peer that accepts connections and never says a word, as behind a cut cable.
TEST_F(StorePeers, SilenceIsPaidForOnce) {
  auto silent = comm::listen_for_ranks({.only_this_host = true, .interface = {}});
  auto own = comm::listen_for_ranks({.only_this_host = true, .interface = {}});
  ASSERT_TRUE(silent.ok() && own.ok());
  places_.table = {
      .job = random_job_name(), .key = {}, .places = {place_of(*own), place_of(*silent)}};
  places_.listeners.push_back(*std::move(own));
  PeersOptions made = options(0);
  made.deadline = std::chrono::milliseconds(50);
  Peers peers(std::move(made));
  const auto first = peers.ask(Rank{1}, kEcho, bytes_of("a"));
  ASSERT_FALSE(first.ok());
  EXPECT_EQ(first.error().code(), Errc::kTimeout);
  const auto second = peers.ask(Rank{1}, kEcho, bytes_of("a"));
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message(), HasSubstr("did not answer before"));
}

TEST_F(StorePeers, AStrangerWithoutTheKeyIsRefused) {
  make(2);
  PeerTable wrong = places_.table;
  wrong.key[0] ^= 1;
  auto listener = comm::listen_for_ranks({.only_this_host = true, .interface = {}});
  ASSERT_TRUE(listener.ok());
  PeersOptions made;
  made.table = wrong;
  made.listener = *std::move(listener);
  made.deadline = std::chrono::seconds(30);
  Peers stranger(std::move(made));
  EXPECT_FALSE(stranger.ask(Rank{1}, kEcho, bytes_of("let me in")).ok());
  EXPECT_TRUE(peers_[0]->ask(Rank{1}, kEcho, bytes_of("hello")).ok());
}

TEST_F(StorePeers, NoiseAndSilentStrangersDoNotStopAnyone) {
  make(2);
  std::vector<comm::OwnFile> strangers;
  for (int i = 0; i < 20; ++i) {
    auto socket = comm::begin_connect("127.0.0.1", places_.table.places[1].port);
    ASSERT_TRUE(socket.ok());
    if (i % 2 == 0) {
      ASSERT_TRUE(comm::send_all(*socket, bytes_of(long_).first(100),
                                 monotonic_now() + std::chrono::seconds(10))
                      .ok());
    }
    strangers.push_back(*std::move(socket));
  }
  EXPECT_TRUE(peers_[0]->ask(Rank{1}, kEcho, bytes_of("hello")).ok());
}

// A process that connects from another address, says nothing, and keeps its connections to its end.
// It tells after each 500.
pid_t fork_stranger(uint16_t port, int count, int told) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
  sockaddr_in other = own;
  other.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  other.sin_port = htons(port);
  for (int i = 1; i <= count; ++i) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    ::bind(fd, reinterpret_cast<const sockaddr*>(&own), sizeof(own));
    static_cast<void>(::connect(fd, reinterpret_cast<const sockaddr*>(&other), sizeof(other)));
    if (i % 500 == 0 && ::write(told, "x", 1) != 1) break;
  }
  ::pause();
  _exit(0);
}

TEST_F(StorePeers, AStrangerWithThousandsOfConnectionsDoesNotTakeTheDescriptors) {
  places_.make(2);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t stranger = fork_stranger(places_.table.places[1].port, 5000, ends[1]);
  ASSERT_GT(stranger, 0);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 160;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  add(0);
  add(1);
  char told = 0;
  for (int i = 0; i < 10 && ::read(ends[0], &told, 1) == 1; ++i) {
    Peers asker(options_of_asker());  // has no connections yet
    const auto answer = asker.ask(Rank{1}, kEcho, bytes_of("hello"));
    EXPECT_TRUE(answer.ok()) << answer.error().message();
    EXPECT_TRUE(File::open("/dev/null", O_RDONLY).ok());
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
  ::kill(stranger, SIGKILL);
  ::waitpid(stranger, nullptr, 0);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(PeerTable, IsReadAsItWasWritten) {
  const PeerTable table{.job = "0123456789abcdef",
                        .key = {1, 2, 255},
                        .places = {{.host = "node1", .port = 4711, .addresses = {"10.0.0.1"}},
                                   {.host = "node2", .port = 1, .addresses = {}}}};
  const auto read = read_table(table_text(table));
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(table_text(*read), table_text(table));
  EXPECT_FALSE(read_table("").ok());
  EXPECT_FALSE(read_table("0123456789abcdef 00\n").ok());
  EXPECT_FALSE(read_table("../escape 0102030405060708090a0b0c0d0e0f10\nnode1 1\n").ok());
}

}  // namespace
}  // namespace millrace::store
