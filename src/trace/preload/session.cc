#include "trace/preload/session.h"

#include <errno.h>
#include <sys/utsname.h>
#include <time.h>

#include <atomic>
#include <cstring>

#include "hook/scratch.h"
#include "hook/syscall.h"
#include "trace/preload/file_access.h"
#include "trace/preload/text.h"

namespace millrace::trace {
namespace {

bool kernel_trusts_the_counter() {
  char clocks[256] = {};
  const long size = read_start("/sys/devices/system/clocksource/clocksource0/available_clocksource",
                               clocks, sizeof(clocks) - 1);
  return size <= 0 || std::strstr(clocks, "tsc") != nullptr;
}

wire::CounterSource choose_counter() {
  if (!wire::cpu_counter_is_invariant()) return wire::CounterSource::kMonotonicClock;
#if defined(__x86_64__)
  return kernel_trusts_the_counter() ? wire::CounterSource::kTsc
                                     : wire::CounterSource::kMonotonicClock;
#else
  static_cast<void>(kernel_trusts_the_counter);
  return wire::CounterSource::kCntvct;
#endif
}

void read_boot_id(char (&boot_id)[40]) {
  const long size = read_start("/proc/sys/kernel/random/boot_id", boot_id, 36);
  boot_id[size == 36 ? 36 : 0] = '\0';
}

void describe_host(wire::SessionPage& page) {
  utsname system;
  if (uname(&system) == 0) copy_cut(page.host, system.nodename);
  read_boot_id(page.boot_id);
}

// Counters of two machines are unrelated. A session may have been created by a launcher on another
// host, if a scheduler passed the environment on.
bool is_of_this_boot(const wire::SessionPage& page) {
  char boot_id[40] = {};
  read_boot_id(boot_id);
  return std::strcmp(boot_id, page.boot_id) == 0;
}

// Session names can be guessed, so a directory of that name may belong to another user.
int check_own_directory(const char* directory, const char* path_in_it) {
  const int fd = hook::sys_open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (fd < 0) return -fd;
  const bool is_own = is_own_file(fd, path_in_it);
  hook::sys_close(fd);
  return is_own ? 0 : EACCES;
}

// Each process that finds no session writes one and tries to link it under its name; the first
// wins.
int make_session(const Settings& settings, const wire::SessionPage& page, const char* path) {
  int error = -hook::sys_mkdir(settings.directory, 0700);
  if (error != 0 && error != EEXIST) return error;
  error = -hook::sys_mkdir(settings.session, 0700);
  if (error != 0 && error != EEXIST) return error;
  error = check_own_directory(settings.session, path);
  if (error != 0) return error;
  const hook::Scratch<PathText> own_path;
  if (!own_path) return ENOMEM;
  Text(own_path->text).add(path).add(".").add(hook::sys_getpid());
  error = write_new_file(own_path->text, &page, wire::kPageSizeBytes);
  if (error != 0) return error;
  error = -hook::sys_link(own_path->text, path);
  hook::sys_unlink(own_path->text);
  return error == EEXIST ? 0 : error;
}

wire::SessionPage* map_page(const char* path, int* error) {
  void* memory = map_file({.path = path, .offset = 0, .size = wire::kPageSizeBytes}, error);
  if (memory == nullptr) return nullptr;
  auto* page = static_cast<wire::SessionPage*>(memory);
  if (page->magic == wire::kSessionMagic && page->version == wire::kRecordingVersion) return page;
  hook::sys_munmap(memory, wire::kPageSizeBytes);
  *error = EPROTO;
  return nullptr;
}

}  // namespace

wire::ClockSample sample_clocks(bool ticks_from_cpu) {
  const uint64_t before = wire::monotonic_clock_ns();
  const uint64_t ticks = ticks_from_cpu ? wire::read_cpu_counter() : before;
  timespec wall;
  clock_gettime(CLOCK_REALTIME, &wall);
  const uint64_t after = wire::monotonic_clock_ns();
  const uint64_t middle = ticks_from_cpu ? before + (after - before) / 2 : before;
  return {.counter_ticks = ticks,
          .monotonic_ns = middle,
          .wall_ns = int64_t{wall.tv_sec} * 1'000'000'000 + wall.tv_nsec,
          .uncertainty_ns = after - before};
}

wire::SessionPage* attach_session(Settings& settings, int* error) {
  const hook::Scratch<PathText> scratch;
  *error = ENOMEM;
  if (!scratch) return nullptr;
  auto& path = scratch->text;
  if (settings.session[0] != '\0') {
    Text(path).add(settings.session).add("/session");
    wire::SessionPage* page = map_page(path, error);
    if (settings.directory[0] == '\0' || (page != nullptr && is_of_this_boot(*page))) return page;
  }
  alignas(8) static char memory[wire::kPageSizeBytes];
  auto& page = *reinterpret_cast<wire::SessionPage*>(memory);
  describe_host(page);
  Text(settings.session)
      .add(settings.directory)
      .add("/")
      .add(page.host[0] == '\0' ? "host" : page.host)
      .add("-")
      .add(std::string_view(page.boot_id, 8));
  Text(path).add(settings.session).add("/session");
  if (wire::SessionPage* existing = map_page(path, error)) return existing;
  page.magic = wire::kSessionMagic;
  page.version = wire::kRecordingVersion;
  page.counter = choose_counter();
  page.first = sample_clocks(page.counter != wire::CounterSource::kMonotonicClock);
  page.levels = settings.levels;
  Text(page.filters).add(settings.include).add("\n").add(settings.exclude);
  *error = make_session(settings, page, path);
  return *error != 0 ? nullptr : map_page(path, error);
}

}  // namespace millrace::trace
