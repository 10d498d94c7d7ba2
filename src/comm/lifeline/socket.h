// The sockets of the lifeline: non-blocking TCP over IPv4, and one listener.
//
// Neither children of fork() nor programs started with exec keep any of them (own_file.h).
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

// On the clock of monotonic_now().
using Deadline = std::chrono::nanoseconds;

// For poll(2): rounded up, at least 0.
int poll_timeout_ms_until(Deadline deadline);

struct Listener {
  OwnFile socket;
  uint16_t port = 0;
  std::vector<std::string> addresses;  // where others may find it
};

struct ListenOptions {
  bool only_this_host = true;  // listen on the loopback interface only
  // Otherwise the interface to listen on: its name ("ib0"), a network that contains its address
  // ("10.1.0.0/16"), or its address. Empty means all interfaces.
  std::string interface;
};

Result<Listener> listen_for_ranks(const ListenOptions& options);

// The next pending connection, if there is one.
Result<std::optional<OwnFile>> accept_next(const Listener& listener);

// Starts connecting to `address`, which is numeric. The socket becomes writable when the connection
// is made or has failed.
Result<OwnFile> begin_connect(const std::string& address, uint16_t port);

// The outcome of begin_connect(). REQUIRES: the socket is writable.
Status finish_connect(const OwnFile& socket);

Status send_all(const OwnFile& socket, ByteView bytes, Deadline deadline);

// Appends what has arrived, until `inbox` has `size_bytes`. Fails with kIo if the other end has
// closed the connection, and with kTimeout if its host does not answer any more.
Status receive_some(const OwnFile& socket, std::string& inbox, size_t size_bytes);

}  // namespace millrace::comm
