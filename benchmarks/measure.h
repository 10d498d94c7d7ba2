// Measure: compares the times of several ways to do one thing, so that the ratios are reliable.
//
// The contenders run in turn, round after round, so that a slowdown of the machine affects all of
// them. The minimum of the rounds is the time without disturbance. It measures the CPU time of the
// process, so that a contender with threads pays for them. The first contender is the floor.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/system/clock.h"
#include "base/text/table.h"

namespace millrace::bench {

struct Contender {
  std::string name;
  std::function<void()> run;  // does all `operations`
};

// Prints one line per contender: nanoseconds per operation, and the ratio to the first.
inline void compare(const std::string& title, size_t operations, std::vector<Contender> contenders,
                    int rounds = 15) {
  std::vector<double> best_ns(contenders.size(), 1e300);
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < contenders.size(); ++i) {
      const auto start = process_cpu_time();
      contenders[i].run();
      const auto spent = static_cast<double>((process_cpu_time() - start).count());
      best_ns[i] = std::min(best_ns[i], spent / static_cast<double>(operations));
    }
  }
  Table table({{.title = title},
               {.title = "ns", .align = Table::Align::kRight},
               {.title = "ratio", .align = Table::Align::kRight}});
  for (size_t i = 0; i < contenders.size(); ++i) {
    table.add_row({contenders[i].name, fmt::format("{:.2f}", best_ns[i]),
                   fmt::format("{:.2f}", best_ns[i] / best_ns[0])});
  }
  fmt::print("{}\n", table.render(inspect_terminal(1)));
}

// Keeps the compiler from optimising away the computation of `value`.
template <typename T>
void keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

}  // namespace millrace::bench
