// HoldSet: which samples a tier holds, within its bytes, and which go when another comes.
//
// Belady's rule, which the known order makes possible: what is next used furthest in the future
// goes first, and a sample that would be used later than all that is there is not taken. For
// samples of one size no rule has more hits (hold_set_test.cc tries all). LRU is the worst choice
// here: in an epoch that reads every sample once, what was used last is used next the latest. How
// often a sample is read, NoPFS' measure, is the same knowledge averaged over the horizon; the
// order says when, so the average is not needed. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "loader/tiers/placement.h"

namespace millrace::loader {

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

  // Takes the sample in where there is room, or where those that must go for it are all used later.
  // Adds those to `gone`. False: nothing has changed.
  bool admit(const Held& held, std::vector<data::SampleId>& gone);

  // The sample that would go first; nothing where none is held.
  std::optional<Held> last_used() const;

  // The next use of a sample that is held is now this one.
  void touch(data::SampleId sample, UseTime next_use);

  void erase(data::SampleId sample);

  // Uses that lie before `now` did not happen, or somewhere else: asks again for the next one.
  // Without a next use the sample goes, and is added to `gone`.
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

}  // namespace millrace::loader
