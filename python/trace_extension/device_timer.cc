#include "device_timer.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <new>

#include "millrace/trace.h"
#include "recorder.h"

namespace millrace::python {

namespace {

// No error of a driver: after one, times are read again from the next probe on.
constexpr int kNoBegin = -1;

constexpr uint64_t kCapturePatienceNs = 100'000'000;

// The number of the region's name.
uint32_t name_of(Work work) {
  static uint32_t copy = 0;
  static uint32_t compute = 0;
  if (copy == 0) copy = recorder->name(MILLRACE_DEVICE_COPY, sizeof MILLRACE_DEVICE_COPY - 1);
  if (compute == 0) compute = recorder->name(MILLRACE_DEVICE, sizeof MILLRACE_DEVICE - 1);
  return work == Work::kCopy ? copy : compute;
}

void mark_lost(const char* why) { record_mark("device_time_lost", "error", why); }

void record_work(Work work, uint32_t epoch, uint64_t step, uint64_t begin_ns, uint64_t end_ns) {
  if (!is_recording()) return;
  const uint64_t begin_ticks = ticks_at(begin_ns);
  const uint64_t end_ticks = ticks_at(end_ns);
  const millrace_event event{.begin_ticks = begin_ticks,
                             .end_ticks = end_ticks > begin_ticks ? end_ticks : begin_ticks + 1,
                             .step = step,
                             .epoch = epoch,
                             .name = name_of(work),
                             .origin = 0,
                             .tags = nullptr,
                             .tag_count = 0};
  recorder->record(&event);
}

timespec time_after(uint64_t ns) {
  const uint64_t at_ns = monotonic_ns() + ns;
  return {static_cast<time_t>(at_ns / 1'000'000'000), static_cast<long>(at_ns % 1'000'000'000)};
}

}  // namespace

DeviceTimer::Options DeviceTimer::options;

void EventQueue::put(void* event) {
  const uint32_t at = put_.load(std::memory_order_relaxed);
  if (at - taken_.load(std::memory_order_acquire) == kCapacity) return;
  events_[at % kCapacity] = event;
  put_.store(at + 1, std::memory_order_release);
}

void* EventQueue::take() {
  const uint32_t at = taken_.load(std::memory_order_relaxed);
  if (at == put_.load(std::memory_order_acquire)) return nullptr;
  void* event = events_[at % kCapacity];
  taken_.store(at + 1, std::memory_order_release);
  return event;
}

// ---- the thread that trains ---------------------------------------------------------------------

bool DeviceTimer::enter(Work work) {
  if (!is_mine() || has_failed_ || is_capturing_) return false;
  if (depth_ > 0) {
    ++depth_;
    return true;
  }
  const uint64_t now_ns = monotonic_ns();
  if (is_open_ && open_.work == work && now_ns - left_ns_ < options.join_ns) {
    // Neither the step nor the stream is asked for again: programs do not change them so fast.
    if (has_end_ && joins_[position_] < kTrusted) ++joins_[position_];
  } else if ((is_open_ && !close(now_ns)) || !start(work, now_ns)) {
    return false;
  }
  depth_ = 1;
  return true;
}

void DeviceTimer::leave(bool goes_on) {
  if (!is_mine() || depth_ == 0 || --depth_ > 0 || !is_open_) return;
  left_ns_ = monotonic_ns();
  has_end_ = false;
  if (goes_on || is_capturing_) return;
  position_ = (position_ + 1) % kPositions;
  if (joins_[position_] < kTrusted) put_end(left_ns_);
}

void DeviceTimer::end_step() {
  if (!is_mine() || has_failed_ || is_capturing_) return;
  if (is_open_ && depth_ == 0) close(monotonic_ns());
  position_ = 0;
  end_group();
}

bool DeviceTimer::start(Work work, uint64_t now_ns) {
  if (!is_recording()) return false;
  if (written_ - read_.load(std::memory_order_acquire) == kBrackets) {
    if (!is_behind_) mark_lost("work is not timed: too much of it has not passed yet");
    is_behind_ = true;
    return false;
  }
  void* context = nullptr;
  void* stream = nullptr;
  if (driver_.get_context(&context) != 0 || context == nullptr) return false;
  if (!current_stream_(context, &stream)) return false;
  if (lane_ == nullptr || lane_->stream != stream || lane_->device->context != context) {
    lane_ = find_lane(context, stream);
  }
  if (lane_ == nullptr) return false;
  const millrace_context* place = thread_context();
  open_ = {.lane = lane_,
           .begin_asked_ns = now_ns,
           .step = place->step,
           .epoch = place->epoch,
           .work = work};
  const uint64_t probed_ns = lane_->device->probed_ns.load(std::memory_order_relaxed);
  if (probed_ns == 0 || now_ns - probed_ns > options.probe_ns) {
    if (!put_event(open_.probe, *lane_)) return false;
    lane_->device->probed_ns.store(now_ns, std::memory_order_relaxed);
  }
  is_open_ = true;
  has_end_ = false;
  return true;
}

// Ends the open bracket: no more work has joined it.
bool DeviceTimer::close(uint64_t now_ns) {
  is_open_ = false;
  joins_[position_] = 0;
  if (!has_end_ && !put_end(now_ns)) return false;
  if (group_count_ > 0 && (at(written_ - 1).lane != open_.lane || group_count_ == kGroup)) {
    end_group();
  }
  at(written_++) = open_;
  ++group_count_;
  return true;
}

bool DeviceTimer::put_event(void*& event, const Lane& lane) {
  int error = 0;
  if (event == nullptr) event = lane.device->free.take();
  if (event == nullptr) error = driver_.create_event(&event, 0);
  if (error == 0) error = driver_.record_event(event, lane.stream);
  return error == 0 || fail(error);
}

bool DeviceTimer::put_end(uint64_t now_ns) {
  open_.end_asked_ns = now_ns;
  has_end_ = put_event(open_.end, *open_.lane);
  return has_end_;
}

void DeviceTimer::end_group() {
  if (group_count_ == 0) return;
  at(written_ - 1).is_last_of_group = true;
  group_count_ = 0;
  grouped_.store(written_, std::memory_order_release);
  if (written_ - woken_at_ < kWakeAt) return;
  woken_at_ = written_;
  // If the lock is held, the reader is awake, or will be soon.
  if (pthread_mutex_trylock(&lock_) != 0) return;
  is_woken_ = true;
  pthread_cond_signal(&wake_);
  pthread_mutex_unlock(&lock_);
}

// The device has failed. The program will find out by itself.
bool DeviceTimer::fail(int error) {
  has_failed_ = true;
  char text[64];
  snprintf(text, sizeof text, "the driver returned error %d", error);
  mark_lost(text);
  return false;
}

DeviceTimer::Lane* DeviceTimer::find_lane(void* context, void* stream) {
  for (uint32_t i = 0; i < lane_count_; ++i) {
    if (lanes_[i].stream == stream && lanes_[i].device->context == context) return &lanes_[i];
  }
  Device* device = lane_count_ < kLanes ? find_device(context) : nullptr;
  if (device == nullptr) return nullptr;
  Lane* lane = &lanes_[lane_count_++];
  lane->stream = stream;
  lane->device = device;
  return lane;
}

DeviceTimer::Device* DeviceTimer::find_device(void* context) {
  for (uint32_t i = 0; i < device_count_; ++i) {
    if (devices_[i]->context == context) return devices_[i];
  }
  if (device_count_ == kDevices) return nullptr;
  void* memory = PyMem_RawMalloc(sizeof(Device));
  if (memory == nullptr) return nullptr;
  auto* device = new (memory) Device;
  device->context = context;
  return devices_[device_count_++] = device;
}

bool DeviceTimer::is_all_read() const {
  return has_failed_ || read_.load(std::memory_order_acquire) == grouped_.load();
}

void DeviceTimer::set_capturing(bool is_capturing) {
  is_capturing_ = is_capturing;
  const uint64_t until_ns = monotonic_ns() + kCapturePatienceNs;
  while (is_capturing && is_asking_ && monotonic_ns() < until_ns) usleep(10);
}

// ---- the reading thread -------------------------------------------------------------------------

bool DeviceTimer::start_reader() {
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&wake_, &monotonic);
  // Signals of the program are not for this thread.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  has_reader_ = pthread_create(&reader_, nullptr, read_on, this) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (has_reader_) pthread_setname_np(reader_, "millrace-device");
  return has_reader_;
}

