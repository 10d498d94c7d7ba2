#include "loader/pipeline/read_choice.h"

#include <algorithm>
#include <utility>

namespace millrace::loader::pipeline {
namespace {

constexpr uint64_t kTurnSamplesMin = 64;
// Ends a turn of large or slow samples early.
constexpr std::chrono::nanoseconds kTurnTime = std::chrono::milliseconds(50);
constexpr size_t kTurnsCounted = 3;  // of each way in a trial
// A way is better only if it costs less than this fraction of the other. Noise on a busy machine is
// smaller.
constexpr double kBetter = 0.9;
// Nine times the duration of a trial must pass before the next, so trials take at most a tenth of
// the time.
constexpr int kSpacing = 9;
// The cost has changed if it differs by the first factor at the start of an epoch, or by the second
// during an epoch for kTurnsChanged turns in a row.
constexpr double kChanged = 1.25;
constexpr double kChangedInEpoch = 2;
constexpr uint32_t kTurnsChanged = 8;

// Cost per byte, or per sample if there are no bytes.
double cost_of(const ReadCost& cost, std::chrono::nanoseconds time) {
  const uint64_t units = cost.bytes > 0 ? cost.bytes : std::max<uint64_t>(cost.samples, 1);
  return static_cast<double>(time.count()) / static_cast<double>(units);
}

double elapsed_of(const ReadCost& cost) { return cost_of(cost, cost.elapsed); }

bool differ(double a, double b, double factor) { return a > b * factor || b > a * factor; }

// Leaves out the worst turn: one that was interrupted says nothing about reading.
ReadCost sum_without_worst(std::vector<ReadCost> turns) {
  std::ranges::sort(turns, {}, elapsed_of);
  if (turns.size() > 1) turns.pop_back();
  ReadCost sum;
  for (const ReadCost& turn : turns) sum += turn;
  return sum;
}

size_t index_of(ReadWay way) { return static_cast<size_t>(way); }

ReadStats::Way described(const std::string& name, const ReadCost& cost) {
  ReadStats::Way way{.name = name};
  const double seconds = std::chrono::duration<double>(cost.elapsed).count();
  if (seconds > 0) way.bytes_per_second = static_cast<double>(cost.bytes) / seconds;
  if (cost.samples > 0) {
    way.cpu_us_per_sample = std::chrono::duration<double, std::micro>(cost.cpu).count() /
                            static_cast<double>(cost.samples);
  }
  return way;
}

}  // namespace

ReadCost& ReadCost::operator+=(const ReadCost& other) {
  samples += other.samples;
  bytes += other.bytes;
  elapsed += other.elapsed;
  cpu += other.cpu;
  return *this;
}

// A turn is long enough to fill a queue twice.
ReadChoice::ReadChoice(data::ReadWays ways, size_t depth)
    : ways_(std::move(ways)),
      turn_samples_(std::max<uint64_t>(kTurnSamplesMin, 2 * depth)),
      refusal_(ways_.refusal) {
  const bool can_fly = !ways_.in_flight.empty() && depth > 1;
  is_open_ = can_fly && ways_.is_open_choice;
  if (can_fly && !is_open_) chosen_ = ReadWay::kInFlight;
  if (is_open_) start_trial();
}

void ReadChoice::add_thread() {
  const MutexLock lock(mutex_);
  ++thread_count_;
}

void ReadChoice::start_trial() {
  ++trial_;
  is_trying_ = true;
  turns_given_ = 0;
  elapsed_in_trial_ = {};
  for (auto& turns : trial_costs_) turns.clear();
}

ReadTurn ReadChoice::settled_turn() const {
  if (!is_open_) return {.way = chosen_};
  return {.way = chosen_, .sample_count = turn_samples_, .elapsed = kTurnTime};
}

// Whether the measurement may be outdated and trials have not taken too much of the time.
bool ReadChoice::should_measure(data::Epoch epoch) {
  const bool is_new_epoch = epoch != std::exchange(epoch_, epoch);
  if (!is_open_ || is_trying_ || elapsed_since_ < kSpacing * elapsed_in_trial_) return false;
  if (turns_changed_ >= kTurnsChanged) return true;
  // While reads are in flight, the cost of plain reads is unknown: the page cache may hold
  // everything by now.
  return is_new_epoch &&
         (chosen_ == ReadWay::kInFlight || differ(recent_cost_, trial_cost_, kChanged));
}

ReadTurn ReadChoice::next_turn(data::Epoch epoch) {
  const MutexLock lock(mutex_);
  if (should_measure(epoch)) start_trial();
  if (!is_trying_) return settled_turn();
  // All threads use the same way for a while, so that the two ways do not disturb each other. The
  // first turns are not counted, because they touch memory for the first time.
  const uint64_t phase = turns_given_++ / std::max<uint64_t>(thread_count_, 1);
  return {.way = phase % 2 == 1 ? ReadWay::kInFlight : ReadWay::kOneAtATime,
          .trial = phase == 0 ? 0 : trial_,
          .sample_count = turn_samples_,
          .elapsed = kTurnTime};
}

bool ReadChoice::report(const ReadTurn& turn, const ReadCost& cost, data::Epoch epoch) {
  const MutexLock lock(mutex_);
  if (is_trying_) {
    elapsed_in_trial_ += cost.elapsed;
    if (turn.trial == trial_) trial_costs_[index_of(turn.way)].push_back(cost);
    if (trial_costs_[0].size() >= kTurnsCounted && trial_costs_[1].size() >= kTurnsCounted)
      settle();
    return false;
  }
  elapsed_since_ += cost.elapsed;
  if (turn.trial == 0 && turn.way == chosen_) {
    const double now = elapsed_of(cost);
    recent_cost_ = 0.75 * recent_cost_ + 0.25 * now;
    turns_changed_ = differ(now, trial_cost_, kChangedInEpoch) ? turns_changed_ + 1 : 0;
  }
  if (!should_measure(epoch)) return turn.trial == 0 && turn.way == chosen_;
  start_trial();
  return false;
}

void ReadChoice::settle() {
  for (size_t way = 0; way < 2; ++way) measured_[way] = sum_without_worst(trial_costs_[way]);
  const ReadCost& alone = measured_[index_of(ReadWay::kOneAtATime)];
  const ReadCost& flown = measured_[index_of(ReadWay::kInFlight)];
  const double times = elapsed_of(flown) / std::max(elapsed_of(alone), 1e-9);
  const double cpu_times = cost_of(flown, flown.cpu) / std::max(cost_of(alone, alone.cpu), 1e-9);
  const bool is_alike = times >= kBetter && times <= 1 / kBetter;
  const bool flies = times < kBetter || (is_alike && cpu_times < kBetter);
  chosen_ = flies ? ReadWay::kInFlight : ReadWay::kOneAtATime;
  is_trying_ = false;
  ++trials_ended_;
  trial_cost_ = elapsed_of(measured_[index_of(chosen_)]);
  recent_cost_ = trial_cost_;
  turns_changed_ = 0;
  elapsed_since_ = {};
}

void ReadChoice::refuse(std::string refusal) {
  const MutexLock lock(mutex_);
  is_open_ = false;
  is_trying_ = false;
  chosen_ = ReadWay::kOneAtATime;
  refusal_ = std::move(refusal);
}

ReadStats ReadChoice::stats() const {
  const MutexLock lock(mutex_);
  ReadStats stats{.engine = chosen_ == ReadWay::kInFlight ? ways_.in_flight : ways_.one_at_a_time,
                  .trial_count = trials_ended_,
                  .refusal = refusal_};
  if (trials_ended_ > 0) {
    stats.measured = {described(ways_.one_at_a_time, measured_[0]),
                      described(ways_.in_flight, measured_[1])};
  }
  return stats;
}

}  // namespace millrace::loader::pipeline
