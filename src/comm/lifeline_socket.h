// The sockets of the lifeline: TCP with deadlines, IPv4, one listener, whole messages.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/base.h"
#include "base/file.h"
#include "base/result.h"

namespace millrace::comm {

// On the monotonic clock, as monotonic_now() has it.
using Deadline = std::chrono::nanoseconds;

struct Listener {
  File socket;
  uint16_t port = 0;
  std::vector<std::string> addresses;  // where others may find it, the likeliest first
};

// On all interfaces, or only where processes of this host can reach it.
Result<Listener> listen_for_ranks(bool only_this_host);

// The next connection; kTimeout when the deadline has passed.
Result<File> accept_rank(const Listener& listener, Deadline deadline);

// `address` is numeric.
Result<File> connect_to(const std::string& address, uint16_t port, Deadline deadline);

Status send_all(const File& socket, ByteView bytes, Deadline deadline);
Status receive_all(const File& socket, MutableByteView bytes, Deadline deadline);

}  // namespace millrace::comm
