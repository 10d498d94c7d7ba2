#include "analyze/epochs/regions_pass.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

#include "analyze/epochs/checkpoint_end.h"
#include "analyze/files/file_kinds.h"
#include "base/concurrency/mutex.h"
#include "base/concurrency/thread_pool.h"
#include "base/system/cpus.h"

namespace millrace::analyze {
namespace {

using trace::EventColumns;
using trace::NameIndex;
using trace::ThreadIndex;

// What one block contains.
struct BlockRegions {
  std::unordered_map<uint32_t, Role> roles;
  std::vector<ThreadIndex> computing;
  std::vector<ThreadIndex> training;
  uint64_t compute_regions = 0;
  Interval training_span;
  Interval device_span;
  std::vector<MarkedSpan> spans;
  std::vector<LongRegion> long_regions;
  std::vector<StepSpan> checkpoints;
};

int64_t epoch_of(const EventColumns& columns, size_t i) {
  return columns.size[i] == wire::kNoEpoch ? -1 : static_cast<int64_t>(columns.size[i]);
}

int64_t step_of(const EventColumns& columns, size_t i) {
  return columns.offset[i] == wire::kNoStep ? -1 : static_cast<int64_t>(columns.offset[i]);
}

// Extends a span by another one. An empty span has no length.
void extend(Interval& span, const Interval& by) {
  if (span.begin_ns == span.end_ns) span = by;
  span = {std::min(span.begin_ns, by.begin_ns), std::max(span.end_ns, by.end_ns)};
}

bool is_of_training(Role role) {
  if (role == Role::kWait) return true;
  return role != Role::kNone && role != Role::kSetup && layer_of(role) == Layer::kApplication;
}

void add_new(ThreadIndex thread, std::vector<ThreadIndex>& threads) {
  if (threads.empty() || threads.back() != thread) threads.push_back(thread);
}

class BlockReader {
 public:
  BlockReader(const trace::Trace& trace, const Options& options)
      : trace_(trace), options_(options) {}

  BlockRegions read(const EventColumns& columns) const {
    BlockRegions of;
    std::unordered_map<uint32_t, ThreadState> threads;
    std::optional<ThreadIndex> thread;
    ThreadState* of_thread = nullptr;
    KnownRoles known{};
    for (size_t i = 0; i < columns.size_events(); ++i) {
      const uint64_t begin_ns = columns.begin_ns[i];
      bool is_first = false;
      if (thread != columns.thread[i]) {
        thread = columns.thread[i];
        const auto [found, is_new] =
            threads.try_emplace(static_cast<uint32_t>(*thread), ThreadState{.first_ns = begin_ns});
        is_first = is_new;
        of_thread = &found->second;
      }
      if (columns.call[i] != wire::Call::kRegion) continue;
      const uint64_t end_ns = begin_ns + columns.duration_ns[i];
      if (is_of_device(note_role(columns, i, known, of))) continue;
      if (is_first || begin_ns < of_thread->first_ns) {
        of.long_regions.push_back({columns.thread[i], columns.file[i], begin_ns, end_ns});
      }
      note_span({{epoch_of(columns, i), step_of(columns, i), begin_ns, end_ns}, *thread},
                *of_thread, of);
    }
    note_unmarked_checkpoints(columns, known, of);
    return of;
  }

 private:
  struct ThreadState {
    uint64_t first_ns = 0;          // begin of its first event in this block
    size_t last_span = ~size_t{0};  // index into BlockRegions::spans; initially none
  };

  static void note_span(const MarkedSpan& marked, ThreadState& thread, BlockRegions& of) {
    const StepSpan& span = marked.span;
    if (span.epoch < 0 && span.step < 0) return;
    if (thread.last_span >= of.spans.size() ||
        of.spans[thread.last_span].span.epoch != span.epoch ||
        of.spans[thread.last_span].span.step != span.step) {
      thread.last_span = of.spans.size();
      of.spans.push_back(marked);
    }
    StepSpan& last = of.spans[thread.last_span].span;
    last.begin_ns = std::min(last.begin_ns, span.begin_ns);
    last.end_ns = std::max(last.end_ns, span.end_ns);
  }

