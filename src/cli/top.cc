// The verb `top`: a job while it runs.
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "base/system/clock.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "cli/verbs.h"
#include "watch/watch.h"

namespace millrace::cli {
namespace {

using std::chrono::nanoseconds;
using watch::JobState;
using watch::Snapshot;

constexpr nanoseconds kIntervalDefault = std::chrono::seconds(1);
constexpr nanoseconds kIntervalMin = std::chrono::milliseconds(50);
constexpr nanoseconds kIntervalMax = std::chrono::hours(1);
// Poll often before the job starts, to not miss a short one.
constexpr nanoseconds kWaitingInterval = std::chrono::milliseconds(100);
constexpr size_t kProblemsShown = 3;

Result<nanoseconds> parse_interval(std::string_view text) {
  ASSIGN_OR_RETURN(const nanoseconds interval, parse_duration(text));
  if (interval >= kIntervalMin && interval <= kIntervalMax) return interval;
  return fail(Errc::kInvalidArgument, "{} is not between {} and {}", format_duration(interval),
              format_duration(kIntervalMin), format_duration(kIntervalMax));
}

Status check_interval(std::string_view text) {
  RETURN_IF_ERROR(parse_interval(text));
  return {};
}

volatile sig_atomic_t is_interrupted = 0;
void interrupt(int) { is_interrupted = 1; }

// Ctrl-C ends the loop instead of the process, so that the terminal settings are restored.
void catch_signals() {
  struct sigaction action{};
  action.sa_handler = interrupt;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

// Reads single keys without echo, if input and output are a terminal.
class Keys {
 public:
  explicit Keys(bool wanted) {
    if (!wanted || isatty(STDIN_FILENO) != 1 || tcgetattr(STDIN_FILENO, &before_) != 0) return;
    // A background process that changes the terminal would be stopped.
    if (tcgetpgrp(STDIN_FILENO) != getpgrp()) return;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    changed_ = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
  }
  ~Keys() {
    if (changed_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;

  // Waits until `end`. False if the user wants to quit.
  bool wait_until(nanoseconds end) const {
    while (is_interrupted == 0) {
      const nanoseconds left = end - monotonic_now();
      if (left <= nanoseconds(0)) return true;
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
      const timespec timeout{seconds.count(), (left - seconds).count()};
      pollfd input{.fd = changed_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0};
      if (ppoll(&input, 1, &timeout, nullptr) > 0) {
        char key = 0;
        const ssize_t count = read(STDIN_FILENO, &key, 1);
        if (count <= 0 || key == 'q' || key == 'Q') return false;
      }
    }
    return false;
  }

 private:
  termios before_{};
  bool changed_ = false;
};

size_t terminal_rows() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 2 ? size.ws_row : 24;
}

// A block of text that replaces the previous one.
class Screen {
 public:
  explicit Screen(Output& output) : output_(output) {}

  void show(const std::string& text) {
    const size_t rows = terminal_rows() - 1;
    std::string out = drawn_ > 0 ? fmt::format("\x1b[{}A\r", drawn_) : "";
    size_t drawn = 0;
    for (size_t at = 0; at < text.size() && drawn < rows; ++drawn) {
      const size_t end = std::min(text.find('\n', at), text.size());
      out += text.substr(at, end - at) + "\x1b[K\n";
      at = end + 1;
    }
    output_.print(out + "\x1b[J");
    drawn_ = drawn;
  }

 private:
  Output& output_;
  size_t drawn_ = 0;
};

// Shows snapshots: in place on a terminal, otherwise one block after another, or as JSON.
class Display {
 public:
  Display(const Arguments& arguments, Output& output)
      : directory_(arguments.positionals().front()),
        as_json_(arguments.has("json")),
        in_place_(output.terminal().is_terminal && can_move() && !as_json_ &&
                  !arguments.has("once")),
        output_(output),
        screen_(output) {}

  bool in_place() const { return in_place_; }

  Status show(const Snapshot& snapshot) {
    if (as_json_) {
      output_.print(watch::snapshot_json(snapshot, directory_));
    } else if (in_place_) {
      show_in_place(snapshot);
    } else {
      tell_problems(snapshot);
      if (shown_) output_.print("\n");
      output_.print(watch::snapshot_text(snapshot, directory_, output_.terminal()));
    }
    shown_ = true;
    return output_.finish();
  }

  // Not for JSON, which contains the state.
  void say(const std::string& sentence) {
    if (as_json_) return;
    output_.print(shown_ ? fmt::format("\n{}\n", sentence) : fmt::format("{}\n", sentence));
  }

  void tell_problems(const Snapshot& snapshot) const {
    if (as_json_) return;
    for (const std::string& problem : snapshot.problems) {
      fmt::print(stderr, "millrace: {}\n", printable(problem));
    }
  }

 private:
  static bool can_move() {
    const char* kind = std::getenv("TERM");
    return kind != nullptr && std::string_view(kind) != "dumb";
  }

  void show_in_place(const Snapshot& snapshot) {
    const Terminal terminal = inspect_terminal(STDOUT_FILENO);  // it may have been resized
    problems_.insert(problems_.end(), snapshot.problems.begin(), snapshot.problems.end());
    std::string text = watch::snapshot_text(snapshot, directory_, terminal);
    const size_t first = problems_.size() - std::min(kProblemsShown, problems_.size());
    for (size_t i = first; i < problems_.size(); ++i) {
      text += shorten("! " + printable(problems_[i]), terminal.columns) + "\n";
    }
    screen_.show(text + styled("q quits", Style::kDim, terminal.color) + "\n");
  }

  std::string directory_;
  bool as_json_;
  bool in_place_;
  bool shown_ = false;
  Output& output_;
  Screen screen_;
  std::vector<std::string> problems_;
};

std::string end_sentence(const std::string& directory, const Snapshot& snapshot) {
  return fmt::format(
      "{}: the job has ended; it read {} and wrote {} in {} calls while watched. `millrace report` "
      "shows the whole job",
      printable(directory), format_bytes(snapshot.total.reads.bytes),
      format_bytes(snapshot.total.writes.bytes), format_exact(snapshot.total.all().count));
}

Result<int> run_once(watch::JobWatch& job, const Arguments& arguments, nanoseconds interval,
                     Output& output) {
  Display display(arguments, output);
  const Snapshot first = job.look();
  const std::string& directory = arguments.positionals().front();
  if (first.state != JobState::kRunning) {
    if (arguments.has("json")) RETURN_IF_ERROR(display.show(first));
    display.tell_problems(first);
    const bool waits = first.state == JobState::kWaiting;
    if (arguments.has("json")) return kExitFailure;
    return fail(Errc::kNotFound, "{}: {}", directory,
                waits ? "nothing is recorded yet; the job has not started"
                      : "the job has ended; `millrace report` shows what it did");
  }
  display.tell_problems(first);
  const Keys keys(false);
  if (!keys.wait_until(monotonic_now() + interval)) return kExitFailure;
  RETURN_IF_ERROR(display.show(job.look()));
  return kExitSuccess;
}

Result<int> run_on(watch::JobWatch& job, const Arguments& arguments, nanoseconds interval,
                   Output& output) {
  Display display(arguments, output);
  const std::string& directory = arguments.positionals().front();
  Snapshot snapshot = job.look();
  display.tell_problems(snapshot);
  if (snapshot.state == JobState::kWaiting) {
    fmt::print(stderr, "millrace: {}: nothing is recorded yet; waiting for the job to start\n",
               printable(directory));
  }
  if (snapshot.state == JobState::kEnded) {
    if (arguments.has("json")) RETURN_IF_ERROR(display.show(snapshot));
    display.say(fmt::format("{}: the job has ended; `millrace report` shows what it did",
                            printable(directory)));
    return kExitSuccess;
  }
  const Keys keys(display.in_place());
  nanoseconds next = monotonic_now();
  while (true) {
    // Schedule by the clock, so that intervals do not drift; skip those that were missed.
    const bool waits = snapshot.state == JobState::kWaiting;
    next =
        std::max(next + (waits ? std::min(interval, kWaitingInterval) : interval), monotonic_now());
    if (!keys.wait_until(next)) return kExitSuccess;
    snapshot = job.look();
    if (snapshot.state == JobState::kWaiting) continue;
    RETURN_IF_ERROR(display.show(snapshot));
    if (snapshot.state != JobState::kEnded) continue;
    display.say(end_sentence(directory, snapshot));
    return kExitSuccess;
  }
}

Result<int> run_top(const Arguments& arguments, Output& output) {
  nanoseconds interval = kIntervalDefault;
  if (const auto given = arguments.value("interval")) {
    ASSIGN_OR_RETURN(interval, parse_interval(*given));
  }
  ASSIGN_OR_RETURN(watch::JobWatch job, watch::JobWatch::open(arguments.positionals().front()));
  catch_signals();
  return arguments.has("once") ? run_once(job, arguments, interval, output)
                               : run_on(job, arguments, interval, output);
}

}  // namespace

Command top_command() {
  return {
      .name = "top",
      .summary = "watch a running job: bandwidth, calls, waiting, busiest files and ranks",
      .description =
          "Shows what a job is doing right now, from its recording. This does not slow it down: "
          "top writes nothing into its files and sends no signals. Give the directory that "
          "`millrace trace -o` records into. top may be started before the job.\n\n"
          "Calls and regions count in the interval in which they end: a read or a `batch_wait` in "
          "progress is not counted yet. If the program has regions `batch_wait` or `fetch`, "
          "waiting is the time in them; otherwise it is the share of time that a thread of the "
          "main process spends in calls.\n\n"
          "On a terminal the display is updated in place, and q quits; otherwise each interval is "
          "printed as a block of text. top exits when the job ends. With --once, the exit code is "
          "0 after one interval, and 1 if no job is running.",
      .options = {{.name = "interval",
                   .letter = 'i',
                   .value = "DURATION",
                   .help = "length of each interval (1s)",
                   .check = check_interval},
                  {.name = "once", .help = "show one interval and exit"},
                  json_option()},
      .positionals = {{.name = "TRACE_DIR",
                       .help = "the directory that the job records into",
                       .kind = ValueKind::kDirectory}},
      .examples = {{"millrace top t/", "the job that records into t/, updated every second"},
                   {"millrace top --once --json --interval 10s t/ | jq .window.reads.bytes",
                    "bytes read in ten seconds, for a monitoring system"}},
      .run = run_top,
  };
}

}  // namespace millrace::cli
