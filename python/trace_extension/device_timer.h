// DeviceTimer: when the GPU computed and when it copied, on the clock of the host.
//
// An event of the driver is put into the stream at the end of the work of a step: as few as
// possible, because each is a call of the driver. Nothing ever waits for them. A thread of our own
// asks from time to time which have passed, reads their times, and records the regions `device` and
// `device_copy`. It does not need the GIL.
//
// The begin of work needs no event: a stream works in order, so work begins when it is launched or
// when the work before it ends. docs/design/gpu-time.md has the reasons, the error and the drift.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "device_driver.h"

namespace millrace::python {

enum class Work : uint8_t { kCompute, kCopy };

// The events of one device, in its order, on the clock of the host.
class DeviceClock {
 public:
  // Restarts at an event whose time is known.
  void start(uint64_t ns) { last_ns_ = ns; }

  // The time of the next event, `elapsed_ns` after the last one by the device's clock (less than 0
  // if it is in another stream and passed before). The host asked for it at `asked_ns`, and saw at
  // `seen_ns` that it had passed.
  uint64_t place(int64_t elapsed_ns, uint64_t asked_ns, uint64_t seen_ns) {
    last_ns_ += static_cast<uint64_t>(elapsed_ns);
    if (last_ns_ < asked_ns) last_ns_ = asked_ns;
    if (last_ns_ > seen_ns) last_ns_ = seen_ns;
    return last_ns_;
  }

 private:
  uint64_t last_ns_ = 0;
};

// A queue of events, from one thread to another.
class EventQueue {
 public:
  void put(void* event);
  void* take();  // null: it is empty

 private:
  static constexpr uint32_t kCapacity = 1 << 13;  // there are never as many events

  void* events_[kCapacity] = {};
  std::atomic<uint32_t> put_{0};
  std::atomic<uint32_t> taken_{0};
};

class DeviceTimer {
 public:
  struct Options {
    // Work whose launches are closer together is one bracket: an event costs microseconds.
    uint64_t join_ns = 50'000;
    uint64_t read_ns = 250'000'000;   // between two rounds of the reading thread
    uint64_t probe_ns = 250'000'000;  // between two events at the begin of work, for the clock
  };
  static Options options;

  // The stream that this thread uses now, in its current context. False: it is not known.
  using StreamFunction = bool (*)(void* context, void** stream);

  // The thread that calls is the one that trains.
  DeviceTimer(const DeviceDriver& driver, StreamFunction current_stream)
      : driver_(driver), current_stream_(current_stream), thread_(pthread_self()) {}
  DeviceTimer(const DeviceTimer&) = delete;
  DeviceTimer& operator=(const DeviceTimer&) = delete;

  bool start_reader();

  // ---- the thread that trains; other threads are ignored

  // The thread is about to launch work. False: it is not timed, and leave() is not needed.
  bool enter(Work work);

  // The work is launched. `goes_on`: more is likely to follow at once, so no event is needed.
  void leave(bool goes_on);

  // The work of a step is launched.
  void end_step();

  // ---- any thread, with the GIL

  // Whether all work of the steps so far is recorded.
  bool is_all_read() const;

  // Asking for an event while a CUDA graph is captured would break the capture. Waits until nobody
  // asks, but not long: a call that hangs has begun before the capture, and does not break it.
  void set_capturing(bool is_capturing);

  // Reads what has passed, on this thread.
  void read_now();

  void wake_reader();
  void end_reader(uint64_t timeout_ns);

 private:
  static constexpr uint32_t kBrackets = 1 << 12;      // that have not passed, or are not read yet
  static constexpr uint32_t kWakeAt = kBrackets / 4;  // brackets since the reader was woken
  static constexpr uint32_t kGroup = 64;  // asked for together, if the program's steps are not seen
  static constexpr uint32_t kLanes = 64;
  static constexpr uint32_t kDevices = 16;
  // After this many steps in which an end was not needed, because more work followed at once, it
  // is left out.
  static constexpr uint8_t kTrusted = 8;
  static constexpr uint32_t kPositions = 256;  // in a step, for which this is remembered

