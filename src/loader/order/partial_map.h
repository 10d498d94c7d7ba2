// PartialMap: which sample lies in each slot of one shard in one epoch, as a table.
//
// A walk back (partial_moves.h) takes a step a cycle, and the hundredth epoch has ten of them. A
// rank asks about every slot of its shard in every epoch: one pass makes the table of the first,
// and each next one is the table before with the moves of an epoch made, of which there are few; or
// it is a part of the table of all shards, where that is less work (whole_map.h).
//
// PartialMaps keeps the two that were used last, so that a prefetcher that is an epoch ahead, and
// whoever is not, find theirs: 8 bytes a slot together, and only of a shard that is not huge. Of
// one shard, the first that is asked for: it is the rank's own, and ranks that are asked about in
// turns would each throw out what the other had. Any thread may ask, and waits only for a map that
// it needs.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "loader/order/partial_moves.h"
#include "loader/order/whole_map.h"

namespace millrace::loader {

class PartialMap {
 public:
  static constexpr uint64_t kSlotCountMax = uint64_t{1} << 20;
  static constexpr uint64_t kSampleCountMax = uint64_t{1} << 32;

  // REQUIRES: the shard has at most kSlotCountMax slots; at most kSampleCountMax samples
  PartialMap(const PartialMoves& moves, uint32_t shard, data::Epoch epoch);
  // The same, of the epoch of the table of all.
  PartialMap(const PartialMoves& moves, uint32_t shard, const WholeMap& whole);

  data::Epoch epoch() const { return epoch_; }
  data::SampleId sample_in(uint64_t slot) const { return data::SampleId{samples_[slot]}; }

  // To the next epoch. `moves` as before.
  void advance(const PartialMoves& moves);

 private:
  uint32_t shard_;
  data::Epoch epoch_;
  std::vector<uint32_t> samples_;  // by slot
};

class PartialMaps {
 public:
  explicit PartialMaps(const PartialMoves& moves) : moves_(&moves) {}  // which outlives this

  // Nothing: the shard has no map, and its slots have to be walked back. What is returned stays
  // good when the map is not kept any more.
  std::shared_ptr<const PartialMap> find_or_make(uint32_t shard, data::Epoch epoch);

 private:
  using Shared = std::shared_ptr<const PartialMap>;

  bool is_of(uint32_t shard);
  Shared find(data::Epoch epoch);
  Shared make(uint32_t shard, data::Epoch epoch);
  bool has_whole(data::Epoch epoch);

  const PartialMoves* moves_;
  std::mutex making_;  // held while a map is made; taken before mutex_
  // Under making_:
  std::optional<WholeMap> whole_;  // of the epoch of the last map, or on its way there
  bool has_made_ = false;
  std::mutex mutex_;
  // Under mutex_:
  std::optional<uint32_t> shard_;
  std::array<Shared, 2> kept_;  // the one that was used last comes first
};

}  // namespace millrace::loader