void* DeviceTimer::read_on(void* timer) {
  auto* self = static_cast<DeviceTimer*>(timer);
  for (bool is_ending = false; !is_ending;) {
    pthread_mutex_lock(&self->lock_);
    const timespec until = time_after(options.read_ns);
    while (!self->is_woken_ && pthread_cond_timedwait(&self->wake_, &self->lock_, &until) == 0) {
    }
    self->is_woken_ = false;
    is_ending = self->is_ending_;
    pthread_mutex_unlock(&self->lock_);
    self->read_now();
  }
  return nullptr;
}

void DeviceTimer::read_now() {
  pthread_mutex_lock(&round_);
  read_round();
  pthread_mutex_unlock(&round_);
}

void DeviceTimer::wake_reader() {
  pthread_mutex_lock(&lock_);
  is_woken_ = true;
  pthread_cond_signal(&wake_);
  pthread_mutex_unlock(&lock_);
}

void DeviceTimer::end_reader(uint64_t timeout_ns) {
  if (!has_reader_) return;
  pthread_mutex_lock(&lock_);
  is_ending_ = true;
  pthread_mutex_unlock(&lock_);
  wake_reader();
  timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += static_cast<time_t>(timeout_ns / 1'000'000'000);
  pthread_timedjoin_np(reader_, nullptr, &until);
  has_reader_ = false;
}

// REQUIRES: `round_` is held.
void DeviceTimer::read_round() {
  for (bool goes_on = true; goes_on && !has_failed_;) {
    is_asking_ = true;  // before is_capturing_ is looked at, so that set_capturing() sees it
    goes_on = !is_capturing_ && ask_for_group();
    is_asking_ = false;
  }
}

// A stream works in order: if the last bracket of a group has passed, all of it have. Returns
// whether more may have passed.
bool DeviceTimer::ask_for_group() {
  uint32_t last = read_.load(std::memory_order_relaxed);
  if (last == grouped_.load(std::memory_order_acquire)) return false;
  while (!at(last).is_last_of_group) ++last;
  const Bracket& bracket = at(last);
  int result = driver_.set_context(bracket.lane->device->context);
  if (result == 0) result = driver_.query_event(bracket.end);
  if (result == kNotReady) return false;
  if (result != 0) return fail(result);
  read_group(last);
  return true;
}

void DeviceTimer::read_group(uint32_t last) {
  const uint64_t seen_ns = monotonic_ns();
  for (uint32_t number = read_.load(std::memory_order_relaxed); number != last + 1; ++number) {
    read(at(number), seen_ns);
    read_.store(number + 1, std::memory_order_release);
  }
}

void DeviceTimer::read(const Bracket& bracket, uint64_t seen_ns) {
  Lane& lane = *bracket.lane;
  uint64_t end_ns = 0;
  const int error = measure(bracket, seen_ns, end_ns);
  move_last(*lane.device, error == 0 ? bracket.end : nullptr);
  if (error != 0) {
    char text[64];
    snprintf(text, sizeof text, "a time was not read: the driver returned error %d", error);
    if (error != kNoBegin) mark_lost(text);
    lane.device->free.put(bracket.end);
    lane.device->probed_ns.store(0, std::memory_order_relaxed);
    return;
  }
  const uint64_t begin_ns =
      bracket.begin_asked_ns > lane.busy_until_ns ? bracket.begin_asked_ns : lane.busy_until_ns;
  lane.busy_until_ns = end_ns;
  record_work(bracket.work, bracket.epoch, bracket.step, begin_ns < end_ns ? begin_ns : end_ns,
              end_ns);
}

// Finds the end of the bracket. Returns 0 or the error of the driver.
int DeviceTimer::measure(const Bracket& bracket, uint64_t seen_ns, uint64_t& end_ns) {
  Device& device = *bracket.lane->device;
  int error = 0;
  int64_t passed_ns = 0;
  if (bracket.probe != nullptr) {
    if (device.last == nullptr) {
      device.clock.start(bracket.begin_asked_ns);
    } else {
      error = elapsed_ns(device, bracket.probe, passed_ns);
      if (error == 0) device.clock.place(passed_ns, bracket.begin_asked_ns, seen_ns);
    }
    move_last(device, bracket.probe);
  }
  if (error == 0) error = elapsed_ns(device, bracket.end, passed_ns);
  if (error == 0) end_ns = device.clock.place(passed_ns, bracket.end_asked_ns, seen_ns);
  return error;
}

// The device's time from the last event that was read to this one.
int DeviceTimer::elapsed_ns(const Device& device, void* event, int64_t& ns) {
  if (device.last == nullptr) return kNoBegin;
  float ms = 0;
  const int error = driver_.elapsed_ms(&ms, device.last, event);
  ns = static_cast<int64_t>(static_cast<double>(ms) * 1e6);
  return error;
}

void DeviceTimer::move_last(Device& device, void* event) {
  if (device.last != nullptr) device.free.put(device.last);
  device.last = event;
}

}  // namespace millrace::python
