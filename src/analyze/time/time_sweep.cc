#include "analyze/time/time_sweep.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

#include "analyze/time/ordered_spans.h"
#include "base/concurrency/thread_pool.h"

namespace millrace::analyze {
namespace {

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

// If regions carry step numbers, those are more precise than regions around a whole step.
uint32_t swept_tag(const Context& context, uint32_t tag) {
  const uint32_t group = tag >> kTimeClassBits;
  if (tag != time_tag(GroupIndex{group}, TimeClass::kStepRegion)) return tag;
  if (context.epochs.steps(group).empty()) return tag;
  return time_tag(GroupIndex{group}, TimeClass::kApplication);
}

bool knows_training(const Context& context) {
  return std::any_of(context.groups.begin(), context.groups.end(),
                     [](const Group& group) { return group.training.end_ns > 0; });
}

// A rank of which nothing is known trains all the time.
Interval training_of(const Context& context, uint32_t group) {
  const Group& of = context.groups[group];
  return of.training.end_ns > 0 ? of.training : Interval{of.begin_ns, of.end_ns};
}

TimeRuns steps_of(const Context& context) {
  TimeRuns runs;
  for (uint32_t group = 0; group < context.groups.size(); ++group) {
    std::vector<Interval> spans;
    for (const StepSpan& step : context.epochs.steps(group)) {
      spans.push_back({step.begin_ns, step.end_ns});
    }
    runs.add(time_tag(GroupIndex{group}, TimeClass::kStep), spans);
    spans.assign(1, training_of(context, group));
    if (knows_training(context)) runs.add(time_tag(GroupIndex{group}, TimeClass::kTraining), spans);
  }
  return runs;
}

// How far a union is covered, and its length so far.
struct Cover {
  uint64_t until_ns = 0;
  uint64_t total_ns = 0;

  // Whether the union has grown.
  bool add(uint64_t begin_ns, uint64_t end_ns) {
    if (end_ns <= until_ns) return false;
    total_ns += end_ns - std::max(begin_ns, until_ns);
    until_ns = end_ns;
    return true;
  }

  // The length before `time_ns`. REQUIRES: every added span begins before it.
  uint64_t before(uint64_t time_ns) const {
    return total_ns - (until_ns > time_ns ? until_ns - time_ns : 0);
  }
};

// What does not change during a sweep.
struct SweepInput {
  const Context& context;
  const TimePlan& plan;
  std::vector<uint32_t> host_of;                 // by group; kNoHost: does not train
  std::vector<std::vector<uint32_t>> epochs_of;  // by group and span: index into SweptTime::epochs
  bool sweeps_hosts = false;                     // otherwise each host has only one rank
  bool sweeps_job = false;                       // otherwise the job has only one host
};
constexpr uint32_t kNoHost = ~uint32_t{0};

// The position of a slice in the spans of a group: the next one, and whether the slice is inside
// it.
struct SpanCursor {
  size_t next = 0;
  bool inside = false;
};

template <typename Spans>
SpanCursor cursor_at(const Spans& spans, uint64_t time_ns) {
  const auto found = std::partition_point(spans.begin(), spans.end(),
                                          [&](const auto& span) { return span.end_ns <= time_ns; });
  const bool inside = found != spans.end() && found->begin_ns <= time_ns;
  return {.next = static_cast<size_t>(found - spans.begin()), .inside = inside};
}

template <typename Spans>
uint64_t next_edge(const Spans& spans, const SpanCursor& place) {
  if (place.next >= spans.size()) return kNever;
  return place.inside ? spans[place.next].end_ns : spans[place.next].begin_ns;
}

// The work of one thread.
class Sweeper {
 public:
  Sweeper(const SweepInput& input, SweptTime shape)
      : input_(input),
        slot_count_(input.plan.slots.size()),
        wide_count_(input.plan.wide_slot_count),
        sum_(std::move(shape)),
        groups_(slot_count_ * input.context.groups.size()),
        hosts_(wide_count_ * input.context.hosts.size()),
        job_(wide_count_),
        marks_(input.context.groups.size()),
        epoch_before_ns_(groups_.size()) {}

  void sweep(const TimeSlice& slice) {
    begin(slice.time);
    spans_.begin(slice);
    while (spans_.next_batch()) measure();
    end(slice.time);
  }

