#include "replay/run.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <memory>
#include <optional>
#include <thread>

#include "base/concurrency/mutex.h"
#include "base/concurrency/thread.h"
#include "base/system/clock.h"
#include "base/system/progress.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "interop/describe.h"
#include "replay/issue.h"

namespace millrace::replay {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr size_t kFailuresShown = 10;
constexpr size_t kOwnDescriptors = 64;  // standard streams, the terminal, libraries
constexpr int kSpins = 200;
constexpr auto kPauseMax = microseconds(100);
constexpr auto kStopInterval = milliseconds(20);  // how soon a sleeping thread sees a stop
constexpr auto kStartAhead = milliseconds(5);
constexpr uint64_t kProgressCalls = 1024;

enum class Phase : uint32_t { kWaiting, kOpening, kOpen, kFailed, kClosed };

struct HandleState {
  std::atomic<Phase> phase{Phase::kWaiting};
  std::atomic<uint32_t> uses_left{0};
  int error = 0;
  OpenHandle opened;
};

struct PathState {
  std::atomic<uint32_t> calls{0};    // that have returned
  std::atomic<uint32_t> changes{0};  // of them, those that changed the name
};

// What all threads share.
struct Shared {
  Shared(const Plan& the_plan, Folder& the_folder, const RunOptions& the_options)
      : plan(the_plan),
        folder(the_folder),
        options(the_options),
        handles(std::make_unique<HandleState[]>(plan.handles.size())),
        paths(std::make_unique<PathState[]>(plan.paths.size())),
        reached_ns(std::make_unique<std::atomic<uint64_t>[]>(plan.threads.size())),
        progress({.label = "replaying", .total = plan.steps.size()}) {
    for (size_t i = 0; i < plan.handles.size(); ++i) {
      handles[i].uses_left = plan.handles[i].use_count;
    }
  }

  bool is_stopped() const {
    return is_given_up.load(std::memory_order_relaxed) ||
           (options.stop != nullptr && options.stop->load(std::memory_order_relaxed));
  }

  void give_up(Error error) {
    const MutexLock lock(mutex);
    if (!problem) problem = std::move(error);
    is_given_up = true;
  }

  const Plan& plan;
  Folder& folder;
  const RunOptions& options;
  std::unique_ptr<HandleState[]> handles;
  std::unique_ptr<PathState[]> paths;
  std::unique_ptr<std::atomic<uint64_t>[]> reached_ns;  // by thread: recorded end of its call
  Progress progress;
  nanoseconds start{};  // of the first call
  std::atomic<bool> is_given_up = false;
  Mutex mutex;
  std::condition_variable thread_ended;
  std::optional<Error> problem GUARDED_BY(mutex);
  RunResult result GUARDED_BY(mutex);
  uint64_t first_begin_ns GUARDED_BY(mutex) = std::numeric_limits<uint64_t>::max();
  uint64_t last_end_ns GUARDED_BY(mutex) = 0;
};

// Waits until `is_met()`. False if the replay is stopped first.
template <typename Condition>
bool wait_for(const Shared& shared, Condition is_met) {
  nanoseconds pause = microseconds(1);
  for (int spin = 0; !is_met(); ++spin) {
    if (spin < kSpins) continue;
    if (shared.is_stopped()) return false;
    std::this_thread::sleep_for(pause);
    pause = std::min<nanoseconds>(pause * 2, kPauseMax);
  }
  return true;
}

// Sleeps until a time of the monotonic clock. False if the replay is stopped first.
bool sleep_until(const Shared& shared, nanoseconds time) {
  while (true) {
    if (shared.is_stopped()) return false;
    const nanoseconds now = monotonic_now();
    if (now >= time) return true;
    const nanoseconds end = std::min<nanoseconds>(time, now + kStopInterval);
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(end);
    const timespec until{seconds.count(), (end - seconds).count()};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
  }
}

// Makes the calls of one recorded thread.
class Worker {
 public:
  Worker(Shared& shared, size_t index)
      : shared_(shared),
        thread_(shared.plan.threads[index]),
        reached_ns_(shared.reached_ns[index]) {}

  void run() {
    auto buffer = Buffer::create(
        {.size_bytes = thread_.buffer_bytes, .seed = thread_.first, .random = thread_.writes});
    if (!buffer.ok()) return shared_.give_up(std::move(buffer).error());
    buffer_ = *std::move(buffer);
    if (shared_.options.timing == Timing::kAsRecorded) prctl(PR_SET_TIMERSLACK, 1);
    for (size_t i = 0; i < thread_.count; ++i) {
      if (!make(shared_.plan.steps[thread_.first + i])) break;
    }
    finish();
  }