  // Cache of the names seen in this block, indexed by name number modulo size.
  struct KnownRole {
    NameIndex name{};
    Role role{};
  };
  using KnownRoles = std::array<KnownRole, 64>;

  Role role_of(NameIndex name, KnownRoles& known, BlockRegions& of) const {
    KnownRole& place = known[static_cast<size_t>(name) % known.size()];
    if (place.name == name && name != NameIndex{}) return place.role;
    const auto [found, is_new] = of.roles.try_emplace(static_cast<uint32_t>(name), Role::kNone);
    if (is_new) found->second = role_of_name(trace_.name(name), options_.roles);
    place = {name, found->second};
    return found->second;
  }

  Role note_role(const EventColumns& columns, size_t i, KnownRoles& known, BlockRegions& of) const {
    const Role role = role_of(columns.file[i], known, of);
    const Interval time{columns.begin_ns[i], columns.begin_ns[i] + columns.duration_ns[i]};
    if (role == Role::kDevice) extend(of.device_span, time);
    if (is_of_device(role)) return role;
    if (role == Role::kCheckpoint) {
      const uint64_t end_ns = end_of_checkpoint(
          columns, i, [&](size_t region) { return role_of(columns.file[region], known, of); });
      of.checkpoints.push_back(
          {epoch_of(columns, i), step_of(columns, i), columns.begin_ns[i], end_ns});
    }
    if (is_of_training(role)) add_new(columns.thread[i], of.training);
    if (role == Role::kWait || role == Role::kFetch || role == Role::kCompute) {
      extend(of.training_span, time);
    }
    if (role != Role::kCompute) return role;
    ++of.compute_regions;
    add_new(columns.thread[i], of.computing);
    return role;
  }

  void note_unmarked_checkpoints(const EventColumns& columns, KnownRoles& known,
                                 BlockRegions& of) const {
    const auto role = [&](size_t i) { return role_of(columns.file[i], known, of); };
    const auto is_checkpoint = [&](NameIndex file) {
      return is_checkpoint_name(trace_.name(file)) && !is_system_path(trace_.name(file));
    };
    std::sort(of.computing.begin(), of.computing.end());
    of.computing.erase(std::unique(of.computing.begin(), of.computing.end()), of.computing.end());
    for (const ThreadIndex thread : of.computing) {
      for (const size_t i : find_unmarked_checkpoints(columns, thread, role, is_checkpoint)) {
        of.checkpoints.push_back(
            {-1, -1, columns.begin_ns[i], end_of_checkpoint(columns, i, role)});
      }
    }
  }

