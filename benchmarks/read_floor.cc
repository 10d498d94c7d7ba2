// The floor of a loader of small files: threads that open, read and close each file, and nothing
// else. Prints files per second: bench_read_floor FOLDER THREADS [ROUNDS].
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/system/clock.h"

namespace {

double read_all(const std::vector<std::string>& paths, unsigned threads) {
  std::atomic<size_t> next = 0;
  const auto begin = millrace::monotonic_now();
  std::vector<std::thread> readers;
  for (unsigned t = 0; t < threads; ++t) {
    readers.emplace_back([&] {
      std::vector<char> room(size_t{1} << 20);
      for (size_t i; (i = next.fetch_add(1)) < paths.size();) {
        const int file = open(paths[i].c_str(), O_RDONLY | O_CLOEXEC);
        while (read(file, room.data(), room.size()) == static_cast<ssize_t>(room.size())) {
        }
        close(file);
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  const auto taken = millrace::monotonic_now() - begin;
  return static_cast<double>(paths.size()) / (static_cast<double>(taken.count()) * 1e-9);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: bench_read_floor FOLDER THREADS [ROUNDS]\n");
    return 2;
  }
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[1])) {
    if (entry.is_regular_file()) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  double best = 0;
  for (int round = argc > 3 ? std::atoi(argv[3]) : 3; round > 0; --round) {
    best = std::max(best, read_all(paths, static_cast<unsigned>(std::atoi(argv[2]))));
  }
  fmt::print("{:.0f}\n", best);
  return 0;
}
