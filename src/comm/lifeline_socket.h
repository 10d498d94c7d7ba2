// The sockets of the lifeline: TCP over IPv4 that never blocks, and one listener.
//
// No child of fork() keeps any of them (own_file.h), and no program that is started.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/base.h"
#include "base/result.h"
#include "comm/own_file.h"

namespace millrace::comm {

// On the monotonic clock, as monotonic_now() has it.
using Deadline = std::chrono::nanoseconds;

// For poll(2): rounded up, at least 0.
int poll_timeout_ms_until(Deadline deadline);

struct Listener {
  OwnFile socket;
  uint16_t port = 0;
  std::vector<std::string> addresses;  // where others may find it
};

struct ListenOptions {
  bool only_this_host = true;  // on the loopback alone
  // Of several hosts: the interface to listen on, by its name ("ib0"), by a network that its
  // address is in ("10.1.0.0/16"), or by its address. Empty: on all of them.
  std::string interface;
};

Result<Listener> listen_for_ranks(const ListenOptions& options);

// The next connection that has come. None: there is no other.
Result<std::optional<OwnFile>> accept_next(const Listener& listener);

// A connection to `address`, which is numeric. It may still be under way: it can be written to when
// it is made, or has failed.
Result<OwnFile> begin_connect(const std::string& address, uint16_t port);

// How begin_connect() ended, when the socket can be written to.
Status finish_connect(const OwnFile& socket);

Status send_all(const OwnFile& socket, ByteView bytes, Deadline deadline);

// Appends what has come, until `inbox` has `size_bytes`. Fails with kIo when the other end has
// closed the connection.
Status receive_some(const OwnFile& socket, std::string& inbox, size_t size_bytes);

}  // namespace millrace::comm
