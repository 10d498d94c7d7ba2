// FastFiles: the descriptors of fast mode, one table for all threads of the process.
//
// A number in the table exists in the kernel, as a descriptor that refuses reads (O_PATH): a call
// that we do not serve fails with EBADF. After close, the number is parked for the next open, which
// needs no system call either.
//
// Lock-free. State, offset and a generation, which changes with every open, are one word. Whoever
// has read the other fields compares the word again, so no thread gets the bytes of a file that was
// opened under the same number in the meantime. The bytes stay valid for the life of the process. A
// number is busy only while a thread changes what the kernel has there; others wait.
#pragma once

#include <errno.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "hook/arena.h"

namespace millrace::store {

struct FastFile {
  const std::byte* bytes = nullptr;
  uint64_t size_bytes = 0;
  uint32_t entry = 0;
  uint32_t flags = 0;  // of open(2)
};

struct FastPiece {
  const std::byte* bytes;
  size_t size_bytes;
};

class FastFiles {
 public:
  enum class State : uint8_t {
    kNone,    // the number is not ours
    kParked,  // the program has closed it
    kOpen,
    kBusy,
  };

  static constexpr uint64_t kOffsetEnd = uint64_t{1} << 40;  // larger files are not fast

  // Never kBusy. The file is filled if it is open.
  State look(int fd, FastFile& file) {
    Slot* slot = find(fd);
    if (slot == nullptr) return State::kNone;
    for (;;) {
      const uint64_t word = settled(*slot);
      if (state_of(word) != State::kOpen) return state_of(word);
      file = fields(*slot);
      if (is_same_open(word, slot->word.load(std::memory_order_relaxed))) return State::kOpen;
    }
  }

  State state(int fd) {
    Slot* slot = find(fd);
    return slot == nullptr ? State::kNone : state_of(settled(*slot));
  }

  // Takes at most `count` bytes at the offset, and advances it. False if the number is not open
  // here.
  bool take(int fd, uint64_t count, FastPiece& piece) {
    Slot* slot = find(fd);
    if (slot == nullptr) return false;
    for (uint64_t word = settled(*slot);;) {
      if (state_of(word) == State::kBusy) word = settled(*slot);
      if (state_of(word) != State::kOpen) return false;
      const FastFile file = fields(*slot);
      const uint64_t at = offset_of(word);
      const uint64_t left = at < file.size_bytes ? file.size_bytes - at : 0;
      const uint64_t taken = count < left ? count : left;
      if (slot->word.compare_exchange_weak(word, word + taken, std::memory_order_acq_rel,
                                           std::memory_order_acquire)) {
        piece = {file.bytes + at, static_cast<size_t>(taken)};
        return true;
      }
    }
  }

  // lseek. False if the number is not open here. *result is the new offset, or minus an errno
  // value; -EOVERFLOW: only the kernel can go so far.
  bool seek(int fd, int64_t offset, int whence, int64_t* result) {
    Slot* slot = find(fd);
    if (slot == nullptr) return false;
    for (uint64_t word = settled(*slot);;) {
      if (state_of(word) == State::kBusy) word = settled(*slot);
      if (state_of(word) != State::kOpen) return false;
      const uint64_t size_bytes = slot->size_bytes.load(std::memory_order_acquire);
      *result = sought(static_cast<int64_t>(offset_of(word)), static_cast<int64_t>(size_bytes),
                       offset, whence);
      const uint64_t wanted =
          *result < 0 ? word : (word & ~kOffsetMask) | static_cast<uint64_t>(*result);
      if (slot->word.compare_exchange_weak(word, wanted, std::memory_order_acq_rel,
                                           std::memory_order_acquire)) {
        return true;
      }
    }
  }

  // F_SETFD. False if the number is not open here.
  bool set_flags(int fd, uint32_t cleared, uint32_t set) {
    if (state(fd) != State::kOpen) return false;
    Slot* slot = find(fd);
    slot->flags.store((slot->flags.load(std::memory_order_relaxed) & ~cleared) | set,
                      std::memory_order_release);
    return true;
  }

  // Parks a number. False if it was not open here.
  bool close(int fd) { return change(fd, State::kOpen, State::kParked); }

  // A parked number, which is busy from now on: the given one if possible. -1 if there is none.
  int claim(int preferred) {
    if (change(preferred, State::kParked, State::kBusy)) return preferred;
    const int last = highest_.load(std::memory_order_relaxed);
    for (int fd = 0; fd <= last && fd < kSearched; ++fd) {
      if (change(fd, State::kParked, State::kBusy)) return fd;
    }
    return -1;
  }

  // A new number of the kernel, which is busy from now on. Whatever was known about it is wrong.
  // False if there is no memory.
  bool adopt(int fd) {
    Slot* slot = slots_.at(static_cast<size_t>(fd));
    if (slot == nullptr) return false;
    int last = highest_.load(std::memory_order_relaxed);
    while (last < fd && !highest_.compare_exchange_weak(last, fd)) {
    }
    if (state_of(set_state(*slot, State::kBusy)) == State::kNone) count_.fetch_add(1);
    return true;
  }

  // Forgets a number that the kernel has given to someone else.
  void disown(int fd) {
    Slot* slot = find(fd);
    if (slot == nullptr || state_of(slot->word.load(std::memory_order_relaxed)) == State::kNone) {
      return;
    }
    if (state_of(set_state(*slot, State::kNone)) != State::kNone) count_.fetch_sub(1);
  }