 private:
  // False if the replay is stopped.
  bool make(const Step& step) {
    const nanoseconds due = shared_.start + nanoseconds(step.begin_ns - shared_.plan.begin_ns);
    if (shared_.options.timing == Timing::kAsRecorded && !sleep_until(shared_, due)) return false;
    if (shared_.is_stopped()) return false;
    reached_ns_ = step.begin_ns + static_cast<uint64_t>(step.duration_ns);
    const Action action = action_of(step.call);
    const Outcome outcome = closes(action)        ? close(step)
                            : opens(action)       ? open_handle(step)
                            : uses_handle(action) ? use(step, action)
                                                  : use_name(step, action);
    if (is_cut_) return false;
    account(step, action, outcome);
    if (shared_.options.timing == Timing::kAsRecorded) {
      const auto due_ns = static_cast<uint64_t>(due.count());
      lateness_ns_.add(outcome.begin_ns > due_ns ? outcome.begin_ns - due_ns : 0);
    }
    return true;
  }

  Outcome cut() {
    is_cut_ = true;
    return {};
  }
  static Outcome failed(int error) {
    const auto now = static_cast<uint64_t>(monotonic_now().count());
    return {.result = -1, .error = error, .begin_ns = now, .end_ns = now};
  }

  // ---- the order of calls on names ------------------------------------------------------------

  bool wait_for_path(uint32_t path, uint32_t before, bool changes) const {
    const PathState& state = shared_.paths[path];
    return wait_for(shared_, [&] { return (changes ? state.calls : state.changes) >= before; });
  }
  bool wait_for_names(const Step& step, uint32_t path) const {
    if (!wait_for_path(path, static_cast<uint32_t>(step.offset), step.has(kChangesName))) {
      return false;
    }
    return !step.has(kHasOther) ||
           wait_for_path(step.size, static_cast<uint32_t>(step.offset >> 32),
                         step.has(kChangesOther));
  }
  void note_path(uint32_t path, bool changes) const {
    PathState& state = shared_.paths[path];
    if (changes) ++state.changes;
    ++state.calls;
  }
  void note_names(const Step& step, uint32_t path) const {
    note_path(path, step.has(kChangesName));
    if (step.has(kHasOther)) note_path(step.size, step.has(kChangesOther));
  }

  // ---- open files -----------------------------------------------------------------------------

  std::string_view name(uint32_t path) const { return shared_.plan.relative(path); }

  Outcome open_handle(const Step& step) {
    const Handle& handle = shared_.plan.handles[step.target];
    HandleState& state = shared_.handles[step.target];
    if (!wait_for_names(step, handle.path)) return cut();
    const Outcome outcome = issue_open(handle, name(handle.path), shared_.folder, state.opened);
    note_names(step, handle.path);
    note_opened(handle, state, outcome);
    return outcome;
  }

  static void note_opened(const Handle& handle, HandleState& state, const Outcome& outcome) {
    state.error = outcome.error;
    if (outcome.result < 0) {
      state.phase = Phase::kFailed;
    } else if (handle.use_count == 0 && !handle.is_closed) {
      close_handle(state.opened);
      state.phase = Phase::kClosed;
    } else {
      state.phase = Phase::kOpen;
    }
  }

  // Waits until the file is open; opens it if no step does. False if the replay is stopped.
  bool reach(uint32_t index) {
    const Handle& handle = shared_.plan.handles[index];
    HandleState& state = shared_.handles[index];
    Phase waiting = Phase::kWaiting;
    if (handle.is_implied && state.phase.compare_exchange_strong(waiting, Phase::kOpening)) {
      const Outcome outcome = issue_open(handle, name(handle.path), shared_.folder, state.opened);
      note_opened(handle, state, outcome);
    }
    return wait_for(shared_, [&] { return state.phase.load() >= Phase::kOpen; });
  }

  void leave(uint32_t index) {
    const Handle& handle = shared_.plan.handles[index];
    HandleState& state = shared_.handles[index];
    if (state.uses_left.fetch_sub(1) == 1 && !handle.is_closed && state.phase == Phase::kOpen) {
      close_handle(state.opened);
      state.phase = Phase::kClosed;
    }
  }

  Outcome close(const Step& step) {
    HandleState& state = shared_.handles[step.target];
    const bool is_ready = wait_for(
        shared_, [&] { return state.uses_left == 0 && state.phase.load() >= Phase::kOpen; });
    if (!is_ready) return cut();
    if (state.phase == Phase::kFailed) return failed(state.error);
    const Outcome outcome = issue_close(step.call, state.opened);
    state.phase = Phase::kClosed;
    return outcome;
  }

