// Measure: times several ways to do one thing against each other, so that a ratio can be believed.
//
// The contenders run in turn, round after round, so that a machine that slows down slows all of
// them; the least of the rounds is what each takes when nothing gets in its way. CPU time of the
// process, so that a contender with threads pays for them. The first contender is the floor.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/table.h"

namespace millrace::bench {

struct Contender {
  std::string name;
  std::function<void()> run;  // all of `operations`
};

// Prints a line a contender: nanoseconds an operation, and the ratio to the first.
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

// Keeps the compiler from leaving out what computes `value`.
template <typename T>
void keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

}  // namespace millrace::bench
