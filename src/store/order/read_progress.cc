#include "store/order/read_progress.h"

namespace millrace::store {

void ReadProgress::expect(uint32_t entry) {
  coming_[entry].push_back(expected_count());
  reads_.push_back({.entry = entry});
}

void ReadProgress::closed(uint32_t entry, Time now) {
  const auto found = coming_.find(entry);
  if (found == coming_.end() || found->second.front() >= begin_ + window_) return;
  Read& read = reads_[found->second.front() - begin_];
  read.is_done = true;
  read.done_at = now;
  found->second.pop_front();
  if (found->second.empty()) coming_.erase(found);
  move_on();
}

void ReadProgress::give_up_until(Time now) {
  size_t passed_count = 0;
  for (size_t i = 0; i < reads_.size() && i < window_; ++i) {
    if (reads_[i].is_done && now - reads_[i].done_at >= patience_) passed_count = i;
  }
  for (size_t i = 0; i < passed_count; ++i) {
    if (reads_[i].is_done) continue;
    reads_[i].is_done = true;
    const auto found = coming_.find(reads_[i].entry);
    found->second.pop_front();  // the first, because earlier reads of it are done
    if (found->second.empty()) coming_.erase(found);
  }
  move_on();
}

void ReadProgress::move_on() {
  while (!reads_.empty() && reads_.front().is_done) {
    reads_.pop_front();
    ++begin_;
  }
}

}  // namespace millrace::store