  Outcome use(const Step& step, Action action) {
    if (!reach(step.target)) return cut();
    const Handle& handle = shared_.plan.handles[step.target];
    const HandleState& state = shared_.handles[step.target];
    Place where{.file = state.opened,
                .is_shared = handle.is_shared,
                .appends = (handle.flags & O_APPEND) != 0,
                .stop = shared_.options.stop};
    int error = state.error;
    if (action == Action::kTransfer) {
      where.transfer = &shared_.plan.transfers[step.offset];
      if (!reach(where.transfer->to)) return cut();
      where.other_file = shared_.handles[where.transfer->to].opened;
      where.appends = (shared_.plan.handles[where.transfer->to].flags & O_APPEND) != 0;
      if (error == 0) error = shared_.handles[where.transfer->to].error;
    }
    const Outcome outcome =
        error == 0 ? issue(step, where, buffer_, shared_.folder) : failed(error);
    leave(step.target);
    if (where.transfer != nullptr) leave(where.transfer->to);
    return outcome;
  }

  Outcome use_name(const Step& step, Action action) {
    const bool is_ordered = action != Action::kTruncateName;
    if (is_ordered && !wait_for_names(step, step.target)) return cut();
    const bool has_two = action == Action::kRename || action == Action::kLink;
    const uint32_t other = has_two && step.has(kHasOther) ? step.size : step.target;
    const Place where{.name = name(step.target),
                      .other_name = name(other),
                      .is_directory = shared_.plan.paths[step.target].is_directory};
    Outcome outcome = issue(step, where, buffer_, shared_.folder);
    if (is_ordered) note_names(step, step.target);
    const bool is_there =
        name(step.target).empty() || shared_.plan.paths[step.target].before == Existence::kPresent;
    const bool may_exist = action == Action::kMakeDirectory && is_there;
    if (outcome.error == EEXIST && may_exist) outcome.result = 0;
    return outcome;
  }

  // ---- results --------------------------------------------------------------------------------

  void account(const Step& step, Action action, const Outcome& outcome) {
    FunctionResult& function = functions_[step.call];
    const bool moves = moves_bytes(action);
    const bool failed_before = step.has(kFailedBefore);
    const uint64_t bytes = moves && outcome.result > 0 ? static_cast<uint64_t>(outcome.result) : 0;
    const uint64_t bytes_before = moves && !failed_before ? step.result_bytes() : 0;
    ++function.calls;
    function.recorded.add(static_cast<uint64_t>(step.duration_ns), bytes_before);
    function.replayed.add(outcome.end_ns - outcome.begin_ns, bytes);
    if (outcome.result < 0) {
      ++(failed_before ? function.failed_in_both : function.failed_here);
      if (!failed_before) describe_failure(step, action, outcome.error);
    } else if (failed_before) {
      ++function.succeeded_here;
    } else if (bytes < bytes_before) {
      ++function.short_count;
    }
    first_begin_ns_ = std::min(first_begin_ns_, outcome.begin_ns);
    last_end_ns_ = std::max(last_end_ns_, outcome.end_ns);
    if (++calls_ % kProgressCalls == 0) shared_.progress.add(kProgressCalls);
  }

  void describe_failure(const Step& step, Action action, int error) {
    if (failures_.size() >= kFailuresShown) return;
    const bool has_handle = !is_on_name(action);
    const uint32_t path = has_handle ? shared_.plan.handles[step.target].path : step.target;
    failures_.push_back(fmt::format("{} of {}: {}", interop::call_name(step.call),
                                    printable(shared_.folder.place_of(name(path))),
                                    describe_os_error(error)));
  }

  void finish() {
    reached_ns_ = std::numeric_limits<uint64_t>::max();
    shared_.progress.add(calls_ % kProgressCalls);
    const MutexLock lock(shared_.mutex);
    RunResult& result = shared_.result;
    for (const auto& [call, function] : functions_) result.functions[call].merge(function);
    result.lateness_ns.merge(lateness_ns_);
    result.calls += calls_;
    for (std::string& failure : failures_) {
      if (result.failures.size() < kFailuresShown) result.failures.push_back(std::move(failure));
    }
    shared_.first_begin_ns = std::min(shared_.first_begin_ns, first_begin_ns_);
    shared_.last_end_ns = std::max(shared_.last_end_ns, last_end_ns_);
  }

