#include "comm/doorbell.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/system/clock.h"

namespace millrace::comm {
namespace {

using namespace std::chrono_literals;

TEST(Doorbell, ARingWakesItsOwner) {
  const auto bell = Doorbell::make();
  ASSERT_TRUE(bell.ok()) << bell.error().message();
  const auto found = Doorbell::find(bell->address());
  ASSERT_TRUE(found);
  const uint32_t seen = bell->count();
  std::thread ringer([&] {
    std::this_thread::sleep_for(20ms);
    found->ring();
  });
  while (bell->count() == seen) bell->wait(seen, 600s);  // the test's time limit is shorter
  ringer.join();
  EXPECT_EQ(bell->count(), seen + 1);
}

TEST(Doorbell, ARingBeforeTheWaitIsNotMissed) {
  const auto bell = Doorbell::make();
  ASSERT_TRUE(bell.ok()) << bell.error().message();
  const uint32_t seen = bell->count();
  bell->ring();
  bell->wait(seen, 600s);
  EXPECT_EQ(bell->count(), seen + 1);
}

TEST(Doorbell, AWaitEndsAfterItsPatience) {
  const auto bell = Doorbell::make();
  ASSERT_TRUE(bell.ok()) << bell.error().message();
  bell->wait(bell->count(), 1ms);
  EXPECT_EQ(bell->count(), 0u);
}

TEST(Doorbell, AnotherProcessCanRing) {
  const auto bell = Doorbell::make();
  ASSERT_TRUE(bell.ok()) << bell.error().message();
  const std::string address = bell->address();
  const pid_t child = fork();
  if (child == 0) {
    const auto found = Doorbell::find(address);
    if (!found) _exit(1);
    found->ring();
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(bell->count(), 1u);
}

// The descriptor is the second word of the address.
int descriptor_of(const Doorbell& bell) {
  const std::string address = bell.address();
  return std::stoi(address.substr(address.find(' ')));
}

TEST(Doorbell, OnlyThisUserCanOpenItsMemory) {
  const auto bell = Doorbell::make();
  ASSERT_TRUE(bell.ok()) << bell.error().message();
  struct stat memory{};
  ASSERT_EQ(fstat(descriptor_of(*bell), &memory), 0);
  EXPECT_EQ(memory.st_mode & 0777, 0600u);
}

TEST(Doorbell, AForkedChildDoesNotHaveItsDescriptor) {
  const auto bell = Doorbell::make();
  ASSERT_TRUE(bell.ok()) << bell.error().message();
  const int fd = descriptor_of(*bell);
  const pid_t child = fork();
  if (child == 0) _exit(fcntl(fd, F_GETFD) < 0 ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Doorbell, AnAddressThatIsNotADoorbellIsNotFound) {
  const auto bell = Doorbell::make();
  ASSERT_TRUE(bell.ok()) << bell.error().message();
  const std::string address = bell->address();
  EXPECT_FALSE(Doorbell::find(""));
  EXPECT_FALSE(Doorbell::find("1 2 3"));
  EXPECT_FALSE(Doorbell::find("x"));
  EXPECT_FALSE(Doorbell::find(fmt::format("{} 0 1 2", getpid())));      // standard input
  EXPECT_FALSE(Doorbell::find(address.substr(0, address.size() - 1)));  // another key
  EXPECT_FALSE(Doorbell::find("99999999999999999999 1 1 1"));
}

}  // namespace
}  // namespace millrace::comm
