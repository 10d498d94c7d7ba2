#include "loader/tiers/placement.h"

#include <algorithm>
#include <cassert>

namespace millrace::loader::tiers {

using data::Epoch;
using data::number_of;
using data::SampleId;

namespace {

// Of a sample in an epoch, that count for its home. A sample that is drawn more often is in use all
// the time, wherever it is.
constexpr int kReadsCounted = 64;

}  // namespace

Placement::Placement(PlacementOptions options)
    : options_(std::move(options)), is_permutation_(options_.order->is_permutation()) {
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

UseTime Placement::time_at(Epoch epoch, uint64_t position) const {
  return static_cast<UseTime>(number_of(epoch) * options_.order->size() + position);
}

UseTime Placement::time_of(Epoch epoch, SampleId sample) const {
  return time_at(epoch, options_.order->position_of(epoch, sample));
}

std::optional<UseTime> Placement::time_near(Epoch epoch, SampleId sample, UseTime now) const {
  if (is_permutation_) return time_of(epoch, sample);
  const order::Order& order = *options_.order;
  const auto begin = static_cast<uint64_t>(time_at(epoch, 0));
  const uint64_t from = std::max(static_cast<uint64_t>(now), begin) - begin;
  std::optional<uint64_t> after = order.first_at(epoch, sample, from);
  while (after && reader_at(epoch, *after) != options_.world.rank) {
    after = order.first_at(epoch, sample, *after + 1);
  }
  std::optional<uint64_t> before = order.last_before(epoch, sample, from);
  while (before && reader_at(epoch, *before) != options_.world.rank) {
    before = order.last_before(epoch, sample, *before);
  }
  if (!after && !before) after = order.first_at(epoch, sample, 0);  // padding, or a stray read
  if (!after && !before) return std::nullopt;
  const bool is_later = after && (!before || *after - from < from - *before);
  return time_at(epoch, is_later ? *after : *before);
}

std::optional<uint32_t> Placement::reader_of(Epoch epoch, SampleId sample) const {
  return reader_at(epoch, options_.order->position_of(epoch, sample));
}

std::optional<uint32_t> Placement::reader_at(Epoch epoch, uint64_t position) const {
  if (number_of(epoch) >= options_.epoch_limit) return std::nullopt;
  if (position >= options_.order->size()) return std::nullopt;  // the epoch lacks the sample
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
  const auto count = [&](Epoch epoch, uint64_t position) {
    const auto reader = reader_at(epoch, position);
    if (!reader) return;
    const auto known = std::ranges::find(readers, *reader, &Home::rank);
    if (known == readers.end()) {
      readers.push_back({*reader, 1, time_at(epoch, position)});
    } else {
      ++known->read_count;
    }
  };
  for (uint64_t i = 0; i < options_.horizon_epochs; ++i) {
    const Epoch epoch{block * options_.horizon_epochs + i};
    if (is_permutation_) {
      count(epoch, options_.order->position_of(epoch, sample));
      continue;
    }
    auto position = options_.order->first_at(epoch, sample, 0);
    for (int n = 0; position && n < kReadsCounted; ++n) {
      count(epoch, *position);
      position = options_.order->first_at(epoch, sample, *position + 1);
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

std::optional<uint32_t> Placement::keeper_for(Epoch epoch, SampleId sample, UseTime time) const {
  if (!is_permutation_) {
    const Home home = find_home(block_of(epoch), sample);
    if (home.read_count == 0 || home.first >= time) return std::nullopt;
    return home.rank;
  }
  if (number_of(epoch) == 0) return std::nullopt;
  const Epoch before{number_of(epoch) - 1};
  return keeper_after(before, sample, find_home(block_of(before), sample));
}

// Like next_use(), for an order that is not a permutation.
std::optional<UseTime> Placement::next_drawn_use(SampleId sample, UseTime after) const {
  const order::Order& order = *options_.order;
  const uint64_t now = static_cast<uint64_t>(after) / order.size();
  std::optional<uint64_t> known_block;
  Home home;  // of known_block
  const auto keeps = [&](Epoch epoch, UseTime time) {
    if (known_block != block_of(epoch)) {
      known_block = block_of(epoch);
      home = find_home(*known_block, sample);
    }
    return home.rank == options_.world.rank && home.read_count > 0 && home.first < time;
  };
  uint64_t begin = static_cast<uint64_t>(after) % order.size() + 1;  // in the first epoch
  for (uint64_t number = now; number <= now + options_.horizon_epochs; ++number, begin = 0) {
    const Epoch epoch{number};
    for (auto position = order.first_at(epoch, sample, begin); position;
         position = order.first_at(epoch, sample, *position + 1)) {
      const auto reader = reader_at(epoch, *position);
      if (!reader) continue;
      const UseTime time = time_at(epoch, *position);
      if (*reader == options_.world.rank || (options_.shares && keeps(epoch, time))) return time;
    }
  }
  return std::nullopt;
}

std::optional<UseTime> Placement::next_use(SampleId sample, UseTime after) const {
  if (!is_permutation_) return next_drawn_use(sample, after);
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
  for (uint64_t i = 0; i < options_.order->sample_count(); ++i) {
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