  const SweptTime& sum() const { return sum_; }

 private:
  // The epoch and the step that a group is in, and when the next one begins or ends.
  struct Marks {
    uint64_t next_ns = kNever;
    SpanCursor epoch;
    SpanCursor step;
    uint64_t wait_before_ns = 0;  // time waited before the step began
  };

  void begin(const Interval& slice);
  void measure();
  void end(const Interval& slice);

  // Records the covers of a group at each edge of an epoch or step up to a given time.
  void pass_edges(uint32_t group, uint64_t time_ns);
  void pass_epoch_edge(uint32_t group, uint64_t time_ns);
  void pass_step_edge(uint32_t group, uint64_t time_ns);
  void set_next(uint32_t group);

  uint64_t wait_before(uint32_t group, uint64_t time_ns) const {
    const auto part = [&](Measure measure) -> uint64_t {
      const uint8_t slot = input_.plan.slot_of[static_cast<size_t>(measure)];
      if (slot == TimePlan::kNothing) return 0;
      return groups_[group * slot_count_ + slot].before(time_ns);
    };
    return part(Measure::kWaitOrNot) - part(Measure::kNotWait);
  }

  const SweepInput& input_;
  const size_t slot_count_;
  const size_t wide_count_;
  SweptTime sum_;
  std::vector<Cover> groups_;  // by group and slot
  std::vector<Cover> hosts_;
  std::vector<Cover> job_;
  std::vector<Marks> marks_;               // by group
  std::vector<uint64_t> epoch_before_ns_;  // by group and slot: length before the epoch began
  OrderedSpans spans_;
};

void Sweeper::begin(const Interval& slice) {
  std::fill(groups_.begin(), groups_.end(), Cover{});
  std::fill(hosts_.begin(), hosts_.end(), Cover{});
  std::fill(job_.begin(), job_.end(), Cover{});
  std::fill(epoch_before_ns_.begin(), epoch_before_ns_.end(), 0);
  for (uint32_t group = 0; group < marks_.size(); ++group) {
    marks_[group] = {.next_ns = kNever,
                     .epoch = cursor_at(input_.context.epochs.epochs(group), slice.begin_ns),
                     .step = cursor_at(input_.context.epochs.steps(group), slice.begin_ns)};
    set_next(group);
  }
}

void Sweeper::set_next(uint32_t group) {
  Marks& marks = marks_[group];
  marks.next_ns = std::min(next_edge(input_.context.epochs.epochs(group), marks.epoch),
                           next_edge(input_.context.epochs.steps(group), marks.step));
}

void Sweeper::pass_epoch_edge(uint32_t group, uint64_t time_ns) {
  SpanCursor& place = marks_[group].epoch;
  const Cover* covers = groups_.data() + group * slot_count_;
  uint64_t* before_ns = epoch_before_ns_.data() + group * slot_count_;
  if (place.inside) {
    auto& lengths = sum_.epochs[input_.epochs_of[group][place.next]].lengths;
    for (size_t slot = 0; slot < slot_count_; ++slot) {
      lengths[slot] += covers[slot].before(time_ns) - before_ns[slot];
    }
    ++place.next;
  } else {
    for (size_t slot = 0; slot < slot_count_; ++slot) {
      before_ns[slot] = covers[slot].before(time_ns);
    }
  }
  place.inside = !place.inside;
}

void Sweeper::pass_step_edge(uint32_t group, uint64_t time_ns) {
  Marks& marks = marks_[group];
  const uint64_t wait_ns = wait_before(group, time_ns);
  if (marks.step.inside) {
    sum_.step_wait_ns[group][marks.step.next++] += wait_ns - marks.wait_before_ns;
  } else {
    marks.wait_before_ns = wait_ns;
  }
  marks.step.inside = !marks.step.inside;
}

void Sweeper::pass_edges(uint32_t group, uint64_t time_ns) {
  const auto epochs = input_.context.epochs.epochs(group);
  const auto steps = input_.context.epochs.steps(group);
  Marks& marks = marks_[group];
  for (uint64_t edge = next_edge(epochs, marks.epoch); edge <= time_ns && edge != kNever;
       edge = next_edge(epochs, marks.epoch)) {
    pass_epoch_edge(group, edge);
  }
  for (uint64_t edge = next_edge(steps, marks.step); edge <= time_ns && edge != kNever;
       edge = next_edge(steps, marks.step)) {
    pass_step_edge(group, edge);
  }
  set_next(group);
}

void Sweeper::measure() {
  for (const OrderedSpan& span : spans_.batch()) {
    const uint64_t begin_ns = span.begin_ns;
    const uint64_t end_ns = spans_.end_of(span);
    const uint32_t group = span.tag >> kTimeClassBits;
    const uint32_t of = span.tag & kTimeClassMask;
    if (begin_ns >= marks_[group].next_ns) [[unlikely]]
      pass_edges(group, begin_ns);
    Cover* covers = groups_.data() + group * slot_count_;
    const uint32_t host = input_.host_of[group];
    if (host == kNoHost || !(input_.sweeps_hosts || input_.sweeps_job)) {
      for (const uint8_t slot : input_.plan.slots_with[of]) covers[slot].add(begin_ns, end_ns);
      continue;
    }
    Cover* host_covers = hosts_.data() + host * wide_count_;
    for (const uint8_t slot : input_.plan.slots_with[of]) {
      // If the rank's union did not grow, neither does its host's. If the host's did not, neither
      // does the job's.
      if (!covers[slot].add(begin_ns, end_ns) || slot >= wide_count_) continue;
      if (!host_covers[slot].add(begin_ns, end_ns)) continue;
      job_[slot].add(begin_ns, end_ns);
    }
  }
}

void Sweeper::end(const Interval& slice) {
  for (uint32_t group = 0; group < marks_.size(); ++group) {
    pass_edges(group, slice.end_ns);
    if (marks_[group].epoch.inside) pass_epoch_edge(group, slice.end_ns);
    if (marks_[group].step.inside) pass_step_edge(group, slice.end_ns);
    for (size_t slot = 0; slot < slot_count_; ++slot) {
      sum_.groups[group][slot] += groups_[group * slot_count_ + slot].total_ns;
    }
  }
  for (size_t slot = 0; slot < wide_count_; ++slot) {
    sum_.job[slot] += job_[slot].total_ns;
    for (size_t host = 0; host < sum_.hosts.size(); ++host) {
      sum_.hosts[host][slot] += hosts_[host * wide_count_ + slot].total_ns;
    }
  }
}

void add(const std::vector<uint64_t>& from, std::vector<uint64_t>& to) {
  for (size_t i = 0; i < from.size(); ++i) to[i] += from[i];
}

void add(const SweptTime& from, SweptTime& to) {
  for (size_t i = 0; i < from.groups.size(); ++i) add(from.groups[i], to.groups[i]);
  for (size_t i = 0; i < from.hosts.size(); ++i) add(from.hosts[i], to.hosts[i]);
  add(from.job, to.job);
  for (size_t i = 0; i < from.epochs.size(); ++i) add(from.epochs[i].lengths, to.epochs[i].lengths);
  for (size_t i = 0; i < from.step_wait_ns.size(); ++i) {
    add(from.step_wait_ns[i], to.step_wait_ns[i]);
  }
}

// The result with all lists allocated and all values zero.
SweptTime make_shape(SweepInput& input) {
  const Context& context = input.context;
  const size_t slot_count = input.plan.slots.size();
  SweptTime shape;
  shape.groups.assign(context.groups.size(), std::vector<uint64_t>(slot_count));
  shape.hosts.assign(context.hosts.size(), std::vector<uint64_t>(input.plan.wide_slot_count));
  shape.job.assign(input.plan.wide_slot_count, 0);
  std::vector<int64_t> numbers;
  for (uint32_t group = 0; group < context.groups.size(); ++group) {
    shape.step_wait_ns.emplace_back(context.epochs.steps(group).size());
    for (const EpochSpan& span : context.epochs.epochs(group)) numbers.push_back(span.epoch);
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  for (const int64_t number : numbers) {
    shape.epochs.push_back(
        {.epoch = number, .begin_ns = kNever, .lengths = std::vector<uint64_t>(slot_count)});
  }
  input.epochs_of.resize(context.groups.size());
  for (uint32_t group = 0; group < context.groups.size(); ++group) {
    for (const EpochSpan& span : context.epochs.epochs(group)) {
      const auto place = std::lower_bound(numbers.begin(), numbers.end(), span.epoch);
      input.epochs_of[group].push_back(static_cast<uint32_t>(place - numbers.begin()));
      SweptEpoch& epoch = shape.epochs[input.epochs_of[group].back()];
      epoch.begin_ns = std::min(epoch.begin_ns, span.begin_ns);
      epoch.end_ns = std::max(epoch.end_ns, span.end_ns);
      const uint64_t begin_ns = std::max(span.begin_ns, context.begin_ns);
      const uint64_t end_ns = std::min(span.end_ns, context.end_ns);
      epoch.wall_ns += end_ns > begin_ns ? end_ns - begin_ns : 0;
      ++epoch.ranks;
    }
  }
  return shape;
}

// Which levels need a sweep. A host with one rank equals that rank, a job with one host equals that
// host.
void find_levels(SweepInput& input) {
  std::vector<uint32_t> ranks_of(input.context.hosts.size());
  for (const Group& group : input.context.groups) {
    input.host_of.push_back(group.trains ? group.host : kNoHost);
    if (group.trains) ++ranks_of[group.host];
  }
  input.sweeps_hosts =
      std::any_of(ranks_of.begin(), ranks_of.end(), [](uint32_t n) { return n > 1; });
  input.sweeps_job =
      std::count_if(ranks_of.begin(), ranks_of.end(), [](uint32_t n) { return n > 0; }) > 1;
}

void copy_levels(const SweepInput& input, SweptTime& time) {
  for (uint32_t group = 0; group < time.groups.size(); ++group) {
    const uint32_t host = input.host_of[group];
    if (host == kNoHost) continue;
    if (!input.sweeps_hosts) {
      std::copy_n(time.groups[group].begin(), input.plan.wide_slot_count, time.hosts[host].begin());
    }
    if (!input.sweeps_job) time.job = time.hosts[host];
  }
}

}  // namespace

TimeSet swept_classes(const Context& context, const TimeRuns& runs) {
  TimeSet present = 0;
  for (const TaggedRun& tagged : runs.runs()) {
    present |= TimeSet{1} << (swept_tag(context, tagged.tag) & kTimeClassMask);
  }
  for (uint32_t group = 0; group < context.groups.size(); ++group) {
    if (!context.epochs.steps(group).empty()) present |= set_of(TimeClass::kStep);
  }
  if (knows_training(context)) present |= set_of(TimeClass::kTraining);
  return present;
}

Result<SweptTime> sweep_time(const Context& context, const TimeRuns& runs, const TimePlan& plan,
                             size_t threads) {
  SweepInput input{.context = context, .plan = plan, .host_of = {}, .epochs_of = {}};
  find_levels(input);
  SweptTime total = make_shape(input);
  const TimeRuns steps = steps_of(context);
  std::vector<RunView> views;
  for (const TimeRuns* source : {&runs, &steps}) {
    for (const TaggedRun& tagged : source->runs()) {
      if (!tagged.run.empty()) views.push_back({&tagged.run, swept_tag(context, tagged.tag)});
    }
  }
  // More slices than threads, because some take longer.
  const std::vector<TimeSlice> slices =
      make_slices(std::move(views), Interval{context.begin_ns, context.end_ns}, threads * 8);
  std::vector<Sweeper> sweepers;
  sweepers.reserve(threads);
  for (size_t i = 0; i < std::min(threads, slices.size()); ++i) sweepers.emplace_back(input, total);
  std::atomic<size_t> next = 0;
  const auto work = [&](size_t index) -> Status {
    for (size_t i = next++; i < slices.size(); i = next++) sweepers[index].sweep(slices[i]);
    return {};
  };
  if (sweepers.size() == 1) {
    (void)work(0);
  } else {
    ThreadPool pool(sweepers.size() - 1);
    RETURN_IF_ERROR(pool.parallel_for(sweepers.size(), work));
  }
  for (const Sweeper& sweeper : sweepers) add(sweeper.sum(), total);
  copy_levels(input, total);
  return total;
}

}  // namespace millrace::analyze
