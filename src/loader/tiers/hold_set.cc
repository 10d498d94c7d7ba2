#include "loader/tiers/hold_set.h"

#include <cassert>

namespace millrace::loader::tiers {

using data::index_of;
using data::SampleId;

bool HoldSet::admit(const Held& held, std::vector<SampleId>& gone) {
  assert(!contains(held.sample));
  if (held.size_bytes > capacity_bytes_) return false;
  uint64_t free_bytes = capacity_bytes_ - used_bytes_;
  std::vector<SampleId> victims;
  for (auto last = by_use_.rbegin(); free_bytes < held.size_bytes; ++last) {
    if (last == by_use_.rend() || last->first <= held.next_use) return false;
    victims.push_back(SampleId{last->second});
    free_bytes += by_sample_.at(last->second).size_bytes;
  }
  for (const SampleId victim : victims) erase(victim);
  gone.insert(gone.end(), victims.begin(), victims.end());
  by_sample_[index_of(held.sample)] = {held.size_bytes, held.next_use};
  by_use_.insert({held.next_use, index_of(held.sample)});
  used_bytes_ += held.size_bytes;
  return true;
}

std::optional<Held> HoldSet::last_used() const {
  if (by_use_.empty()) return std::nullopt;
  const auto& [next_use, sample] = *by_use_.rbegin();
  return Held{SampleId{sample}, by_sample_.at(sample).size_bytes, next_use};
}

void HoldSet::touch(SampleId sample, UseTime next_use) {
  const auto found = by_sample_.find(index_of(sample));
  if (found == by_sample_.end()) return;
  by_use_.erase({found->second.next_use, index_of(sample)});
  found->second.next_use = next_use;
  by_use_.insert({next_use, index_of(sample)});
}

void HoldSet::erase(SampleId sample) {
  const auto found = by_sample_.find(index_of(sample));
  if (found == by_sample_.end()) return;
  by_use_.erase({found->second.next_use, index_of(sample)});
  used_bytes_ -= found->second.size_bytes;
  by_sample_.erase(found);
}

void HoldSet::refresh(UseTime now, const NextUse& next_use, std::vector<SampleId>& gone) {
  while (!by_use_.empty() && by_use_.begin()->first < now) {
    const SampleId sample{by_use_.begin()->second};
    const auto next = next_use(sample);
    if (next && *next >= now) {
      touch(sample, *next);
    } else {
      erase(sample);
      gone.push_back(sample);
    }
  }
}

}  // namespace millrace::loader::tiers