  Shared& shared_;
  const ThreadPlan& thread_;
  std::atomic<uint64_t>& reached_ns_;
  Buffer buffer_;
  bool is_cut_ = false;  // stopped in the middle of a step
  std::map<wire::Call, FunctionResult> functions_;
  QuantileSketch lateness_ns_;
  std::vector<std::string> failures_;
  uint64_t calls_ = 0;
  uint64_t first_begin_ns_ = std::numeric_limits<uint64_t>::max();
  uint64_t last_end_ns_ = 0;
};

// Starts and joins the threads.
class Crew {
 public:
  explicit Crew(Shared& shared) : shared_(shared), threads_(shared.plan.threads.size()) {
    has_ended_.resize(threads_.size());
    for (size_t i = 0; i < threads_.size(); ++i) by_end_.push_back(i);
    std::stable_sort(by_end_.begin(), by_end_.end(), [&](size_t a, size_t b) {
      return shared_.plan.threads[a].end_ns < shared_.plan.threads[b].end_ns;
    });
  }

  void run() {
    for (size_t i = 0; i < threads_.size() && wait_for_turn(i); ++i) {
      auto thread = start_thread("replay", [this, i] { work(i); });
      if (!thread.ok()) {
        shared_.give_up(std::move(thread).error());
        break;
      }
      threads_[i] = *std::move(thread);
    }
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

 private:
  void work(size_t index) {
    Worker(shared_, index).run();
    const MutexLock lock(shared_.mutex);
    has_ended_[index] = true;
    shared_.thread_ended.notify_all();
  }

  // Waits for the threads that had ended before this one began, and until the others have made the
  // calls that had returned by then: a worker reads what was written before it was forked. False if
  // the replay is stopped.
  bool wait_for_turn(size_t index) {
    const ThreadPlan& thread = shared_.plan.threads[index];
    for (; next_ < by_end_.size(); ++next_) {
      const size_t other = by_end_[next_];
      if (shared_.plan.threads[other].end_ns >= thread.begin_ns) break;
      if (!wait_for_end(other)) return false;
      threads_[other].join();
    }
    if (shared_.options.timing != Timing::kAsRecorded) {
      for (size_t other = 0; other < index; ++other) {
        const auto& reached_ns = shared_.reached_ns[other];
        if (!wait_for(shared_, [&] { return reached_ns.load() >= thread.begin_ns; })) return false;
      }
      return !shared_.is_stopped();
    }
    const nanoseconds offset(thread.begin_ns - shared_.plan.begin_ns);
    return sleep_until(shared_, shared_.start + offset - kStartAhead);
  }

  bool wait_for_end(size_t index) {
    MutexLock lock(shared_.mutex);
    while (!has_ended_[index]) {
      if (shared_.is_stopped()) return false;
      shared_.thread_ended.wait_for(lock, kStopInterval);
    }
    return true;
  }

  Shared& shared_;
  std::vector<std::thread> threads_;
  std::vector<bool> has_ended_ GUARDED_BY(shared_.mutex);
  std::vector<size_t> by_end_;  // threads, by the end of their last recorded call
  size_t next_ = 0;
};

// Closes what a stopped replay left open.
void close_rest(Shared& shared) {
  for (size_t i = 0; i < shared.plan.handles.size(); ++i) {
    if (shared.handles[i].phase == Phase::kOpen) close_handle(shared.handles[i].opened);
  }
}

Status check_descriptor_limit(size_t count, const Folder& folder) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max == RLIM_INFINITY) return {};
  if (count + folder.directories_max() + kOwnDescriptors <= limit.rlim_max) return {};
  return fail(Errc::kExhausted,
              "the trace has {} files open at once, but this process may open {}; raise the limit "
              "(ulimit -n), or replay fewer ranks",
              format_exact(count), format_exact(limit.rlim_max));
}

}  // namespace

void FunctionResult::merge(const FunctionResult& other) {
  calls += other.calls;
  failed_here += other.failed_here;
  failed_in_both += other.failed_in_both;
  succeeded_here += other.succeeded_here;
  short_count += other.short_count;
  recorded.merge(other.recorded);
  replayed.merge(other.replayed);
}

uint64_t RunResult::failed_here() const {
  uint64_t count = 0;
  for (const auto& [call, function] : functions) count += function.failed_here;
  return count;
}

Result<RunResult> run(const Plan& plan, const Prepared& prepared, const RunOptions& options) {
  RETURN_IF_ERROR(check_descriptor_limit(plan.open_peak, *prepared.folder));
  Shared shared(plan, *prepared.folder, options);
  shared.start = monotonic_now() + kStartAhead;
  Crew(shared).run();
  const MutexLock lock(shared.mutex);  // for clang: the threads have ended
  if (shared.problem) return *std::move(shared.problem);
  shared.result.is_interrupted = shared.is_stopped() && shared.result.calls < plan.steps.size();
  if (shared.result.is_interrupted) close_rest(shared);
  if (shared.result.calls > 0) {
    shared.result.elapsed_ns = shared.last_end_ns - shared.first_begin_ns;
  }
  return std::move(shared.result);
}

}  // namespace millrace::replay
