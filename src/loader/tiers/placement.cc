#include "loader/tiers/placement.h"

#include <algorithm>
#include <cassert>

namespace millrace::loader::tiers {

using data::Epoch;
using data::number_of;
using data::SampleId;

Placement::Placement(PlacementOptions options) : options_(std::move(options)) {
  assert(options_.order && options_.order->size() > 0 && options_.horizon_epochs > 0);
}

uint64_t Placement::block_of(Epoch epoch) const {
  return number_of(epoch) / options_.horizon_epochs;
}

order::ShareOptions Placement::share_in(Epoch epoch) const {
  return {.sample_count = options_.order->size(),
          .done = epoch == options_.resumed_epoch ? options_.resumed_done : 0,
          .world = options_.world,
          .batch_size = options_.batch_size,
          .tail = options_.tail};
}

uint64_t Placement::reads_in(Epoch epoch) const {
  const order::ShareOptions share = share_in(epoch);
  const order::Share own(share);
  if (own.batch_count() == 0) return 0;
  const uint64_t last = own.batch_count() - 1;
  return last * share.batch_size + own.batch(last).row_count;
}

UseTime Placement::time_of(Epoch epoch, SampleId sample) const {
  const uint64_t position = options_.order->position_of(epoch, sample);
  return static_cast<UseTime>(number_of(epoch) * options_.order->size() + position);
}

std::optional<uint32_t> Placement::reader_of(Epoch epoch, SampleId sample) const {
  if (number_of(epoch) >= options_.epoch_limit) return std::nullopt;
  const uint64_t position = options_.order->position_of(epoch, sample);
  const uint64_t done = epoch == options_.resumed_epoch ? options_.resumed_done : 0;
  if (position < done) return std::nullopt;  // read before the job resumed
  if (options_.tail == order::Tail::kDrop) {
    const uint64_t step = options_.batch_size * options_.world.size;
    const uint64_t whole_steps = (options_.order->size() - done) / step;
    if (position - done >= whole_steps * step) return std::nullopt;
  }
  return static_cast<uint32_t>((position - done) % options_.world.size);
}

Placement::Home Placement::find_home(uint64_t block, SampleId sample) const {
  // Not a map: there are only a few readers, and a search is fast.
  std::vector<Home> readers;
  for (uint64_t i = 0; i < options_.horizon_epochs; ++i) {
    const Epoch epoch{block * options_.horizon_epochs + i};
    const auto reader = reader_of(epoch, sample);
    if (!reader) continue;
    const auto known = std::ranges::find(readers, *reader, &Home::rank);
    if (known == readers.end()) {
      readers.push_back({*reader, 1, time_of(epoch, sample)});
    } else {
      ++known->read_count;
    }
  }
  if (readers.empty()) {
    return {static_cast<uint32_t>(data::index_of(sample) % options_.world.size), 0, UseTime{}};
  }
  // The first of the largest: readers are in the order of their first reads.
  return *std::ranges::max_element(readers, {}, &Home::read_count);
}

uint32_t Placement::home_of(Epoch epoch, SampleId sample) const {
  if (options_.world.size == 1) return 0;
  return find_home(block_of(epoch), sample).rank;
}

std::optional<uint32_t> Placement::keeper_after(Epoch epoch, SampleId sample,
                                                const Home& home) const {
  if (home.read_count > 0 && home.first <= time_of(epoch, sample)) return home.rank;
  return reader_of(epoch, sample);
}

std::optional<uint32_t> Placement::keeper_for(Epoch epoch, SampleId sample) const {
  if (number_of(epoch) == 0) return std::nullopt;
  const Epoch before{number_of(epoch) - 1};
  return keeper_after(before, sample, find_home(block_of(before), sample));
}

std::optional<UseTime> Placement::next_use(SampleId sample, UseTime after) const {
  const uint64_t now = static_cast<uint64_t>(after) / options_.order->size();
  std::optional<uint64_t> known_block;
  Home home;  // of known_block; cached because find_home() looks at all epochs of a block
  for (uint64_t number = now; number <= now + options_.horizon_epochs; ++number) {
    const Epoch epoch{number};
    const auto reader = reader_of(epoch, sample);
    const UseTime time = time_of(epoch, sample);
    if (!reader || time <= after) continue;
    if (*reader == options_.world.rank) return time;
    if (!options_.shares || number == 0) continue;
    const Epoch before{number - 1};
    if (known_block != block_of(before)) {
      known_block = block_of(before);
      home = find_home(*known_block, sample);
    }
    if (keeper_after(before, sample, home) == options_.world.rank) return time;
  }
  return std::nullopt;
}

std::vector<SampleId> Placement::held_by(uint32_t rank, Epoch epoch, size_t count) const {
  struct Candidate {
    SampleId sample;
    Home home;
  };
  std::vector<Candidate> candidates;
  for (uint64_t i = 0; i < options_.order->size(); ++i) {
    const Home home = find_home(block_of(epoch), SampleId{i});
    if (home.rank == rank && home.read_count > 0) candidates.push_back({SampleId{i}, home});
  }
  std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
    if (a.home.read_count != b.home.read_count) return a.home.read_count > b.home.read_count;
    return a.home.first < b.home.first;
  });
  std::vector<SampleId> samples;
  for (size_t i = 0; i < std::min(count, candidates.size()); ++i)
    samples.push_back(candidates[i].sample);
  return samples;
}

}  // namespace millrace::loader::tiers
