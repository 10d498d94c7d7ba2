// ServiceLine: asks the service of a node for a file, within a deadline. The core that the preload
// library and our own programs share.
//
// `Calls` makes the system calls, which return what the kernel does, a value or minus an errno
// value: those of the library are its own, which no hook sees; those of our programs are the C
// library's, which ThreadSanitizer knows.
#pragma once

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>

#include <atomic>
#include <cstdint>

#include "wire/store_message.h"
#include "wire/store_state.h"

namespace millrace::store {

// How often a file is asked for: the service may remove it before we open it, for one that a loader
// needs.
inline constexpr int kMakeTries = 3;

// The value of MILLRACE_STORE_DEADLINE_MS; `text` may be null. The default, unless it is a number
// from 1 to an hour.
inline uint32_t deadline_ms_of(const char* text) {
  constexpr uint64_t kHourMs = 3'600'000;
  uint64_t number = 0;
  for (; text != nullptr && *text >= '0' && *text <= '9' && number <= kHourMs; ++text) {
    number = number * 10 + static_cast<uint64_t>(*text - '0');
  }
  const bool is_good = text != nullptr && *text == '\0' && number > 0 && number <= kHourMs;
  return is_good ? static_cast<uint32_t>(number) : wire::kStoreDeadlineMs;
}

inline uint64_t line_now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

// A connected socket, or minus an errno value: EAGAIN if the service accepted none for the time.
// The time is also that of sending; 0: no limit.
template <typename Calls>
int connect_service(const sockaddr_un& address, uint32_t limit_ms) {
  const int fd = Calls::socket();
  if (fd < 0) return fd;
  if (limit_ms != 0) {
    Calls::limit_sending(fd, {.tv_sec = limit_ms / 1000, .tv_usec = limit_ms % 1000 * 1000});
  }
  int error = 0;
  do {
    error = Calls::connect(fd, address);
  } while (error == -EINTR);
  if (error == 0) return fd;
  Calls::close(fd);
  return error;
}

// 0, or an errno value.
template <typename Calls>
int send_request(int fd, const wire::StoreRequest& request) {
  long sent = 0;
  do {
    sent = Calls::send(fd, request);
  } while (sent == -EINTR);
  if (sent == static_cast<long>(sizeof(request))) return 0;
  return sent < 0 ? static_cast<int>(-sent) : EIO;
}

// The next reply to any request. 0, or an errno value: ETIMEDOUT, ECONNRESET if the service has
// ended, EPROTO if it sent something else than a reply.
//
// ppoll, not poll: if a stopped program continues, the kernel gives ppoll the rest of its time, but
// poll a time that has passed. The service was stopped with it, and could not answer.
template <typename Calls>
int receive_reply(int fd, uint64_t end_ns, wire::StoreReply& reply) {
  for (;;) {
    const uint64_t now = line_now_ns();
    const uint64_t left_ns = now < end_ns ? end_ns - now : 0;
    timespec left = {.tv_sec = static_cast<time_t>(left_ns / 1'000'000'000u),
                     .tv_nsec = static_cast<long>(left_ns % 1'000'000'000u)};
    pollfd waiting = {.fd = fd, .events = POLLIN, .revents = 0};
    const long ready = Calls::wait(waiting, left);
    if (ready == -EINTR) continue;
    if (ready <= 0) return ready == 0 ? ETIMEDOUT : static_cast<int>(-ready);
    const long size = Calls::receive(fd, reply);  // the true length, without waiting
    if (size == -EAGAIN || size == -EINTR) continue;
    if (size <= 0) return size == 0 ? ECONNRESET : static_cast<int>(-size);
    const bool is_reply = size == static_cast<long>(sizeof(reply)) &&
                          reply.magic == wire::kStoreMessageMagic &&
                          reply.version == wire::kStoreMessageVersion;
    return is_reply ? 0 : EPROTO;
  }
}

inline wire::StoreRequest store_request(uint64_t id, uint64_t entry, wire::StoreRequestKind kind) {
  return {.magic = wire::kStoreMessageMagic,
          .version = wire::kStoreMessageVersion,
          .kind = kind,
          .id = id,
          .entry = entry};
}

// How a question ended: at which step, and the errno value. kReply with 0: the file is there.
struct Answer {
  enum class Step : uint8_t { kSilent, kConnect, kSend, kReceive, kReply };
  Step step;
  int error;
};

struct ServiceLine {
  uint32_t deadline_ms = wire::kStoreDeadlineMs;
  std::atomic<uint64_t> silent_until_ns{0};  // the service is not asked before this time
  std::atomic<uint64_t> next_id{1};

  // A service that was silent once is not asked again for a while: wait once, not for each file.
  template <typename Calls>
  Answer ask(const sockaddr_un& address, uint64_t entry, wire::StoreRequestKind kind) {
    const uint64_t begin = line_now_ns();
    if (begin < silent_until_ns.load(std::memory_order_relaxed)) {
      return {Answer::Step::kSilent, ETIMEDOUT};
    }
    const uint64_t deadline_ns = uint64_t{deadline_ms} * 1'000'000u;
    const Answer answer = ask_now<Calls>(address, begin + deadline_ns, entry, kind);
    if (answer.error == ETIMEDOUT) {
      silent_until_ns.store(line_now_ns() + deadline_ns, std::memory_order_relaxed);
    }
    return answer;
  }

 private:
  template <typename Calls>
  Answer ask_now(const sockaddr_un& address, uint64_t end_ns, uint64_t entry,
                 wire::StoreRequestKind kind) {
    using Step = Answer::Step;
    const auto timed = [](int error) { return error == EAGAIN ? ETIMEDOUT : error; };
    const int fd = connect_service<Calls>(address, deadline_ms);
    if (fd < 0) return {Step::kConnect, timed(-fd)};
    const auto request =
        store_request(next_id.fetch_add(1, std::memory_order_relaxed), entry, kind);
    Answer answer = {Step::kSend, timed(send_request<Calls>(fd, request))};
    while (answer.error == 0 && answer.step != Step::kReply) {
      wire::StoreReply reply = {};
      answer = {Step::kReceive, receive_reply<Calls>(fd, end_ns, reply)};
      if (answer.error == 0 && reply.id == request.id) answer = {Step::kReply, reply.error};
      if (answer.error == 0 && answer.step == Step::kReceive && line_now_ns() >= end_ns) {
        answer.error = ETIMEDOUT;
      }
    }
    Calls::close(fd);
    return answer;
  }
};

}  // namespace millrace::store