  // REQUIRES for these: the number is busy, by this thread.
  void open(int fd, const FastFile& file) {
    Slot& slot = *find(fd);
    slot.bytes.store(file.bytes, std::memory_order_release);
    slot.size_bytes.store(file.size_bytes, std::memory_order_release);
    slot.entry.store(file.entry, std::memory_order_release);
    slot.flags.store(file.flags, std::memory_order_release);
    const uint64_t generation = (slot.word.load(std::memory_order_relaxed) >> kGenerationAt) + 1;
    slot.word.store(generation << kGenerationAt | word_of(State::kOpen), std::memory_order_release);
  }
  void unlock(int fd, State state) { change(fd, State::kBusy, state); }
  FastFile locked(int fd) { return fields(*find(fd)); }
  uint64_t offset(int fd) { return offset_of(find(fd)->word.load(std::memory_order_relaxed)); }

  // Makes a number busy. False if it is not `from`.
  bool lock(int fd, State from) { return change(fd, from, State::kBusy); }

  int highest() const { return highest_.load(std::memory_order_relaxed); }  // -1: none
  uint32_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  static constexpr int kSearched = 256;  // numbers; a new one is cheaper than a longer search
  static constexpr int kStateAt = 40;
  static constexpr int kGenerationAt = 42;
  static constexpr uint64_t kOffsetMask = kOffsetEnd - 1;
  static constexpr uint64_t kStateMask = uint64_t{3} << kStateAt;

  struct alignas(64) Slot {
    std::atomic<uint64_t> word;
    std::atomic<const std::byte*> bytes;
    std::atomic<uint64_t> size_bytes;
    std::atomic<uint32_t> entry;
    std::atomic<uint32_t> flags;
  };

  static State state_of(uint64_t word) { return static_cast<State>(word >> kStateAt & 3); }
  static uint64_t word_of(State state) { return static_cast<uint64_t>(state) << kStateAt; }
  static uint64_t offset_of(uint64_t word) { return word & kOffsetMask; }
  static bool is_same_open(uint64_t a, uint64_t b) { return a >> kStateAt == b >> kStateAt; }

  Slot* find(int fd) { return fd < 0 ? nullptr : slots_.find(static_cast<size_t>(fd)); }

  // With acquire and release on every field: a thread that sees a new value sees the word busy, or
  // open with another generation.
  static FastFile fields(const Slot& slot) {
    return {.bytes = slot.bytes.load(std::memory_order_acquire),
            .size_bytes = slot.size_bytes.load(std::memory_order_acquire),
            .entry = slot.entry.load(std::memory_order_acquire),
            .flags = slot.flags.load(std::memory_order_acquire)};
  }

  // The word once it is not busy. The wait is bounded: a forked child may inherit a busy number of
  // a thread that it does not have. It is not ours then.
  static uint64_t settled(const Slot& slot) {
    constexpr int kYieldsMax = 100'000;
    uint64_t word = slot.word.load(std::memory_order_acquire);
    for (int i = 0; __builtin_expect(state_of(word) == State::kBusy, 0); ++i) {
      if (i == kYieldsMax) return word_of(State::kNone);
      hook::sys_yield();
      word = slot.word.load(std::memory_order_acquire);
    }
    return word;
  }

  // Returns the old word.
  static uint64_t set_state(Slot& slot, State state) {
    uint64_t word = slot.word.load(std::memory_order_relaxed);
    while (!slot.word.compare_exchange_weak(word, (word & ~kStateMask) | word_of(state),
                                            std::memory_order_acq_rel)) {
    }
    return word;
  }

  bool change(int fd, State from, State to) {
    Slot* slot = find(fd);
    if (slot == nullptr) return false;
    uint64_t word = slot->word.load(std::memory_order_acquire);
    do {
      if (state_of(word) != from) {
        if (state_of(word) != State::kBusy || from == State::kParked) return false;
        word = settled(*slot);
        if (state_of(word) != from) return false;
      }
    } while (!slot->word.compare_exchange_weak(word, (word & ~kStateMask) | word_of(to),
                                               std::memory_order_acq_rel,
                                               std::memory_order_acquire));
    return true;
  }

  static int64_t sought(int64_t at, int64_t size_bytes, int64_t offset, int whence) {
    int64_t base = 0;
    switch (whence) {
      case SEEK_SET:
        break;
      case SEEK_CUR:
        base = at;
        break;
      case SEEK_END:
        base = size_bytes;
        break;
      case SEEK_DATA:
        return offset < 0 || offset >= size_bytes ? -ENXIO : offset;
      case SEEK_HOLE:
        return offset < 0 || offset >= size_bytes ? -ENXIO : size_bytes;
      default:
        return -EINVAL;
    }
    int64_t sum = 0;
    if (__builtin_add_overflow(base, offset, &sum)) return -EOVERFLOW;
    if (sum < 0) return -EINVAL;
    return sum < static_cast<int64_t>(kOffsetEnd) ? sum : -EOVERFLOW;
  }

  hook::Arena<Slot, 1024, 1024> slots_;
  std::atomic<int> highest_{-1};
  std::atomic<uint32_t> count_{0};  // numbers that are ours
};

}  // namespace millrace::store
