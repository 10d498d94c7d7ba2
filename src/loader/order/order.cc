#include "loader/order/order.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/numbers/permutation.h"
#include "base/text/spelling.h"
#include "loader/order/kinds.h"
#include "loader/order/shard_dealer.h"

namespace millrace::loader::order {
namespace {

struct ShuffleEntry {
  std::string_view name;
  Shuffle shuffle;
  std::unique_ptr<Order> (*make)(const Options&);
};

// An OrderName has room for that many positions.
constexpr uint64_t kDrawnCountMax = uint64_t{1} << 56;

constexpr ShuffleEntry kShuffles[] = {
    {"off", Shuffle::kOff, &make_off_order},
    {"global", Shuffle::kGlobal, &make_global_order},
    {"local", Shuffle::kLocal, &make_local_order},
    {"partial", Shuffle::kPartial, &make_partial_order},
    {"file", Shuffle::kFile, &make_file_order},
    {"weighted", Shuffle::kWeighted, &make_weighted_order},
    {"mixture", Shuffle::kMixture, &make_mixture_order},
    {"listed", Shuffle::kListed, &make_listed_order},
};

const ShuffleEntry* entry_of(Shuffle shuffle) {
  const auto* const found = std::ranges::find(kShuffles, shuffle, &ShuffleEntry::shuffle);
  return found == std::end(kShuffles) ? nullptr : found;
}

Status check_groups(const Options& options) {
  const std::vector<uint64_t>& begins = options.group_begins;
  if (begins.empty() || begins.front() != 0 || begins.back() != options.sample_count) {
    return fail(
        Errc::kInvalidArgument,
        "for {} samples, shuffling by file needs group begins from 0 to {}; the source has {}",
        options.sample_count, options.sample_count,
        begins.empty() ? "none" : fmt::format("{} to {}", begins.front(), begins.back()));
  }
  const auto fall = std::ranges::adjacent_find(begins, std::greater{});
  if (fall == begins.end()) return {};
  return fail(Errc::kInvalidArgument,
              "file {} begins at sample {}, but the file after it begins at sample {}",
              fall - begins.begin(), *fall, *(fall + 1));
}

}  // namespace

Result<Shuffle> shuffle_from(std::string_view name) {
  std::vector<std::string> names;
  for (const ShuffleEntry& entry : kShuffles) {
    if (entry.name == name) return entry.shuffle;
    names.emplace_back(entry.name);
  }
  return fail(Errc::kInvalidArgument, "unknown shuffle '{}'{}; choose one of {}", name,
              did_you_mean(name, names), fmt::join(names, ", "));
}

std::string_view shuffle_name(Shuffle shuffle) {
  const ShuffleEntry* const entry = entry_of(shuffle);
  return entry == nullptr ? "?" : entry->name;
}

Status check_order(const Options& options) {
  if (entry_of(options.shuffle) == nullptr) {
    return fail(Errc::kInvalidArgument, "unknown shuffle number {}",
                static_cast<int>(options.shuffle));
  }
  if (options.sample_count > KeyedPermutation::kSizeMax) {
    return fail(Errc::kInvalidArgument, "there are {} samples; an order can have at most {}",
                options.sample_count, KeyedPermutation::kSizeMax);
  }
  if (!is_permutation(options.shuffle) &&
      std::max(options.sample_count, options.position_count) > kDrawnCountMax) {
    return fail(Errc::kInvalidArgument,
                "an order of {} positions and {} samples is too long; it can have at most {}",
                options.position_count, options.sample_count, kDrawnCountMax);
  }
  if (options.shard_count == 0) {
    return fail(Errc::kInvalidArgument,
                "the samples cannot be divided among 0 shards; set shard_count to the number of "
                "ranks that hold them, at least 1");
  }
  if (options.shard_count > ShardDealer::kShardCountMax) {
    return fail(Errc::kInvalidArgument, "there are {} shards; an order can have at most {}",
                options.shard_count, ShardDealer::kShardCountMax);
  }
  if (!(options.fraction >= 0 && options.fraction <= 1)) {
    return fail(Errc::kInvalidArgument,
                "the fraction of samples to exchange is {}; it must be between 0 (local) and 1",
                options.fraction);
  }
  return {};
}

Result<std::unique_ptr<Order>> make_order(const Options& options) {
  RETURN_IF_ERROR(check_order(options));
  if (options.shuffle == Shuffle::kFile) RETURN_IF_ERROR(check_groups(options));
  RETURN_IF_ERROR(check_drawing(options));
  return entry_of(options.shuffle)->make(options);
}

std::optional<uint64_t> Order::first_at(data::Epoch epoch, data::SampleId sample,
                                        uint64_t begin) const {
  const uint64_t position = position_of(epoch, sample);
  if (position < begin) return std::nullopt;
  return position;
}

std::optional<uint64_t> Order::last_before(data::Epoch epoch, data::SampleId sample,
                                           uint64_t end) const {
  const uint64_t position = position_of(epoch, sample);
  if (position >= end) return std::nullopt;
  return position;
}

void Order::fill(data::Epoch epoch, uint64_t first, uint64_t stride,
                 std::span<data::SampleId> out) const {
  for (data::SampleId& sample : out) {
    sample = at(epoch, first);
    first += stride;
  }
}

}  // namespace millrace::loader::order
