#include "trace/preload/mappings.h"

#include <unistd.h>

#include <atomic>

#include "hook/arena.h"
#include "hook/scratch.h"
#include "hook/syscall.h"
#include "trace/preload/recorder.h"

namespace millrace::trace {
namespace {

// The unit of the hash. The kernel's pages may be larger.
constexpr uint64_t kPage = 4096;
// Smaller mappings are not checked: the kernel maps neighbouring pages in blocks of this size, so
// the page table would show nothing.
constexpr uint64_t kFaultAroundBytes = 64 * 1024;

// Above this size, only every sixteenth part is checked.
constexpr uint64_t kSampledFromBytes = 1ull << 30;

struct Slot {
  std::atomic<uint64_t> begin;  // 0: free; 1: being written
  uint64_t size;
  uint64_t offset;
  uint32_t file;
  uint32_t reserved;
};

constexpr size_t kSlots = 1024;
constexpr size_t kLevels = 1024;
constexpr size_t kProbes = 16;

// A hash table in layers of kSlots. If a mapping's place in one layer is full, the next layer is
// used.
constinit hook::Arena<Slot, kSlots, kLevels> slots;
constinit std::atomic<uint32_t> live{0};

size_t place_of(uint64_t begin) {
  return static_cast<size_t>((begin / kPage) * 0x9e3779b97f4a7c15u >> 54) & ~(kProbes - 1);
}

MappedRange range_of(const Slot& slot, uint64_t begin) {
  return {.begin = begin, .size = slot.size, .offset = slot.offset, .file = NameId{slot.file}};
}

Slot* find_exact(uint64_t begin) {
  for (size_t level = 0; level < kLevels; ++level) {
    Slot* first = slots.find(level * kSlots + place_of(begin));
    if (first == nullptr) return nullptr;
    for (size_t i = 0; i < kProbes; ++i) {
      if (first[i].begin.load(std::memory_order_acquire) == begin) return &first[i];
    }
  }
  return nullptr;
}

template <typename Visit>
void for_each_mapping(Visit visit) {
  for (size_t level = 0; level < kLevels; ++level) {
    Slot* first = slots.find(level * kSlots);
    if (first == nullptr) return;
    for (size_t i = 0; i < kSlots; ++i) {
      const uint64_t begin = first[i].begin.load(std::memory_order_acquire);
      if (begin > 1) visit(first[i], begin);
    }
  }
}

// How many bytes of [begin, begin + size) have a page in this process.
uint64_t present_bytes(uint64_t begin, uint64_t size, bool* estimated) {
  *estimated = true;
  if (size <= kFaultAroundBytes) return size;
  struct Entries {
    uint64_t of_page[512];
  };
  const hook::Scratch<Entries> entries;
  if (!entries) return size;
  const hook::SignalsBlocked blocked;  // no signal handler may run while our descriptor is open
  const int fd = hook::sys_open("/proc/self/pagemap", O_RDONLY);
  if (fd < 0) return size;
  const uint64_t stride = size >= kSampledFromBytes ? 16 : 1;
  *estimated = stride != 1;
  uint64_t present = 0;
  const auto page_bytes = static_cast<uint64_t>(getpagesize());
  const uint64_t pages = (size + page_bytes - 1) / page_bytes;
  for (uint64_t page = 0; page < pages; page += 512 * stride) {
    const uint64_t wanted = pages - page < 512 ? pages - page : 512;
    const long got =
        hook::sys_pread(fd, entries->of_page, wanted * 8, (begin / page_bytes + page) * 8);
    for (long i = 0; i < got / 8; ++i) present += (entries->of_page[i] >> 62) != 0 ? 1 : 0;
  }
  hook::sys_close(fd);
  const uint64_t bytes = present * stride * page_bytes;
  return bytes < size ? bytes : size;
}

void record_use(const MappedRange& range) {
  bool estimated = false;
  const uint64_t at = now();
  const uint64_t present = present_bytes(range.begin, range.size, &estimated);
  record({.call = Call::kMapped,
          .file = range.file,
          .offset = range.offset,
          .size = range.size,
          .flags = estimated ? wire::kFlagEstimate : uint8_t{0}},
         {at, at, static_cast<int64_t>(present)});
}

bool overlaps(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size) {
  return a < b + b_size && b < a + a_size;
}

}  // namespace

void add_mapping(const MappedRange& range) {
  for (size_t level = 0; level < kLevels; ++level) {
    Slot* first = slots.at(level * kSlots + place_of(range.begin));
    if (first == nullptr) return;
    for (size_t i = 0; i < kProbes; ++i) {
      uint64_t free = 0;
      if (!first[i].begin.compare_exchange_strong(free, 1, std::memory_order_acquire)) continue;
      first[i].size = range.size;
      first[i].offset = range.offset;
      first[i].file = static_cast<uint32_t>(range.file);
      first[i].begin.store(range.begin, std::memory_order_release);
      live.fetch_add(1, std::memory_order_relaxed);
      return;
    }
  }
}

bool find_mapping(uint64_t begin, uint64_t size, MappedRange* found) {
  if (live.load(std::memory_order_relaxed) == 0) return false;
  if (const Slot* exact = find_exact(begin)) {
    *found = range_of(*exact, begin);
    return true;
  }
  bool any = false;
  for_each_mapping([&](const Slot& slot, uint64_t start) {
    if (any || !overlaps(begin, size, start, slot.size)) return;
    any = true;
    *found = range_of(slot, start);
  });
  return any;
}

void end_mapping(uint64_t begin, uint64_t size) {
  if (live.load(std::memory_order_relaxed) == 0) return;
  const auto end_slot = [&](Slot& slot, uint64_t start) {
    const MappedRange whole = range_of(slot, start);
    const uint64_t from = begin > start ? begin : start;
    const uint64_t whole_end = start + whole.size;
    const uint64_t until = begin + size < whole_end ? begin + size : whole_end;
    record_use({.begin = from,
                .size = until - from,
                .offset = whole.offset + (from - start),
                .file = whole.file});
    slot.begin.store(0, std::memory_order_release);
    live.fetch_sub(1, std::memory_order_relaxed);
    if (from > start) {
      add_mapping({start, from - start, whole.offset, whole.file});
    }
    if (until < whole_end) {
      add_mapping({until, whole_end - until, whole.offset + (until - start), whole.file});
    }
  };
  Slot* exact = find_exact(begin);
  if (exact != nullptr && exact->size >= size) return end_slot(*exact, begin);
  for_each_mapping([&](Slot& slot, uint64_t start) {
    if (overlaps(begin, size, start, slot.size)) end_slot(slot, start);
  });
}

void forget_mapping(uint64_t begin) {
  Slot* slot = find_exact(begin);
  if (slot == nullptr) return;
  slot->begin.store(0, std::memory_order_release);
  live.fetch_sub(1, std::memory_order_relaxed);
}

void record_live_mappings() {
  if (live.load(std::memory_order_relaxed) == 0) return;
  for_each_mapping([](const Slot& slot, uint64_t begin) { record_use(range_of(slot, begin)); });
}

}  // namespace millrace::trace
