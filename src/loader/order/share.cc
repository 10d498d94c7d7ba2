#include "loader/order/share.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <string>
#include <vector>

#include "base/text/spelling.h"

namespace millrace::loader::order {
namespace {

struct TailEntry {
  std::string_view name;
  Tail tail;
};

constexpr TailEntry kTails[] = {
    {"drop", Tail::kDrop}, {"pad", Tail::kPad}, {"uneven", Tail::kUneven}};

// whole / part, rounded up.
uint64_t rounded_up(uint64_t whole, uint64_t part) { return whole / part + (whole % part != 0); }

}  // namespace

Result<Tail> tail_from(std::string_view name) {
  std::vector<std::string> names;
  for (const TailEntry& entry : kTails) {
    if (entry.name == name) return entry.tail;
    names.emplace_back(entry.name);
  }
  return fail(Errc::kInvalidArgument, "unknown tail '{}'{}; choose one of drop, pad, uneven", name,
              did_you_mean(name, names));
}

std::string_view tail_name(Tail tail) {
  const auto* const found = std::ranges::find(kTails, tail, &TailEntry::tail);
  return found == std::end(kTails) ? "?" : found->name;
}

Share::Share(const ShareOptions& options) : options_(options) {
  assert(options.world.rank < options.world.size && options.batch_size > 0);
  assert(options.batch_size <= kBatchSizeMax && options.done <= options.sample_count);
  const uint64_t left = options.sample_count - options.done;
  switch (options.tail) {
    case Tail::kDrop:
      batch_count_ = left / step();
      break;
    case Tail::kPad:
      batch_count_ = rounded_up(left, step());
      break;
    case Tail::kUneven:
      batch_count_ = rounded_up(rows_left(left), options.batch_size);
      break;
  }
}

// The number of rows of this rank in the next `positions` positions.
uint64_t Share::rows_left(uint64_t positions) const {
  const World& world = options_.world;
  return positions <= world.rank ? 0 : (positions - world.rank - 1) / world.size + 1;
}

BatchPlan Share::batch(uint64_t index) const {
  if (index >= batch_count_) return {};
  const uint64_t begin = options_.done + index * step();  // of the step of all ranks
  const uint64_t left = options_.sample_count - begin;
  const uint64_t real = std::min(rows_left(left), options_.batch_size);
  return {.first_position = begin + options_.world.rank,
          .row_count = options_.tail == Tail::kPad ? options_.batch_size : real,
          .real_count = real};
}

uint64_t Share::position(const BatchPlan& plan, uint64_t row) const {
  const uint64_t position = plan.first_position + row * options_.world.size;
  // If there are fewer samples than a step, the epoch repeats from its start.
  return position < options_.sample_count
             ? position
             : (position - options_.sample_count) % options_.sample_count;
}

uint64_t Share::own_position(const BatchPlan& plan, uint64_t row) const {
  const uint64_t own_count = rows_left(options_.sample_count);
  if (row < plan.real_count || own_count == 0) return position(plan, row);
  return options_.world.rank + (row - plan.real_count) % own_count * options_.world.size;
}

uint64_t Share::done_after(uint64_t batches) const {
  const uint64_t left = options_.sample_count - options_.done;
  const bool is_past_the_end = batches > left / step();
  return is_past_the_end ? options_.sample_count : options_.done + batches * step();
}

}  // namespace millrace::loader::order
