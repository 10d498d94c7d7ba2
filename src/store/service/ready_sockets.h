// ReadySockets: threads take the sockets that have something to read, from one epoll.
//
// Sockets are one-shot: when next() has returned one, no thread gets it again before arm(). So a
// thread takes one request, arms the socket, and does the work; requests of one client are served
// by several threads, and no thread hands work to another. Thread-safe after open().
#pragma once

#include <optional>

#include "base/io/file.h"
#include "base/result.h"

namespace millrace::store {

class ReadySockets {
 public:
  // The listener must live longer. Of the threads that wait, a client wakes one.
  Status open(int listener);

  // From now on, next() returns nothing in every thread.
  void stop() const;

  // What was given to add(), or null for the listener. Waits.
  std::optional<void*> next() const;

  bool add(int fd, void* socket) const;
  void arm(int fd, void* socket) const;
  void remove(int fd) const;

 private:
  File stopper_;  // an eventfd; readable: all threads end
  File epoll_;
};

}  // namespace millrace::store
