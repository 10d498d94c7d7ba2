#include "query/event_scan.h"

#include <algorithm>
#include <utility>

#include "analyze/call_traits.h"

namespace millrace::query {
namespace {

using trace::EventColumns;

// The arrays of a block that the used columns need.
struct Needed {
  explicit Needed(EventColumnSet used) {
    using enum EventColumn;
    const auto any = [used](auto... columns) { return (used & (bit_of(columns) | ...)) != 0; };
    file = any(kName, kLayer, kFile, kRole);
    offset = any(kOffset, kStep);
    size = any(kSize, kEpoch);
    result = any(kResult);
    begin = any(kBegin, kWall, kEpoch, kStep);
    duration = any(kDuration);
    error = any(kErrno, kError);
    thread = any(kPid, kTid, kRank, kHost, kEpoch, kStep, kProcess);
    detail = any(kDetail);
    other_file = any(kOtherFile);
  }
  bool file, offset, size, result, begin, duration, error, thread, detail, other_file;
};

bool has_text(const Match& match, std::string_view text) {
  return std::find(match.texts.begin(), match.texts.end(), text) != match.texts.end();
}

bool has_integer(const Match& match, int64_t value) {
  return std::find(match.integers.begin(), match.integers.end(), value) != match.integers.end();
}

// Removes what does not match. An empty set is first filled.
template <typename Fits>
void narrow(std::vector<bool>& set, size_t size, const Fits& fits) {
  if (set.empty()) set.assign(size, true);
  for (size_t i = 0; i < size; ++i) {
    if (set[i] && !fits(i)) set[i] = false;
  }
}

}  // namespace

uint64_t gathered_bytes_per_event(EventColumnSet used) {
  const Needed needed(used);
  uint64_t bytes = 2 + 4 + 4;  // call, group, place
  for (const bool wide :
       {needed.offset, needed.size, needed.result, needed.begin, needed.duration}) {
    if (wide) bytes += 8;
  }
  for (const bool narrow : {needed.file, needed.thread, needed.detail, needed.other_file}) {
    if (narrow) bytes += 4;
  }
  return bytes + (needed.error ? 2 : 0);
}

void EventScan::start(EventQuery query) {
  query_ = std::move(query);
  ++started_;
  block_ = 0;
  place_ = 0;
  columns_ = nullptr;
  stopped_ = grouped_ = false;
  if (query_.nothing) return;
  prepare();
  if (!query_.grouped_by.empty()) {
    gather();
    return;
  }
  if (load_block()) settle();
}

void EventScan::prepare() {
  process_ok_.clear();
  call_ok_.clear();
  region_ok_.clear();
  file_ok_.clear();
  levels_ = query_.regions_only ? 1U << static_cast<uint32_t>(wire::Level::kApp) : ~uint32_t{0};
  if (query_.regions_only) call_ok_.assign(analyze::kCallTableSize, false);
  const trace::Trace& trace = source_.trace();
  for (const Match& match : query_.matches) {
    switch (match.column) {
      case EventColumn::kName:
      case EventColumn::kLayer:
      case EventColumn::kKind:
        prepare_calls(match);
        break;
      case EventColumn::kFile:
        narrow(file_ok_, trace.names().size(),
               [&](size_t i) { return has_text(match, trace.names()[i]); });
        break;
      default:
        prepare_processes(match);
    }
  }
  checks_rows_ = !call_ok_.empty() || !file_ok_.empty() || query_.begin_min_ns > 0 ||
                 query_.begin_max_ns != ~uint64_t{0};
}

void EventScan::prepare_calls(const Match& match) {
  const EventColumn column = match.column;
  const trace::Trace& trace = source_.trace();
  uint32_t levels = 1;  // bit 0: calls that this version does not know
  narrow(call_ok_, analyze::kCallTableSize, [&](size_t i) {
    const auto call = static_cast<wire::Call>(i);
    const wire::CallInfo* info = wire::call_info(call);
    if (info == nullptr) return true;  // SQLite checks again
    const analyze::CallTraits& traits = analyze::traits_of(call);
    const bool fits = column == EventColumn::kName ? has_text(match, info->name)
                      : column == EventColumn::kLayer
                          ? has_text(match, analyze::kLayerNames[static_cast<size_t>(traits.layer)])
                          : has_text(match, kind_name(traits.kind));
    if (fits) levels |= 1U << static_cast<uint32_t>(wire::level_of(call));
    return fits;
  });
  constexpr uint32_t kApp = 1U << static_cast<uint32_t>(wire::Level::kApp);
  const bool region_kind = has_text(match, kind_name(wire::CallKind::kRegion));
  bool any_region = false;
  narrow(region_ok_, trace.names().size(), [&](size_t i) {
    bool fits = region_kind;
    if (column == EventColumn::kName) fits = has_text(match, trace.names()[i]);
    if (column == EventColumn::kLayer) {
      const auto role = source_.context().role(static_cast<trace::NameIndex>(i));
      fits = has_text(match, analyze::kLayerNames[static_cast<size_t>(analyze::layer_of(role))]);
    }
    any_region = any_region || fits;
    return fits;
  });
  levels_ &= any_region ? levels | kApp : levels & ~kApp;
}

void EventScan::prepare_processes(const Match& match) {
  const trace::Trace& trace = source_.trace();
  narrow(process_ok_, trace.processes().size(), [&](size_t i) {
    const trace::Process& process = trace.processes()[i];
    switch (match.column) {
      case EventColumn::kPid:
        return has_integer(match, process.pid);
      case EventColumn::kRank: {
        const int32_t rank = source_.rank_of(static_cast<trace::ProcessIndex>(i));
        return rank >= 0 && has_integer(match, rank);
      }
      case EventColumn::kProcess:
        return has_integer(match, static_cast<int64_t>(i));
      case EventColumn::kHost:
        return has_text(match, source_.host_of(process));
      default:
        return true;
    }
  });
}

bool EventScan::wants_block(size_t index) {
  const trace::BlockInfo& block = source_.trace().blocks()[index];
  // All events begin between the begin and the end of their block.
  if (block.begin_ns > query_.begin_max_ns || block.end_ns < query_.begin_min_ns) return false;
  const auto process = static_cast<size_t>(block.process);
  if (process < process_ok_.size() && !process_ok_[process]) return false;
  if (levels_ == ~uint32_t{0}) return true;
  const auto levels = source_.trace().block_levels(index);
  return !levels.ok() || (*levels & levels_) != 0;  // reading a damaged block reports it
}

bool EventScan::wants(size_t row) const {
  const uint64_t begin = columns_->begin_ns[row];
  if (begin < query_.begin_min_ns || begin > query_.begin_max_ns) return false;
  const wire::Call call = columns_->call[row];
  const auto file = static_cast<size_t>(columns_->file[row]);
  const bool region = wire::level_of(call) == wire::Level::kApp;
  if (!file_ok_.empty() && (region || !file_ok_[file])) return false;
  if (region) return region_ok_.empty() || region_ok_[file];
  if (call_ok_.empty()) return true;
  const auto number = static_cast<size_t>(call);
  return number >= call_ok_.size() ? !query_.regions_only : call_ok_[number];
}

bool EventScan::load_block() {
  const size_t count = source_.trace().blocks().size();
  for (; block_ < count; ++block_) {
    if (source_.stopped()) {
      stopped_ = true;
      break;
    }
    if (!wants_block(block_)) {
      ++source_.counters().blocks_skipped;
      continue;
    }
    // The first pass is usually the only one. The inner side of a join comes back.
    if (started_ == 1) {
      columns_ = source_.read_block(block_, own_);
    } else {
      kept_ = source_.read_kept_block(block_);
      columns_ = kept_.get();
    }
    if (columns_ == nullptr) continue;
    ++block_;
    place_ = 0;
    return true;
  }
  columns_ = nullptr;
  return false;
}

void EventScan::settle() {
  if (grouped_) {
    if (place_ < order_.size()) {
      row_ = order_[place_];
      ++source_.counters().rows;
    } else {
      columns_ = nullptr;
    }
    return;
  }
  do {
    const size_t count = columns_->size_events();
    if (checks_rows_) {
      while (place_ < count && !wants(place_)) ++place_;
    }
    if (place_ < count) {
      row_ = place_;
      ++source_.counters().rows;
      return;
    }
  } while (load_block());
}

int64_t EventScan::row_number() const {
  constexpr int64_t kBlockRows = 1 << 20;  // more than a block holds
  if (grouped_) return static_cast<int64_t>(row_);
  return static_cast<int64_t>(block_ - 1) * kBlockRows + static_cast<int64_t>(row_);
}

void EventScan::gather_block(std::vector<uint32_t>& groups, GroupIds& ids) {
  const Needed needed(query_.used);
  const EventColumns& from = *columns_;
  const size_t count = from.size_events();
  const auto take = [](auto& into, const auto& column, size_t row) { into.push_back(column[row]); };
  for (size_t row = 0; row < count; ++row) {
    if (checks_rows_ && !wants(row)) continue;
    uint32_t group = 0;
    for (const GroupBy& by : query_.grouped_by) {
      group = ids.id(group, values_.group_key(by.column, {from, row}));
    }
    groups.push_back(group);
    take(gathered_.call, from.call, row);
    if (needed.file) take(gathered_.file, from.file, row);
    if (needed.offset) take(gathered_.offset, from.offset, row);
    if (needed.size) take(gathered_.size, from.size, row);
    if (needed.result) take(gathered_.result, from.result, row);
    if (needed.begin) take(gathered_.begin_ns, from.begin_ns, row);
    if (needed.duration) take(gathered_.duration_ns, from.duration_ns, row);
    if (needed.error) take(gathered_.error, from.error, row);
    if (needed.thread) take(gathered_.thread, from.thread, row);
    if (needed.detail) take(gathered_.detail, from.detail, row);
    if (needed.other_file) take(gathered_.other_file, from.other_file, row);
  }
}

int EventScan::compare(uint32_t row, uint32_t other) {
  const auto order = [](const auto& a, const auto& b) { return a < b ? -1 : b < a ? 1 : 0; };
  for (const GroupBy& by : query_.grouped_by) {
    const EventRow left{gathered_, row};
    const EventRow right{gathered_, other};
    // An empty optional sorts first, as NULL does.
    const int found =
        is_in(kTextColumns, by.column)
            ? order(values_.text(by.column, left), values_.text(by.column, right))
            : order(values_.integer(by.column, left), values_.integer(by.column, right));
    if (found != 0) return by.descending ? -found : found;
  }
  return 0;
}

// The rank of each group in sorted order. Numbers without rows stand for prefixes of the grouping
// columns.
std::vector<uint32_t> EventScan::sorted_groups(const std::vector<uint32_t>& groups,
                                               uint32_t count) {
  constexpr uint32_t kNone = ~uint32_t{0};
  std::vector<uint32_t> first_row(count, kNone);
  std::vector<uint32_t> present;
  for (uint32_t row = 0; row < groups.size(); ++row) {
    if (first_row[groups[row]] != kNone) continue;
    first_row[groups[row]] = row;
    present.push_back(groups[row]);
  }
  std::sort(present.begin(), present.end(),
            [&](uint32_t a, uint32_t b) { return compare(first_row[a], first_row[b]) < 0; });
  std::vector<uint32_t> places(count, 0);
  for (uint32_t place = 0; place < present.size(); ++place) places[present[place]] = place;
  return places;
}

void EventScan::gather() {
  trace::clear(gathered_);
  std::vector<uint32_t> groups;
  GroupIds ids;
  while (load_block()) gather_block(groups, ids);
  if (stopped_) return;
  const std::vector<uint32_t> places = sorted_groups(groups, ids.count());
  // A counting sort: rows within a group keep their order.
  std::vector<uint32_t> ends(places.size() + 1, 0);
  for (const uint32_t group : groups) ++ends[places[group] + 1];
  for (size_t i = 1; i < ends.size(); ++i) ends[i] += ends[i - 1];
  order_.resize(groups.size());
  for (uint32_t row = 0; row < groups.size(); ++row) order_[ends[places[groups[row]]]++] = row;
  grouped_ = true;
  place_ = 0;
  columns_ = &gathered_;
  settle();
}

}  // namespace millrace::query