  struct Device {
    void* context = nullptr;
    std::atomic<uint64_t> probed_ns{0};  // 0: the next bracket must have an event at its begin
    EventQueue free;                     // from the reading thread
    DeviceClock clock;                   // of the reading thread, as the next one
    void* last = nullptr;                // the last event that was read
  };

  struct Lane {  // a stream
    void* stream = nullptr;
    Device* device = nullptr;
    uint64_t busy_until_ns = 0;  // of the reading thread: the end of the last bracket
  };

  // Work of the device in one stream, up to an event.
  struct Bracket {
    Lane* lane = nullptr;
    void* probe = nullptr;  // an event at its begin, or null
    void* end = nullptr;    // null: not in the stream yet
    uint64_t begin_asked_ns = 0;
    uint64_t end_asked_ns = 0;
    uint64_t step = 0;
    uint32_t epoch = 0;
    Work work = Work::kCompute;
    bool is_last_of_group = false;
  };

  bool is_mine() const { return pthread_equal(thread_, pthread_self()) != 0; }
  bool start(Work work, uint64_t now_ns);
  bool close(uint64_t now_ns);
  bool put_event(void*& event, const Lane& lane);
  bool put_end(uint64_t now_ns);
  void end_group();
  bool fail(int error);

  Lane* find_lane(void* context, void* stream);
  Device* find_device(void* context);

  Bracket& at(uint32_t number) { return ring_[number % kBrackets]; }
  static void* read_on(void* timer);
  void read_round();
  bool ask_for_group();
  void read_group(uint32_t last);
  void read(const Bracket& bracket, uint64_t seen_ns);
  int measure(const Bracket& bracket, uint64_t seen_ns, uint64_t& end_ns);
  int elapsed_ns(const Device& device, void* event, int64_t& ns);
  static void move_last(Device& device, void* event);

  const DeviceDriver driver_;
  const StreamFunction current_stream_;
  const pthread_t thread_;

  // The state of the thread that trains.
  bool is_behind_ = false;  // and this was said
  bool is_open_ = false;    // the bracket `open_` may still grow
  bool has_end_ = false;    // its end is in the stream, after all work so far
  uint32_t depth_ = 0;
  uint32_t position_ = 0;  // of the last leave() in the step that might have put in an end
  uint32_t group_count_ = 0;
  uint32_t written_ = 0;
  uint32_t woken_at_ = 0;
  uint32_t lane_count_ = 0;
  uint32_t device_count_ = 0;
  uint64_t left_ns_ = 0;  // when its last work was launched
  Bracket open_;
  Lane* lane_ = nullptr;            // of the last bracket
  uint8_t joins_[kPositions] = {};  // in how many steps in a row the end was not needed
  Lane lanes_[kLanes];
  Device* devices_[kDevices] = {};

  // Between the two threads: brackets before `grouped_` are in groups that have ended, those before
  // `read_` are read.
  Bracket ring_[kBrackets];
  std::atomic<uint32_t> grouped_{0};
  std::atomic<uint32_t> read_{0};
  std::atomic<bool> has_failed_{false};

  // The state of the reading thread.
  pthread_t reader_{};
  bool has_reader_ = false;
  pthread_mutex_t round_ = PTHREAD_MUTEX_INITIALIZER;  // held in a round, which asks the driver
  // Never held while the driver is asked, which may take any time: the thread that trains takes it.
  pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t wake_;
  bool is_woken_ = false;               // guarded by lock_
  bool is_ending_ = false;              // guarded by lock_
  std::atomic<bool> is_asking_{false};  // a thread that reads may be in the driver
  std::atomic<bool> is_capturing_{false};
};

}  // namespace millrace::python
