// ReadProgress: how far a program has come in an order of reads, from the files that it closes.
//
// Programs with several workers read out of order, skip files, and read a file twice. So a file
// that is closed counts for its next read in the order, but only if that is near; and a read that
// was passed over for long counts as done. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <unordered_map>

namespace millrace::store {

class ReadProgress {
 public:
  using Time = std::chrono::nanoseconds;

  // Reads up to `window` after the first that is not done are near. A window of an epoch or more
  // would take the second close of a file for the read of the next epoch.
  ReadProgress(uint64_t window, Time patience) : window_(window), patience_(patience) {}

  // The next read of the order is of this file.
  void expect(uint32_t entry);
  // A program has closed the file.
  void closed(uint32_t entry, Time now);
  // Gives up what was passed over for longer than the patience.
  void give_up_until(Time now);

  uint64_t expected_count() const { return begin_ + reads_.size(); }
  uint64_t done_count() const { return begin_; }  // all reads before it are done

 private:
  struct Read {
    uint32_t entry = 0;
    bool is_done = false;
    Time done_at{};
  };
  void move_on();

  const uint64_t window_;
  const Time patience_;
  uint64_t begin_ = 0;  // the number of the first read in reads_
  std::deque<Read> reads_;
  std::unordered_map<uint32_t, std::deque<uint64_t>> coming_;  // the reads of a file, not done
};

}  // namespace millrace::store
