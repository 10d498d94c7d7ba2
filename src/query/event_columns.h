// EventColumn: the columns of the table `events`, in order. `regions` has some of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "query/schema.h"

namespace millrace::query {

enum class EventColumn : uint8_t {
  kName = 0,
  kLayer,
  kFile,
  kOffset,
  kSize,
  kResult,
  kBegin,
  kDuration,
  kErrno,
  kPid,
  kTid,
  kRank,
  kHost,
  kEpoch,
  kStep,
  kKind,
  kRole,
  kOtherFile,
  kError,
  kDetail,
  kWall,
  kProcess,
  kTags,
};
inline constexpr size_t kEventColumnCount = 23;

// A set of columns, one bit each.
using EventColumnSet = uint32_t;
constexpr EventColumnSet bit_of(EventColumn column) {
  return EventColumnSet{1} << static_cast<uint8_t>(column);
}

inline constexpr EventColumnSet kTextColumns =
    bit_of(EventColumn::kName) | bit_of(EventColumn::kLayer) | bit_of(EventColumn::kFile) |
    bit_of(EventColumn::kHost) | bit_of(EventColumn::kKind) | bit_of(EventColumn::kRole) |
    bit_of(EventColumn::kOtherFile) | bit_of(EventColumn::kError) | bit_of(EventColumn::kTags);

// Columns by which rows can be grouped without comparing texts.
inline constexpr EventColumnSet kGroupColumns =
    bit_of(EventColumn::kName) | bit_of(EventColumn::kLayer) | bit_of(EventColumn::kFile) |
    bit_of(EventColumn::kErrno) | bit_of(EventColumn::kPid) | bit_of(EventColumn::kTid) |
    bit_of(EventColumn::kRank) | bit_of(EventColumn::kHost) | bit_of(EventColumn::kEpoch) |
    bit_of(EventColumn::kStep) | bit_of(EventColumn::kKind) | bit_of(EventColumn::kRole) |
    bit_of(EventColumn::kProcess);

// Columns for which an equality condition can skip blocks or rows.
inline constexpr EventColumnSet kMatchColumns =
    bit_of(EventColumn::kName) | bit_of(EventColumn::kLayer) | bit_of(EventColumn::kFile) |
    bit_of(EventColumn::kPid) | bit_of(EventColumn::kRank) | bit_of(EventColumn::kHost) |
    bit_of(EventColumn::kKind) | bit_of(EventColumn::kProcess);

// Columns that depend on the regions of the whole trace: the roles of their names, and epochs.
inline constexpr EventColumnSet kContextColumns =
    bit_of(EventColumn::kLayer) | bit_of(EventColumn::kRole) | bit_of(EventColumn::kEpoch) |
    bit_of(EventColumn::kStep);

constexpr bool is_in(EventColumnSet set, EventColumn column) { return (set & bit_of(column)) != 0; }

// The columns of a table of events, in its order.
std::vector<EventColumn> event_columns_of(const TableSchema& table);

}  // namespace millrace::query
