// Random programs on a buffer, compared with a plain directory. The drainer is a process that is
// killed again and again. Another process looks at the upper directory all the time: whatever has a
// name there must be complete.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "store/testing/buffer_case.h"

namespace millrace::store {
namespace {

constexpr int kNames = 6;
constexpr int kSteps = 300;

// A content says how long it is.
std::string make_content(size_t size) {
  return fmt::format("{:08}", size) + std::string(size - 8, 'x');
}
bool is_complete(const std::string& text) {
  return text.size() >= 8 && std::stoul(text.substr(0, 8)) == text.size();
}

class RandomDrainTest : public BufferCase, public testing::WithParamInterface<unsigned> {
 protected:
  RandomDrainTest() : random_(GetParam()) {}

  std::string any_name() { return "n" + std::to_string(random_() % kNames); }

  template <typename Run>
  static pid_t start_process(Run run) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    run();
    ::_exit(1);
  }
  static int kill_process(pid_t process) {
    int status = 0;
    ::kill(process, SIGKILL);
    ::waitpid(process, &status, 0);
    return status;
  }

  void start_drain_process() {
    drain_process_ = start_process([this] {
      // Otherwise it would wait for its own copies.
      for (const auto& [name, writer] : open_) ::close(writer.fd);
      for (const Writer writer : nameless_) ::close(writer.fd);
      const auto drainer = drain(std::chrono::milliseconds(5));
      for (;;) ::pause();
    });
  }
  void observe() const {
    for (;;) {
      for (int i = 0; i < kNames; ++i) {
        const std::string text = read_upper("n" + std::to_string(i));
        if (text != "-" && !is_complete(text)) return;
      }
    }
  }

  // A file that loses its name is still written.
  void lose_name(const std::string& name) {
    if (const auto found = open_.find(name); found != open_.end()) {
      nameless_.push_back(found->second);
      open_.erase(found);
    }
  }

  void write_some(const std::string& name) {
    model_[name] = make_content(8 + random_() % 50'000);
    write(name, model_[name]);
    lose_name(name);
  }
  void open_some(const std::string& name) {
    lose_name(name);
    model_[name] = make_content(8 + random_() % 50'000);
    open_[name] = open_writer(name, model_[name]);
  }
  void close_some() {
    if (open_.empty()) return;
    close_writer(open_.begin()->second);
    open_.erase(open_.begin());
  }
  void rename_some(const std::string& from, const std::string& to) {
    if (!model_.contains(from) || from == to) return;
    const int result = rename_buffered(buffer(), from, to, 0);
    if (result == kNotBuffered) {
      if (open_.contains(to)) return;  // it would wait for us
      ASSERT_EQ(wait_native(buffer(), from, to), 0);
      ASSERT_EQ(::rename((upper / from).c_str(), (upper / to).c_str()), 0);
    } else {
      ASSERT_EQ(result, 0);
    }
    model_[to] = model_[from];
    model_.erase(from);
    lose_name(to);
    if (const auto found = open_.find(from); found != open_.end()) {
      open_[to] = found->second;
      open_.erase(from);
    }
  }
  void remove_some(const std::string& name) {
    if (!model_.contains(name)) return;
    remove(name);
    model_.erase(name);
    lose_name(name);
  }

  void step() {
    const std::string name = any_name();
    switch (random_() % 8) {
      case 0:
      case 1:
        write_some(name);
        break;
      case 2:
        open_some(name);
        break;
      case 3:
        close_some();
        break;
      case 4:
      case 5:
        rename_some(name, any_name());
        break;
      case 6:
        remove_some(name);
        break;
      case 7:
        kill_process(drain_process_);
        start_drain_process();
        break;
    }
    EXPECT_EQ(read(name).substr(0, 99), model_.contains(name) ? model_[name].substr(0, 99) : "-");
  }

  std::mt19937 random_;
  std::map<std::string, std::string> model_;
  std::map<std::string, Writer> open_;  // by the present name
  std::vector<Writer> nameless_;
  pid_t drain_process_ = 0;
};

TEST_P(RandomDrainTest, EndsLikeAPlainDirectoryAndShowsNothingPartial) {
  const pid_t observer = start_process([this] { observe(); });
  start_drain_process();
  for (int i = 0; i < kSteps && !HasFailure(); ++i) {
    SCOPED_TRACE(fmt::format("seed {}, step {}", GetParam(), i));
    step();
  }
  kill_process(drain_process_);
  while (!open_.empty()) close_some();
  for (const Writer writer : nameless_) close_writer(writer);
  EXPECT_EQ(reasons(drain()->finish()), "");
  EXPECT_TRUE(WIFSIGNALED(kill_process(observer))) << "it has seen a partial file";
  EXPECT_EQ(upper_files(), model_);
  EXPECT_FALSE(std::filesystem::exists(directory));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomDrainTest, testing::Range(1u, 4u));

}  // namespace
}  // namespace millrace::store
