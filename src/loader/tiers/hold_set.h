// HoldSet: which samples a tier holds within its capacity, and which ones it drops for others.
//
// It applies Belady's rule, because the order is known: drop the sample whose next use is furthest
// in the future, and do not take a sample that is used later than all that are held. For samples of
// one size no rule has more hits (hold_set_test.cc tries all). LRU is the worst choice here: in an
// epoch that reads every sample once, it drops those whose next use is nearest. NoPFS uses how
// often a sample is read, which is the same knowledge averaged over the horizon; the order says
// exactly when, so no average is needed. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "loader/tiers/placement.h"

namespace millrace::loader::tiers {

struct Held {
  data::SampleId sample{};
  uint64_t size_bytes = 0;
  UseTime next_use{};
};

class HoldSet {
 public:
  explicit HoldSet(uint64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  uint64_t capacity_bytes() const { return capacity_bytes_; }
  uint64_t used_bytes() const { return used_bytes_; }
  size_t count() const { return by_sample_.size(); }
  bool contains(data::SampleId sample) const { return by_sample_.contains(data::index_of(sample)); }

  // Takes the sample if there is room, or if all samples dropped for it are used later. Appends
  // those to `gone`. False: nothing has changed.
  bool admit(const Held& held, std::vector<data::SampleId>& gone);

  // The sample that would be dropped first; nullopt if none is held.
  std::optional<Held> last_used() const;

  // Sets the next use of a sample, if it is held.
  void touch(data::SampleId sample, UseTime next_use);

  void erase(data::SampleId sample);

  // A next use before `now` did not happen, or not here: asks for the next use again. Drops samples
  // that have none, and appends them to `gone`.
  using NextUse = std::function<std::optional<UseTime>(data::SampleId)>;
  void refresh(UseTime now, const NextUse& next_use, std::vector<data::SampleId>& gone);

 private:
  struct Item {
    uint64_t size_bytes = 0;
    UseTime next_use{};
  };
  using Key = std::pair<UseTime, uint64_t>;

  uint64_t capacity_bytes_;
  uint64_t used_bytes_ = 0;
  std::unordered_map<uint64_t, Item> by_sample_;
  std::set<Key> by_use_;
};

}  // namespace millrace::loader::tiers
