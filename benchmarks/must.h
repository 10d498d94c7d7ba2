// must: returns the value, or ends the benchmark with the error message.
#pragma once

#include <errno.h>  // program_invocation_short_name
#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace millrace::bench {

[[noreturn]] inline void give_up(std::string_view message) {
  fmt::print(stderr, "{}: {}\n", program_invocation_short_name, message);
  std::exit(1);
}

template <typename T>
T must(Result<T> result) {
  if (!result.ok()) give_up(result.error().message());
  return *std::move(result);
}

inline void must(const Status& status) {
  if (!status.ok()) give_up(status.error().message());
}

}  // namespace millrace::bench