  const trace::Trace& trace_;
  const Options& options_;
};

void join(BlockRegions&& of, trace::ProcessIndex process, RegionsPass& pass) {
  for (const auto& [name, role] : of.roles) pass.roles[NameIndex{name}] = role;
  for (const ThreadIndex thread : of.computing) {
    pass.thread_computes[static_cast<size_t>(thread)] = true;
  }
  for (const ThreadIndex thread : of.training) {
    pass.thread_trains[static_cast<size_t>(thread)] = true;
  }
  if (of.compute_regions > 0) {
    pass.compute_regions[static_cast<size_t>(process)] += of.compute_regions;
    extend(pass.training_spans[static_cast<size_t>(process)], of.training_span);
  }
  if (of.device_span.begin_ns < of.device_span.end_ns) {
    extend(pass.device_spans[static_cast<size_t>(process)], of.device_span);
  }
  if (!of.spans.empty()) {
    auto& spans = pass.spans[process];
    spans.insert(spans.end(), of.spans.begin(), of.spans.end());
  }
  pass.long_regions.insert(pass.long_regions.end(), of.long_regions.begin(), of.long_regions.end());
  if (!of.checkpoints.empty()) {
    auto& checkpoints = pass.checkpoints[process];
    checkpoints.insert(checkpoints.end(), of.checkpoints.begin(), of.checkpoints.end());
  }
}

bool stands_before(const LongRegion& a, const LongRegion& b) {
  if (a.thread != b.thread) return a.thread < b.thread;
  if (a.begin_ns != b.begin_ns) return a.begin_ns < b.begin_ns;
  if (a.end_ns != b.end_ns) return a.end_ns > b.end_ns;
  return a.name < b.name;
}

// The blocks that contain regions, by process.
std::map<trace::ProcessIndex, std::vector<size_t>> region_blocks(
    const trace::Trace& trace, const Options& options, ThreadPool& pool,
    std::vector<std::string>& problems) {
  std::vector<uint8_t> has_regions(trace.blocks().size(), 0);
  const Status done = pool.parallel_for(trace.blocks().size(), [&](size_t index) -> Status {
    constexpr uint32_t kAppBit = 1U << static_cast<unsigned>(wire::Level::kApp);
    if (options.wants_block && !options.wants_block(trace.blocks()[index])) return {};
    // An unreadable block is reported by the scan, which reads it again.
    const auto levels = trace.block_levels(index);
    if (levels.ok() && (*levels & kAppBit) != 0) has_regions[index] = 1;
    return {};
  });
  if (!done.ok()) problems.push_back("some regions could not be found: " + done.error().message());
  std::map<trace::ProcessIndex, std::vector<size_t>> blocks;
  for (size_t i = 0; i < has_regions.size(); ++i) {
    if (has_regions[i] != 0) blocks[trace.blocks()[i].process].push_back(i);
  }
  return blocks;
}

struct Chosen {
  std::vector<size_t> first;  // of each process, enough blocks to see whether it trains
  std::map<trace::ProcessIndex, std::vector<size_t>> rest;
};

// Decoding all regions of a large trace would take as long as a third of the scan. Most regions
// belong to workers, which define neither epochs nor steps, so a few blocks are enough for
// processes with many. The only loss: for some calls at the end of a block, the enclosing region is
// unknown.
Chosen choose(std::map<trace::ProcessIndex, std::vector<size_t>> blocks) {
  constexpr size_t kAllBlocks = 256;
  constexpr size_t kEnds = 3;
  size_t total = 0;
  for (const auto& [process, of] : blocks) total += of.size();
  Chosen chosen;
  for (const auto& [process, of] : blocks) {
    for (size_t i = 0; i < of.size(); ++i) {
      const bool at_end = i < kEnds || i + kEnds >= of.size();
      (at_end || total <= kAllBlocks ? chosen.first : chosen.rest[process]).push_back(of[i]);
    }
  }
  return chosen;
}

}  // namespace

RegionsPass read_regions(const trace::Trace& trace, const Options& options) {
  RegionsPass pass;
  pass.thread_computes.assign(trace.threads().size(), false);
  pass.thread_trains.assign(trace.threads().size(), false);
  pass.compute_regions.assign(trace.processes().size(), 0);
  pass.training_spans.assign(trace.processes().size(), {});
  pass.device_spans.assign(trace.processes().size(), {});
  Mutex mutex;
  const BlockReader reader(trace, options);
  const size_t threads = options.threads != 0 ? options.threads : usable_cpu_count();
  ThreadPool pool(std::max<size_t>(1, threads - 1));  // the calling thread works too
  const auto read_all = [&](const std::vector<size_t>& blocks) {
    const Status done = pool.parallel_for(blocks.size(), [&](size_t i) -> Status {
      thread_local EventColumns columns;
      const auto wanted = read_wanted(trace, options, blocks[i], columns);
      if (!wanted.ok() || !*wanted) return {};
      BlockRegions of = reader.read(columns);
      const MutexLock lock(mutex);
      join(std::move(of), trace.blocks()[blocks[i]].process, pass);
      return {};
    });
    if (!done.ok())
      pass.problems.push_back("some regions could not be read: " + done.error().message());
  };
  Chosen chosen = choose(region_blocks(trace, options, pool, pass.problems));
  read_all(chosen.first);
  const bool some_train = std::any_of(pass.compute_regions.begin(), pass.compute_regions.end(),
                                      [](uint64_t count) { return count > 0; });
  std::vector<size_t> rest;
  for (const auto& [process, blocks] : chosen.rest) {
    if (some_train && pass.compute_regions[static_cast<size_t>(process)] == 0) continue;
    rest.insert(rest.end(), blocks.begin(), blocks.end());
  }
  read_all(rest);
  std::sort(pass.long_regions.begin(), pass.long_regions.end(), stands_before);
  return pass;
}

}  // namespace millrace::analyze
