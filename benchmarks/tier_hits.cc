// How many reads a tier saves, for each rule of what to keep: the next use (ours), how often it is
// read (NoPFS), the last use (LRU). A simulation: exact counts, no times.
//
//   bench_tier_hits      prints the table of docs/design/clairvoyant.md
#include <algorithm>
#include <list>
#include <unordered_map>

#include "base/system/terminal.h"
#include "base/text/table.h"
#include "base/text/units.h"
#include "loader/tiers/hold_set.h"
#include "loader/tiers/placement.h"

namespace millrace::bench {
namespace {

using data::Epoch;
using data::SampleId;
using loader::tiers::HoldSet;
using loader::tiers::Placement;

constexpr uint64_t kSamples = 400;
constexpr uint64_t kEpochs = 12;

struct Read {
  SampleId sample{};
  Epoch epoch{};
};

std::vector<Read> reads_of_rank_0(const Placement& placement) {
  std::vector<Read> reads;
  const auto& options = placement.options();
  for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (uint64_t at = 0; at < kSamples; at += options.world.size) {
      reads.push_back({options.order->at(Epoch{epoch}, at), Epoch{epoch}});
    }
  }
  return reads;
}

double by_next_use(const Placement& placement, const std::vector<Read>& reads, uint64_t room) {
  HoldSet held(room);
  std::vector<SampleId> gone;
  double hits = 0;
  for (const Read& read : reads) {
    const auto next = placement.next_use(read.sample, placement.time_of(read.epoch, read.sample));
    const bool is_hit = held.contains(read.sample);
    if (is_hit) ++hits;
    if (is_hit && next) held.touch(read.sample, *next);
    if (is_hit && !next) held.erase(read.sample);
    if (!is_hit && next) held.admit({read.sample, 1, *next}, gone);
  }
  return hits / static_cast<double>(reads.size());
}

double by_frequency(const std::vector<Read>& reads, uint64_t room) {
  std::unordered_map<uint64_t, int> counts;
  for (const Read& read : reads) ++counts[data::index_of(read.sample)];
  std::vector<std::pair<int, uint64_t>> ranked;
  for (const auto& [sample, count] : counts) ranked.emplace_back(-count, sample);
  std::ranges::sort(ranked);
  // Each sample that is kept is read once, and is a hit from then on.
  double hits = 0;
  for (size_t i = 0; i < std::min<size_t>(room, ranked.size()); ++i) hits += -ranked[i].first - 1;
  return hits / static_cast<double>(reads.size());
}

double by_last_use(const std::vector<Read>& reads, uint64_t room) {
  std::list<uint64_t> used;  // most recently used first
  std::unordered_map<uint64_t, std::list<uint64_t>::iterator> held;
  double hits = 0;
  for (const Read& read : reads) {
    const uint64_t sample = data::index_of(read.sample);
    if (const auto found = held.find(sample); found != held.end()) {
      ++hits;
      used.erase(found->second);
    } else if (held.size() == room) {
      held.erase(used.back());
      used.pop_back();
    }
    used.push_front(sample);
    held[sample] = used.begin();
  }
  return hits / static_cast<double>(reads.size());
}

}  // namespace
}  // namespace millrace::bench

int main() {
  using namespace millrace;
  using namespace millrace::bench;
  auto made = loader::order::make_order({.sample_count = kSamples, .seed = 1});
  if (!made.ok()) return 1;
  const std::shared_ptr<const loader::order::Order> order = *std::move(made);
  using enum Table::Align;
  Table table({{.title = "ranks", .align = kRight},
               {.title = "samples that fit", .align = kRight},
               {.title = "epochs ahead", .align = kRight},
               {.title = "next use", .align = kRight},
               {.title = "most often read", .align = kRight},
               {.title = "last use (LRU)", .align = kRight}});
  struct Case {
    uint32_t ranks;
    uint64_t room;
    uint32_t horizon;
  };
  for (const auto& [ranks, room, horizon] :
       {Case{1, 200, 8}, Case{4, 50, 8}, Case{4, 100, 8}, Case{4, 200, 8}, Case{16, 25, 8},
        Case{16, 100, 8}, Case{16, 25, 32}, Case{16, 100, 32}}) {
    const Placement placement(
        {.order = order, .world = {0, ranks}, .horizon_epochs = horizon, .epoch_limit = kEpochs});
    const auto reads = reads_of_rank_0(placement);
    table.add_row({std::to_string(ranks), std::to_string(room), std::to_string(horizon),
                   format_percent(by_next_use(placement, reads, room)),
                   format_percent(by_frequency(reads, room)),
                   format_percent(by_last_use(reads, room))});
  }
  fmt::print("{}", table.render(inspect_terminal(1)));
  return 0;
}
