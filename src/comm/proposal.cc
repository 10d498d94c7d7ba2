#include "comm/proposal.h"

#include <algorithm>
#include <limits>

namespace millrace::comm {
namespace {

constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();

// A call and a rank in one word, so that the minimum also names a rank that makes this call.
constexpr uint64_t call_by(Collective call, Rank rank) {
  return static_cast<uint64_t>(call) << 32 | index_of(rank);
}
Collective call_of(uint64_t word) { return static_cast<Collective>(word >> 32); }
uint32_t rank_of(uint64_t word) { return static_cast<uint32_t>(word); }

// The rest of a shape in one word. Compares 24 bits of the root and 36 of the count: enough to find
// our own bugs, which is its only purpose.
uint64_t rest_of(const CollectiveShape& shape) {
  return shape.value_count << 28 | uint64_t{index_of(shape.root) & 0xffffff} << 4 |
         uint64_t{static_cast<uint8_t>(shape.fold)} << 1 | uint64_t{shape.floating_point};
}

}  // namespace

std::string_view collective_name(Collective call) {
  switch (call) {
    case Collective::kBarrier:
      return "a barrier";
    case Collective::kBroadcast:
      return "a broadcast";
    case Collective::kReduce:
      return "a reduction";
    case Collective::kReduceToAll:
      return "an all-reduce";
    case Collective::kGather:
      return "a gather";
    case Collective::kAgree:
      return "an agreement";
    case Collective::kOpenMessages:
      return "open_messages";
    case Collective::kEnd:
      return "the end";
  }
  return "an unknown call";
}

Proposal::Proposal(Rank rank, const CollectiveShape& shape) {
  const bool ends = shape.call == Collective::kEnd;
  const uint64_t call = call_by(shape.call, rank);
  words_[kFailed] = kNone;
  words_[kEnded] = ends ? index_of(rank) : kNone;
  words_[kSizeBytes] = kNone;
  words_[kLowestCall] = call;
  words_[kHighestCall] = ~call;
  words_[kLowestShape] = rest_of(shape);
  words_[kHighestShape] = ~rest_of(shape);
  words_[kNotEnded] = ends ? kNone : call;
}

void Proposal::has_failed() { words_[kFailed] = rank_of(words_[kLowestCall]); }

void Proposal::has_bytes(uint64_t size_bytes) { words_[kSizeBytes] = size_bytes; }

void Proposal::fold_with(const Proposal& other) {
  for (size_t i = 0; i < kWordCount; ++i) words_[i] = std::min(words_[i], other.words_[i]);
}

std::optional<Rank> Proposal::failed_rank() const {
  if (words_[kFailed] == kNone) return std::nullopt;
  return static_cast<Rank>(words_[kFailed]);
}

Status Proposal::check(uint32_t world_size) const {
  if (failed_rank()) return {};
  const uint64_t lowest = words_[kLowestCall];
  const uint64_t highest = ~words_[kHighestCall];
  if (call_of(lowest) == call_of(highest)) {
    if (words_[kLowestShape] == ~words_[kHighestShape]) return {};
    return fail(Errc::kInvalidArgument,
                "the {} ranks met in {} with different roots, folds or counts; this is a bug in "
                "the program, please report it",
                world_size, collective_name(call_of(lowest)));
  }
  if (words_[kEnded] != kNone) {
    return fail(Errc::kCancelled, "rank {} ended while rank {} waited in {}", words_[kEnded],
                rank_of(words_[kNotEnded]), collective_name(call_of(words_[kNotEnded])));
  }
  return fail(Errc::kInvalidArgument,
              "rank {} is in {} while rank {} is in {}; this is a bug in the program, please "
              "report it",
              rank_of(lowest), collective_name(call_of(lowest)), rank_of(highest),
              collective_name(call_of(highest)));
}

Error named(Error error, Rank rank, uint32_t world_size) {
  if (world_size == 1) return error;
  return std::move(error).within(fmt::format("rank {}", index_of(rank)));
}

Status check_root(Rank root, uint32_t world_size) {
  if (index_of(root) < world_size) return {};
  return fail(Errc::kInvalidArgument, "there is no rank {}; the world size is {}", index_of(root),
              world_size);
}

CollectiveShape reduction(Collective call, const Values& values, Fold fold, Rank root) {
  return {.call = call,
          .root = root,
          .fold = fold,
          .floating_point = std::holds_alternative<std::span<double>>(values),
          .value_count = std::visit([](auto span) { return uint64_t{span.size()}; }, values)};
}

}  // namespace millrace::comm
