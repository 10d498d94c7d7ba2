// EventSamples: generated events that look like those of real programs, for tests and benchmarks.
#pragma once

#include <cstdint>

#include "base/numbers/random.h"
#include "trace/read/columns.h"

namespace millrace::trace {

// One event. The defaults are those of a successful read.
struct SampleEvent {
  uint64_t begin_ns = 0;
  uint64_t duration_ns = 0;
  wire::Call call = wire::Call::kPread;
  NameIndex file{1};
  uint64_t offset = wire::kNoOffset;
  uint64_t size = 0;
  int64_t result = 0;
  uint16_t error = 0;
  ThreadIndex thread{};
  uint32_t detail = 0;
  NameIndex other_file{};
  uint64_t other_offset = wire::kNoOffset;
  uint8_t flags = 0;
};

inline void push(EventColumns& columns, const SampleEvent& event) {
  columns.begin_ns.push_back(event.begin_ns);
  columns.duration_ns.push_back(event.duration_ns);
  columns.call.push_back(event.call);
  columns.file.push_back(event.file);
  columns.offset.push_back(event.offset);
  columns.size.push_back(event.size);
  columns.result.push_back(event.result);
  columns.error.push_back(event.error);
  columns.thread.push_back(event.thread);
  columns.detail.push_back(event.detail);
  columns.other_file.push_back(event.other_file);
  columns.other_offset.push_back(event.other_offset);
  columns.flags.push_back(event.flags);
}

// Durations as with a page cache: a bell curve some tens of nanoseconds wide, a long tail, and an
// occasional interrupt.
inline uint64_t noisy_ns(Random& random, uint64_t typical_ns) {
  uint64_t noise = 0;
  for (int i = 0; i < 4; ++i) noise += random.below(typical_ns / 16 + 1);
  if (random.below(64) == 0) noise += random.below(typical_ns);
  if (random.below(4096) == 0) noise += random.below(20'000);
  return typical_ns * 7 / 8 + noise;
}

inline EventColumns random_preads(size_t count, uint64_t file_bytes = uint64_t{1} << 30) {
  EventColumns columns;
  Random random(1);
  uint64_t now = 1'000'000;
  for (size_t i = 0; i < count; ++i) {
    SampleEvent event;
    event.begin_ns = now + noisy_ns(random, 90);
    event.duration_ns = noisy_ns(random, 700);
    event.offset = 4096 * random.below(file_bytes / 4096);
    event.size = 4096;
    event.result = 4096;
    now = event.begin_ns + event.duration_ns;
    push(columns, event);
  }
  return columns;
}

inline EventColumns sequential_reads(size_t count) {
  EventColumns columns;
  Random random(2);
  uint64_t now = 1'000'000;
  for (size_t i = 0; i < count; ++i) {
    SampleEvent event;
    event.call = wire::Call::kRead;
    event.begin_ns = now + noisy_ns(random, 90);
    event.duration_ns = noisy_ns(random, 9000);
    event.offset = (uint64_t{128} << 10) * i;
    event.size = 128 << 10;
    event.result = 128 << 10;
    now = event.begin_ns + event.duration_ns;
    push(columns, event);
  }
  return columns;
}

// `count` opens, reads and closes of files in random order, a third each.
inline EventColumns small_files(size_t count, uint32_t file_count) {
  EventColumns columns;
  Random random(3);
  uint64_t now = 1'000'000;
  uint32_t file = 1;
  for (size_t i = 0; i < count; ++i) {
    SampleEvent event;
    event.begin_ns = now + noisy_ns(random, 90);
    if (i % 3 == 0) {
      file = 1 + static_cast<uint32_t>(random.below(file_count));
      event.call = wire::Call::kOpen;
      event.duration_ns = noisy_ns(random, 1500);
      event.result = 3;
      event.detail = 02000000;
    } else if (i % 3 == 1) {
      event.call = wire::Call::kRead;
      event.duration_ns = noisy_ns(random, 1200);
      event.offset = 0;
      event.size = 16384;
      event.result = 16384;
    } else {
      event.call = wire::Call::kClose;
      event.duration_ns = noisy_ns(random, 300);
    }
    event.file = static_cast<NameIndex>(file);
    now = event.begin_ns + event.duration_ns;
    push(columns, event);
  }
  return columns;
}

// Training steps: four reads per fetch, and regions that end after the events inside them.
inline EventColumns regions(size_t count) {
  EventColumns columns;
  Random random(4);
  uint64_t now = 1'000'000;
  uint64_t region_begin = now;
  for (size_t i = 0; i < count; ++i) {
    SampleEvent event;
    const uint64_t step = i / 6;
    if (i % 6 < 4) {
      event.begin_ns = now + noisy_ns(random, 90);
      event.duration_ns = noisy_ns(random, 700);
      event.file = static_cast<NameIndex>(3 + random.below(64));
      event.offset = 4096 * random.below(1 << 12);
      event.size = 4096;
      event.result = 4096;
    } else {
      event.call = wire::Call::kRegion;
      event.file = static_cast<NameIndex>(i % 6 == 4 ? 1 : 2);
      event.offset = step;
      event.size = step / 1000;
      event.begin_ns = i % 6 == 4 ? region_begin : now + 50;
      event.duration_ns = i % 6 == 4 ? now + 100 - region_begin : noisy_ns(random, 50'000);
    }
    now = event.begin_ns + event.duration_ns;
    if (i % 6 == 5) region_begin = now + 60;
    push(columns, event);
  }
  return columns;
}

}  // namespace millrace::trace
