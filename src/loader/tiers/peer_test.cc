#include "loader/tiers/peer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

#include "comm/testing/threads.h"

namespace millrace::loader::tiers {
namespace {

using namespace std::chrono_literals;
using data::SampleId;

constexpr comm::MessageTag kTag{7};

// Holds all samples. Its answer to a question waits until it may continue, like that of a rank that
// was stopped.
class StoppedHolder {
 public:
  Peer::Lookup lookup() {
    return [this](SampleId, std::string& message) {
      ++asked;
      continues.wait();
      message += "bytes";
      return true;
    };
  }

  std::atomic<int> asked = 0;
  std::latch continues{1};
};

TEST(Peer, ARankThatDoesNotAnswerIsNotAskedUntilItDoes) {
  auto ranks = comm::threads_comm(2);
  std::unique_ptr<comm::Messages> holding;
  std::jthread other([&] { holding = *ranks[1]->open_messages(); });
  const std::unique_ptr<comm::Messages> asking = *ranks[0]->open_messages();
  other.join();
  StoppedHolder holder;
  const Peer its(*holding, kTag, holder.lookup());
  Peer peer(*asking, kTag, [](SampleId, std::string&) { return false; }, 1ms);

  for (const uint64_t sample : {3, 4, 5}) {
    const auto got = peer.ask(1, SampleId{sample});
    ASSERT_TRUE(got.ok()) << got.error().message();
    EXPECT_FALSE(got->has_value());  // the caller reads its source
  }
  while (holder.asked == 0) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(holder.asked, 1);

  holder.continues.count_down();
  for (bool has_answered = false; !has_answered;) {  // if it never does, ctest's time limit ends it
    const auto got = peer.ask(1, SampleId{6});
    ASSERT_TRUE(got.ok()) << got.error().message();
    has_answered = got->has_value();
    if (has_answered) {
      EXPECT_EQ(text_of((*got)->bytes()), "bytes");
    }
  }
}

}  // namespace
}  // namespace millrace::loader::tiers
