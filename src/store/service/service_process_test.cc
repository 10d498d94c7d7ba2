#include "store/service/service_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/testing/service_case.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

using testing::HasSubstr;
using testing::IsEmpty;

// Waits until a child of ours has ended.
int end_of(pid_t pid) {
  int status = -1;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return status;
}

class StoreServiceProcess : public StoreService {
 protected:
  StartedService start(File watched = File()) {
    ServiceProcessOptions process;
    process.service = options();
    process.watched = std::move(watched);
    process.is_background = true;
    auto service = start_service_process(std::move(process));
    EXPECT_TRUE(service.ok()) << service.error().message();
    return service.ok() ? *std::move(service) : StartedService{};
  }
};

TEST_F(StoreServiceProcess, EndsAtSigtermAndLeavesNothing) {
  pack();
  const StartedService service = start();
  const auto node = read_node(service.node);
  ASSERT_TRUE(node.ok());
  EXPECT_EQ(node->state.service_pid, static_cast<uint32_t>(service.pid));
  EXPECT_EQ(ask_node(service.node, 0), EINVAL);
  ASSERT_TRUE(end_node(*node, kTestPatience).ok());
  EXPECT_EQ(end_of(service.pid), 0);
  EXPECT_FALSE(fs::exists(service.node));
}

TEST_F(StoreServiceProcess, EndsWithTheProcessThatItWatches) {
  pack();
  const pid_t launcher = fork();
  if (launcher == 0) {
    for (;;) pause();
  }
  const StartedService service = start(watch_process(launcher));
  EXPECT_TRUE(fs::exists(service.node / "state"));
  kill(launcher, SIGKILL);
  end_of(launcher);
  EXPECT_EQ(end_of(service.pid), 0);
  EXPECT_FALSE(fs::exists(service.node));
}

TEST_F(StoreServiceProcess, IsSeenAsDeadWhenKilledAndTheNextRemovesItsFolder) {
  pack();
  const StartedService killed = start();
  const auto client = ServiceClient::connect(killed.node);
  ASSERT_TRUE(client.ok());
  kill(killed.pid, SIGKILL);
  end_of(killed.pid);
  EXPECT_FALSE(client->next(kTestPatience).ok());  // fails at once, not after the deadline
  EXPECT_FALSE(ServiceClient::connect(killed.node).ok());
  const auto node = read_node(killed.node);
  ASSERT_TRUE(node.ok());
  EXPECT_FALSE(node->is_running);
  EXPECT_THAT(find_nodes(local_), IsEmpty());

  const StartedService next = start();
  EXPECT_FALSE(fs::exists(killed.node));
  const auto running = find_nodes(local_);
  ASSERT_EQ(running.size(), 1u);
  EXPECT_EQ(running[0].path, next.node);
  EXPECT_TRUE(end_node(running[0], kTestPatience).ok());
  end_of(next.pid);
}

TEST_F(StoreServiceProcess, NeverPublishesAFileInPartWhenKilledInTheMiddle) {
  for (int i = 0; i < 40; ++i) {
    put_file(source_ / "many" / std::to_string(i), std::string((1 << 20) + i, 'm'));
  }
  pack();
  for (int kill_after = 0; kill_after < 30; kill_after += 10) {
    const StartedService service = start();
    const auto catalogue = Catalogue::open(service.node / "catalogue");
    const auto client = ServiceClient::connect(service.node);
    ASSERT_TRUE(catalogue.ok() && client.ok());
    for (uint32_t i = 0; i < catalogue->entry_count(); ++i) ASSERT_TRUE(client->ask(i, i).ok());
    for (int i = 0; i <= kill_after; ++i) ASSERT_TRUE(client->next(kTestPatience).ok());
    kill(service.pid, SIGKILL);
    end_of(service.pid);
    for (uint32_t i = 0; i < catalogue->entry_count(); ++i) {
      if (catalogue->entry(i).kind != wire::EntryKind::kFile) continue;
      const fs::path made = service.node / "tree" / catalogue->path(i);
      if (!fs::exists(made)) continue;
      EXPECT_EQ(content_of(made), content_of(source_ / catalogue->path(i)));
      EXPECT_EQ(mtime_of(made), catalogue->entry(i).mtime_ns);
    }
  }
  EXPECT_EQ(remove_stale_nodes(local_), 1u);  // each start has removed the one before
}

TEST_F(StoreServiceProcess, LeavesFoldersAloneThatAreNotNodes) {
  pack();
  fs::create_directories(nodes_directory(local_) / "notes");
  const fs::path thesis = nodes_directory(local_) / "fedcba9876543210" / "thesis";
  fs::create_directories(thesis);
  fs::create_directories(nodes_directory(local_) / "0123456789abcdef");  // killed very early
  const StartedService service = start();
  EXPECT_TRUE(fs::exists(nodes_directory(local_) / "notes"));
  EXPECT_TRUE(fs::exists(thesis));
  EXPECT_FALSE(fs::exists(nodes_directory(local_) / "0123456789abcdef"));
  kill(service.pid, SIGTERM);
  end_of(service.pid);
}

TEST_F(StoreServiceProcess, TellsWhyItCannotStart) {
  ServiceProcessOptions process;
  process.service = options();  // nothing is packed
  const auto service = start_service_process(std::move(process));
  ASSERT_FALSE(service.ok());
  EXPECT_THAT(service.error().message(), HasSubstr("no such pack"));
}

// The folder is private; here it is opened, so that the socket itself must refuse.
TEST_F(StoreServiceProcess, RefusesOtherUsers) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  pack();
  const auto service = started(options());
  ASSERT_TRUE(service);
  for (fs::path at = service->node(); at != "/tmp"; at = at.parent_path()) {
    fs::permissions(at, fs::perms(0755));
  }
  fs::permissions(service->node() / "socket", fs::perms(0666));
  const pid_t stranger = fork();
  if (stranger == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(1);
    auto client = ServiceClient::connect(service->node());
    if (!client.ok()) _exit(2);
    static_cast<void>(client->ask(1, 1).ok());
    _exit(client->next(kTestPatience).ok() ? 3 : 0);
  }
  EXPECT_EQ(end_of(stranger), 0);
  EXPECT_EQ(asked(*service, "text"), 0);
}

}  // namespace
}  // namespace millrace::store
