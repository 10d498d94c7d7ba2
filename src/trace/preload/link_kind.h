// LinkKind: the names that a trace uses for the kernel's links in /proc/PID/fd.
#pragma once

#include <string_view>

namespace millrace::trace {

// Objects without a path are named by kind, not by number; otherwise each socket would be a file of
// its own. Paths are not changed.
inline std::string_view name_of_link(std::string_view link) {
  constexpr struct {
    std::string_view begin;
    std::string_view name;
  } kKinds[] = {
      {"/memfd:", "/memfd:"},
      {"/", {}},
      {"pipe:", "<pipe>"},
      {"socket:", "<socket>"},
      {"anon_inode:[eventfd]", "<eventfd>"},
      {"anon_inode:[eventpoll]", "<epoll>"},
      {"anon_inode:[timerfd]", "<timerfd>"},
      {"anon_inode:[signalfd]", "<signalfd>"},
      {"anon_inode:inotify", "<inotify>"},
      {"anon_inode:[io_uring]", "<io_uring>"},
  };
  for (const auto& kind : kKinds) {
    if (link.starts_with(kind.begin)) return kind.name.empty() ? link : kind.name;
  }
  return "<other>";
}

}  // namespace millrace::trace
