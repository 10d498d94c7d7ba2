#include "interop/selection.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>

#include "base/text/text.h"

namespace millrace::interop {
namespace {

// Calls take(word) for each comma-separated word.
template <typename Take>
Status for_each_word(std::string_view text, Take&& take) {
  while (true) {
    const size_t comma = text.find(',');
    RETURN_IF_ERROR(take(text.substr(0, comma)));
    if (comma == std::string_view::npos) return {};
    text.remove_prefix(comma + 1);
  }
}

std::optional<int32_t> parse_rank(std::string_view text) {
  int32_t rank = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (error != std::errc() || end != text.data() + text.size() || rank < 0) return std::nullopt;
  return rank;
}

uint64_t saturating_add(uint64_t a, uint64_t b) {
  return a > std::numeric_limits<uint64_t>::max() - b ? std::numeric_limits<uint64_t>::max()
                                                      : a + b;
}

bool holds(const std::vector<RankRange>& ranges, int32_t rank) {
  return std::any_of(ranges.begin(), ranges.end(), [rank](const RankRange& range) {
    return range.first <= rank && rank <= range.last;
  });
}

}  // namespace

Result<std::vector<RankRange>> parse_ranks(std::string_view text) {
  std::vector<RankRange> ranges;
  RETURN_IF_ERROR(for_each_word(text, [&](std::string_view word) -> Status {
    const size_t dash = word.find('-');
    const auto first = parse_rank(word.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_rank(word.substr(dash + 1));
    if (!first || !last || *last < *first) {
      return fail(Errc::kInvalidArgument,
                  "'{}' is not a rank or a range of ranks; expected for example 0,3-5",
                  printable(word));
    }
    ranges.push_back({*first, *last});
    return {};
  }));
  return ranges;
}

Result<uint32_t> parse_levels(std::string_view text) {
  uint32_t levels = 0;
  RETURN_IF_ERROR(for_each_word(text, [&](std::string_view word) -> Status {
    for (size_t level = 1; level < wire::kLevelCount; ++level) {
      if (word == wire::kLevelNames[level]) {
        levels |= 1u << level;
        return {};
      }
    }
    return fail(Errc::kInvalidArgument,
                "'{}' is not a level; the levels are posix, stdio, mpiio, hdf5 and app",
                printable(word));
  }));
  return levels;
}

uint64_t start_of(const trace::Trace& trace) {
  uint64_t start = std::numeric_limits<uint64_t>::max();
  for (const trace::BlockInfo& block : trace.blocks()) start = std::min(start, block.begin_ns);
  return trace.blocks().empty() ? 0 : start;
}

EventFilter::EventFilter(const trace::Trace& trace, const Selection& selection)
    : levels_(selection.levels) {
  const uint64_t start = start_of(trace);
  from_ns_ = saturating_add(start, selection.from_ns.value_or(0));
  until_ns_ =
      saturating_add(start, selection.until_ns.value_or(std::numeric_limits<uint64_t>::max()));
  for (const trace::Process& process : trace.processes()) {
    processes_.push_back(selection.ranks.empty() || holds(selection.ranks, process.rank));
  }
  for (const trace::Thread& thread : trace.threads()) {
    const auto process = static_cast<size_t>(thread.process);
    threads_.push_back(process < processes_.size() && processes_[process]);
  }
}

bool EventFilter::wants_block(const trace::BlockInfo& block) const {
  const auto process = static_cast<size_t>(block.process);
  return process < processes_.size() && processes_[process] && block.begin_ns < until_ns_ &&
         block.end_ns >= from_ns_;
}

bool EventFilter::wants(const Event& event) const {
  const auto thread = static_cast<size_t>(event.thread);
  // A call that ends exactly at `from` is before it; an event without duration at `from` is not.
  const bool reaches = event.end_ns > from_ns_ || event.begin_ns >= from_ns_;
  return thread < threads_.size() && threads_[thread] && reaches && event.begin_ns < until_ns_ &&
         wants_level(static_cast<uint32_t>(wire::level_of(event.call)));
}

void keep_wanted(const EventFilter& filter, trace::EventColumns& columns) {
  std::vector<uint32_t> rows;
  for (uint32_t row = 0; row < columns.size_events(); ++row) {
    if (filter.wants(event_at(columns, row))) rows.push_back(row);
  }
  if (rows.size() == columns.size_events()) return;
  if (!columns.tag_begin.empty()) {
    std::vector<uint32_t> begins = {0};
    std::vector<trace::RegionTag> tags;
    for (const uint32_t row : rows) {
      tags.insert(tags.end(), columns.tags.begin() + columns.tag_begin[row],
                  columns.tags.begin() + columns.tag_begin[row + 1]);
      begins.push_back(static_cast<uint32_t>(tags.size()));
    }
    columns.tag_begin = std::move(begins);
    columns.tags = std::move(tags);
  }
  trace::for_each_column([&](auto member) {
    auto& column = columns.*member;
    for (size_t i = 0; i < rows.size(); ++i) column[i] = column[rows[i]];
    column.resize(rows.size());
  });
}

bool EventFilter::wants_level(uint32_t level) const {
  // A level that only a later version knows cannot be selected by name. It is included if all
  // levels are.
  if (level >= wire::kLevelCount) return levels_ == kAllLevels;
  return ((levels_ >> level) & 1) != 0;
}

}  // namespace millrace::interop
