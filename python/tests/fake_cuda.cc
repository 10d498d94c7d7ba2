// A driver of a GPU that does not exist: streams that take the time they are told to. The timer of
// the extension finds its functions here as it finds those of CUDA. The device works in the order
// of launches, and its clock does not run as fast as that of the host.
#include <time.h>

#include <atomic>
#include <cstdint>

namespace {

constexpr int kNotReady = 600;
constexpr int kLaunchFailed = 719;

struct Stream {
  int64_t free_ns = 0;  // when all work so far is done, on the clock of the host
};
struct Event {
  std::atomic<int64_t> ns{0};
};

Stream streams[4];
int contexts[2];
thread_local void* context = &contexts[0];
std::atomic<bool> fails{false};
std::atomic<int64_t> blocks_until_ns{0};
std::atomic<int> blocked{0};  // threads that wait in a query
std::atomic<double> clock_speed{1.001};

struct {
  std::atomic<long> created, recorded, queried, elapsed;
} calls;

int64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

void wait_for_launch(Stream& stream) {
  if (stream.free_ns < now_ns()) stream.free_ns = now_ns();
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

// ---- the functions of the driver ----------------------------------------------------------------

int cuEventCreate(void** event, unsigned) {
  ++calls.created;
  *event = new Event;
  return 0;
}

int cuEventRecord(void* event, void* stream) {
  if (fails) return kLaunchFailed;
  ++calls.recorded;
  auto& queue = *static_cast<Stream*>(stream);
  wait_for_launch(queue);
  static_cast<Event*>(event)->ns = queue.free_ns;
  return 0;
}

int cuEventQuery(void* event) {
  ++calls.queried;
  ++blocked;
  while (now_ns() < blocks_until_ns) {
    const timespec pause{.tv_sec = 0, .tv_nsec = 1'000'000};
    nanosleep(&pause, nullptr);
  }
  --blocked;
  return static_cast<Event*>(event)->ns <= now_ns() ? 0 : kNotReady;
}

int cuEventElapsedTime(float* ms, void* begin, void* end) {
  ++calls.elapsed;
  const int64_t from_ns = static_cast<Event*>(begin)->ns;
  const int64_t to_ns = static_cast<Event*>(end)->ns;
  if (from_ns > now_ns() || to_ns > now_ns()) return kNotReady;
  *ms = static_cast<float>(static_cast<double>(to_ns - from_ns) * clock_speed / 1e6);
  return 0;
}

int cuCtxGetCurrent(void** current) {
  *current = context;
  return 0;
}

int cuCtxSetCurrent(void* wanted) {
  context = wanted;
  return 0;
}

// ---- for tests ----------------------------------------------------------------------------------

void* fake_stream(int number) { return &streams[number]; }

void fake_use_device(int number) { context = &contexts[number]; }

void fake_work(int stream, double ms) {
  wait_for_launch(streams[stream]);
  streams[stream].free_ns += static_cast<int64_t>(ms * 1e6);
}

void fake_clock_speed(double speed) { clock_speed = speed; }

void fake_fail(int wanted) { fails = wanted != 0; }

// Queries wait until this is called with 0, or for 20 seconds: who waits for them is found out.
void fake_block(int wanted) { blocks_until_ns = wanted != 0 ? now_ns() + 20'000'000'000 : 0; }

int fake_blocked() { return now_ns() < blocks_until_ns ? blocked.load() : 0; }

long fake_created() { return calls.created.exchange(0); }
long fake_recorded() { return calls.recorded.exchange(0); }
long fake_queried() { return calls.queried.exchange(0); }
long fake_elapsed() { return calls.elapsed.exchange(0); }
}
