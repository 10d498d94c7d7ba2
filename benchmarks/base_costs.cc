// What the module base costs: checksum, counter, queue, pool, JSON, each compared with its floor.
#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <vector>

#include "base/concurrency/bounded_queue.h"
#include "base/concurrency/thread_pool.h"
#include "base/hash/crc32c.h"
#include "base/hash/siphash.h"
#include "base/numbers/random.h"
#include "base/system/counter.h"
#include "base/system/progress.h"
#include "base/text/json.h"
#include "benchmarks/measure.h"

namespace millrace::bench {
namespace {

void crc32c_costs() {
  constexpr size_t kSize = 64 << 10;
  constexpr size_t kTimes = 200;
  std::vector<std::byte> from(kSize);
  std::vector<std::byte> to(kSize);
  Random random(1);
  for (std::byte& byte : from) byte = static_cast<std::byte>(random.next());
  const auto repeated = [](auto work) {
    return [work] {
      for (size_t i = 0; i < kTimes; ++i) work();
    };
  };
  compare(fmt::format("crc32c of 64 KiB, per KiB ({})", crc32c_implementation()),
          kTimes * kSize / 1024,
          {{"memcpy (floor)", repeated([&] {
              std::memcpy(to.data(), from.data(), kSize);
              keep(to[0]);
            })},
           {"crc32c", repeated([&] { keep(crc32c(from)); })},
           {"crc32c by tables", repeated([&] { keep(crc32c_by_tables(from)); })},
           {"siphash", repeated([&] { keep(siphash({}, from)); })}});
}

void counter_costs() {
  constexpr size_t kReads = 1'000'000;
  const auto source = choose_counter().source;
  compare("time stamp", kReads,
          {{"the instruction (floor)",
            [] {
              for (size_t i = 0; i < kReads; ++i) keep(wire::read_cpu_counter());
            }},
           {"read_ticks",
            [&] {
              for (size_t i = 0; i < kReads; ++i) keep(wire::read_ticks(source));
            }},
           {"clock_gettime", [] {
              for (size_t i = 0; i < kReads; ++i) keep(wire::monotonic_clock_ns());
            }}});
}

void queue_costs() {
  constexpr size_t kValues = 1'000'000;
  compare("queue, push and pop in one thread", kValues,
          {{"mutex and deque (floor)",
            [] {
              std::mutex mutex;
              std::deque<size_t> values;
              for (size_t i = 0; i < kValues; ++i) {
                {
                  const std::lock_guard lock(mutex);
                  values.push_back(i);
                }
                const std::lock_guard lock(mutex);
                keep(values.front());
                values.pop_front();
              }
            }},
           {"BoundedQueue", [] {
              BoundedQueue<size_t> queue(64);
              for (size_t i = 0; i < kValues; ++i) {
                queue.push(i);
                keep(*queue.pop());
              }
            }}});
}

void pool_costs() {
  constexpr size_t kIndices = 200'000;
  ThreadPool pool(2);
  compare("parallel_for, an index", kIndices,
          {{"atomic counter in one thread (floor)",
            [] {
              std::atomic<size_t> next = 0;
              while (next.fetch_add(1) < kIndices) {
              }
            }},
           {"parallel_for, 2 threads and the caller",
            [&] { keep(pool.parallel_for(kIndices, [](size_t) -> Status { return {}; }).ok()); }}});
}

void progress_costs() {
  constexpr size_t kAdds = 1'000'000;
  Progress progress({.label = "bench", .total = kAdds, .fd = -1});  // no terminal
  compare("progress, a report without a terminal", kAdds,
          {{"atomic addition (floor)",
            [] {
              std::atomic<uint64_t> done = 0;
              for (size_t i = 0; i < kAdds; ++i) done.fetch_add(1, std::memory_order_relaxed);
            }},
           {"Progress::add", [&] {
              for (size_t i = 0; i < kAdds; ++i) progress.add(1);
            }}});
}

void json_costs() {
  std::string text = "[";
  for (int i = 0; i < 20'000; ++i) {
    text += fmt::format("{}{{\"name\": \"file-{}\", \"size\": {}, \"ok\": true}}",
                        i == 0 ? "" : ",\n", i, i * 977);
  }
  text += "]";
  compare("JSON, per KiB", text.size() / 1024,
          {{"copy of the text (floor)", [&] { keep(std::string(text).size()); }},
           {"parse_json", [&] { keep(parse_json(text, "bench").ok()); }}},
          7);
}

}  // namespace
}  // namespace millrace::bench

int main() {
  millrace::bench::crc32c_costs();
  millrace::bench::counter_costs();
  millrace::bench::queue_costs();
  millrace::bench::pool_costs();
  millrace::bench::progress_costs();
  millrace::bench::json_costs();
}
