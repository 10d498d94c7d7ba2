#include "store/client/service_client.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

#include "store/testing/store_case.h"
#include "wire/store_state.h"

namespace millrace::store {
namespace {

// A service that answers when it is told to.
class StoreServiceClient : public StoreCase {
 protected:
  void SetUp() override {
    StoreCase::SetUp();
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = (top_ / wire::kStoreSocketFile).string();
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    listener_ = File(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_EQ(bind(listener_.fd(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(listen(listener_.fd(), 1), 0);
  }

  // Waits for a request.
  void receive() {
    connection_ = File(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_EQ(::recv(connection_.fd(), &request_, sizeof(request_), 0),
              static_cast<ssize_t>(sizeof(request_)));
  }
  void answer() {
    const wire::StoreReply reply{.magic = wire::kStoreMessageMagic,
                                 .version = wire::kStoreMessageVersion,
                                 .kind = request_.kind,
                                 .id = request_.id,
                                 .error = 0,
                                 .reserved = 0};
    ASSERT_EQ(::send(connection_.fd(), &reply, sizeof(reply), MSG_NOSIGNAL),
              static_cast<ssize_t>(sizeof(reply)));
  }

  File listener_;
  File connection_;
  wire::StoreRequest request_{};
};

TEST_F(StoreServiceClient, ASignalDoesNotEndTheWait) {
  struct sigaction before{};
  struct sigaction action{};
  action.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  std::thread service([this, waiter = pthread_self()] {
    receive();
    for (int i = 0; i < 20; ++i) {
      pthread_kill(waiter, SIGUSR1);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    answer();
  });
  auto client = ServiceClient::connect(top_);
  ASSERT_TRUE(client.ok());
  EXPECT_TRUE(client->ask(7, 1).ok());
  const auto reply = client->next(kTestPatience);
  EXPECT_TRUE(reply.ok()) << reply.error().message();
  service.join();
  sigaction(SIGUSR1, &before, nullptr);
}

// A batch system suspends a job: programs and services.
TEST_F(StoreServiceClient, TheTimeInWhichTheProgramIsStoppedDoesNotCount) {
  const pid_t program = fork();
  if (program == 0) {
    auto client = ServiceClient::connect(top_);
    if (!client.ok() || !client->ask(7, 1).ok()) _exit(1);
    _exit(client->next(std::chrono::seconds(1)).ok() ? 0 : 2);
  }
  receive();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // it waits
  kill(program, SIGSTOP);
  int status = -1;
  ASSERT_EQ(waitpid(program, &status, WUNTRACED), program);
  ASSERT_TRUE(WIFSTOPPED(status));
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  kill(program, SIGCONT);
  answer();
  ASSERT_EQ(waitpid(program, &status, 0), program);
  EXPECT_EQ(status, 0);
}

TEST_F(StoreServiceClient, ASilentServiceIsATimeout) {
  auto client = ServiceClient::connect(top_);
  ASSERT_TRUE(client.ok());
  ASSERT_TRUE(client->ask(7, 1).ok());
  const auto reply = client->next(std::chrono::milliseconds(1));
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().code(), Errc::kTimeout);
}

TEST_F(StoreServiceClient, AServiceThatWasSilentIsNotAskedAgainForAWhile) {
  ServiceLine line;
  line.deadline_ms = 100;
  const Status first = ask_service(line, top_, 1);
  ASSERT_FALSE(first.ok());
  EXPECT_EQ(first.error().message(), "the store's service does not answer");
  line.silent_until_ns = line_now_ns() + uint64_t{3600} * 1'000'000'000;
  listener_ = File();  // it would be an error to connect
  const Status second = ask_service(line, top_, 1);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), Errc::kTimeout);
  EXPECT_EQ(second.error().message(), "the service does not answer");
}

TEST_F(StoreServiceClient, AServiceThatAcceptsNobodyIsATimeout) {
  std::vector<ServiceClient> waiting;  // until the queue of the listener is full
  ServiceLine line;
  line.deadline_ms = 50;
  for (int i = 0; i < 2; ++i) waiting.push_back(*ServiceClient::connect(top_));
  const Status asked = ask_service(line, top_, 1);
  ASSERT_FALSE(asked.ok());
  EXPECT_GT(line.silent_until_ns.load(), 0u);
}

TEST(ServiceLine, TheDeadlineIsANumberOfMillisecondsUpToAnHour) {
  EXPECT_EQ(deadline_ms_of("1"), 1u);
  EXPECT_EQ(deadline_ms_of("3600000"), 3'600'000u);
  for (const char* wrong : {"", "0", "-1", "3600001", "99999999999999999999", "1 ", "1s"}) {
    EXPECT_EQ(deadline_ms_of(wrong), wire::kStoreDeadlineMs) << wrong;
  }
  EXPECT_EQ(deadline_ms_of(nullptr), wire::kStoreDeadlineMs);
}

}  // namespace
}  // namespace millrace::store
