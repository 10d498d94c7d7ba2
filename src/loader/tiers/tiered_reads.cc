#include "loader/tiers/tiered_reads.h"

#include <algorithm>
#include <utility>

namespace millrace::loader::tiers {

TieredReads::TieredReads(const TieredSource& source, std::unique_ptr<data::SampleReads> slow)
    : source_(source), slots_(slow->capacity()), slow_(std::move(slow)) {
  for (size_t index = slots_.size(); index-- > 0;) free_.push_back(index);
}

void TieredReads::submit(const data::SampleRequest& request) {
  TieredSource::Target target{.room = request.room, .out = request.out};
  TieredSource::Use use = source_.begin_use(request.sample);
  auto near = source_.from_tiers(use, target);
  if (!near.ok()) {
    at_once_.push_back({request.tag, std::move(near).error()});
    return;
  }
  if (*near) {
    at_once_.push_back({request.tag, **near});
    return;
  }
  const size_t index = free_.back();
  slots_[index] = {.tag = request.tag, .use = std::move(use), .began = source_.clock_now()};
  data::SampleRequest of_slow = request;
  of_slow.tag = index;
  slow_->submit(of_slow);
  free_.pop_back();  // after what may throw
}

void TieredReads::wait(std::vector<data::SampleDone>& done) {
  if (!at_once_.empty()) {
    for (data::SampleDone& one : at_once_) done.push_back(std::move(one));
    at_once_.clear();
    return;
  }
  landed_.clear();
  slow_->wait(landed_);
  const auto now = source_.clock_now();
  for (data::SampleDone& one : landed_) {
    Slot& slot = slots_[one.tag];
    if (one.bytes.ok()) {
      // Time since the previous one landed, not since it began: tiers are compared by how soon a
      // thread gets the next sample, and reads in flight progress while it waits for another.
      const auto since = std::max(slot.began, landed_at_);
      const auto each = (now - since) / static_cast<int64_t>(landed_.size());
      source_.count(Tier::kSource, one.bytes->size(), each);
      source_.keep(slot.use, *one.bytes, Tier::kSource);
    }
    slot.use = {};
    free_.push_back(one.tag);
    done.push_back({slot.tag, std::move(one.bytes)});
  }
  landed_at_ = now;
}

}  // namespace millrace::loader::tiers
