#include <algorithm>
#include <array>
#include <utility>

#include "analyze/block_threads.h"
#include "analyze/detail/detail_parts.h"
#include "analyze/time/busy_bins.h"
#include "base/concurrency/mutex.h"
#include "base/concurrency/thread_pool.h"
#include "base/system/cpus.h"

namespace millrace::analyze {
namespace {

using trace::ProcessIndex;
using trace::ThreadIndex;

// The factor from one level to the next finer one.
constexpr size_t kFiner = 8;
constexpr size_t kCoarsestBins = 64;
// 20 bins per pixel of a wide screen. Windows show what is finer.
constexpr size_t kFinestBins = 40'000;

// Whether time in such a region means that its layer did something.
bool is_work(Role role) { return role != Role::kEpoch && role != Role::kStep; }

struct Choice {
  std::vector<ThreadIndex> threads;
  std::vector<size_t> blocks;
};

// Adds evenly spaced groups one by one, each if all of it fits.
class Chooser {
 public:
  Chooser(const Context& context, const DetailLimits& limits)
      : context_(context),
        limits_(limits),
        threads_(context.groups.size()),
        blocks_(context.groups.size()) {
    const auto& blocks = context.trace.blocks();
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (wants(context.options, blocks[i])) blocks_[group_of(blocks[i].process)].push_back(i);
    }
    const auto& threads = context.trace.threads();
    for (uint32_t i = 0; i < threads.size(); ++i) {
      const size_t group = group_of(threads[i].process);
      if (!blocks_[group].empty()) threads_[group].push_back(ThreadIndex{i});
    }
  }

  Choice choose() const {
    Choice choice;
    const size_t count = context_.groups.size();
    std::vector<bool> is_taken(count, false);
    // 0, then the half, then the quarters, ...: evenly spaced wherever it stops.
    for (size_t parts = 1; parts < 2 * count; parts *= 2) {
      for (size_t part = 0; part < parts; ++part) {
        const size_t group = part * count / parts;
        if (is_taken[group]) continue;
        is_taken[group] = true;
        if (!fits(choice, group)) continue;
        choice.threads.insert(choice.threads.end(), threads_[group].begin(), threads_[group].end());
        choice.blocks.insert(choice.blocks.end(), blocks_[group].begin(), blocks_[group].end());
      }
    }
    std::sort(choice.threads.begin(), choice.threads.end());
    return choice;
  }

 private:
  size_t group_of(ProcessIndex process) const {
    return static_cast<size_t>(context_.group(process));
  }

  bool fits(const Choice& choice, size_t group) const {
    return choice.threads.size() + threads_[group].size() <= limits_.level_threads &&
           choice.blocks.size() + blocks_[group].size() <= limits_.level_blocks;
  }

  const Context& context_;
  const DetailLimits& limits_;
  std::vector<std::vector<ThreadIndex>> threads_;  // by group
  std::vector<std::vector<size_t>> blocks_;        // by group
};

// The busy time of the selected threads in the finest bins.
class LevelRows {
 public:
  LevelRows(const Context& context, const Choice& choice, size_t bin_count)
      : context_(context),
        choice_(choice),
        bins_(context.end_ns - context.begin_ns, bin_count),
        rows_(choice.threads.size()) {}

  Status read() {
    ThreadPool pool(std::max<size_t>(1, usable_cpu_count() - 1));
    return pool.parallel_for(choice_.blocks.size(), [this](size_t i) -> Status {
      thread_local trace::EventColumns columns;
      // The scan has reported unreadable blocks.
      const auto wanted = read_wanted(context_.trace, context_.options, choice_.blocks[i], columns);
      if (wanted.ok() && *wanted) take(columns);
      return {};
    });
  }

  size_t row_count() const {
    const MutexLock lock(mutex_);
    size_t count = 0;
    for (const auto& layers : rows_) {
      for (const auto& row : layers) count += row.empty() ? 0 : 1;
    }
    return count;
  }

  std::vector<LevelRow> rows(size_t join) const {
    const MutexLock lock(mutex_);
    std::vector<LevelRow> made;
    for (size_t i = 0; i < rows_.size(); ++i) {
      for (size_t layer = 0; layer < kLayerCount; ++layer) {
        if (rows_[i][layer].empty()) continue;
        std::vector<uint16_t> busy = thousandths(bins_, rows_[i][layer], join);
        while (!busy.empty() && busy.back() == 0) busy.pop_back();
        made.push_back({choice_.threads[i], static_cast<Layer>(layer), std::move(busy)});
      }
    }
    return made;
  }

  const TimeBins& bins() const { return bins_; }

 private:
  struct LayerSpans {
    BackwardUnion busy;
    std::vector<Span> spans;

    void add(const Span& span) {
      busy.add(span, [this](const Span& united) { spans.push_back(united); });
    }
    void finish() {
      busy.finish([this](const Span& united) { spans.push_back(united); });
    }
  };
  struct ThreadSpans {
    ThreadIndex thread{};
    std::array<LayerSpans, kLayerCount> layers;
  };

  void take(const trace::EventColumns& columns) {
    BlockThreads<ThreadSpans> threads(columns.thread);
    for (size_t i = columns.size_events(); i-- > 0;) {
      const CallTraits& traits = traits_of(columns.call[i]);
      if (!traits.io && !traits.region) continue;
      Layer layer = traits.layer;
      if (traits.region) {
        const Role role = context_.role(columns.file[i]);
        if (!is_work(role)) continue;
        layer = layer_of(role);
      }
      ThreadSpans& of = threads.of(columns.thread[i]);
      of.thread = columns.thread[i];
      of.layers[static_cast<size_t>(layer)].add(
          span_in_job(context_, columns.begin_ns[i], columns.duration_ns[i]));
    }
    const MutexLock lock(mutex_);
    for (ThreadSpans& of : threads.values()) add(of);
  }

  void add(ThreadSpans& of) REQUIRES(mutex_) {
    const auto place = std::lower_bound(choice_.threads.begin(), choice_.threads.end(), of.thread);
    if (place == choice_.threads.end() || *place != of.thread) return;
    auto& layers = rows_[static_cast<size_t>(place - choice_.threads.begin())];
    BinCursor cursor(bins_);
    for (size_t layer = 0; layer < kLayerCount; ++layer) {
      of.layers[layer].finish();
      if (of.layers[layer].spans.empty()) continue;
      if (layers[layer].empty()) layers[layer].resize(bins_.count());
      for (const Span& span : of.layers[layer].spans) add_busy(bins_, cursor, span, layers[layer]);
    }
  }

  const Context& context_;
  const Choice& choice_;
  const TimeBins bins_;
  mutable Mutex mutex_;
  // Indexed as Choice::threads. Empty: did nothing in that layer.
  std::vector<std::array<std::vector<BusyBin>, kLayerCount>> rows_ GUARDED_BY(mutex_);
};

}  // namespace

std::vector<DetailLevel> make_levels(const Context& context, const DetailLimits& limits) {
  std::vector<DetailLevel> levels;
  if (context.groups.empty()) return levels;
  const Choice choice = Chooser(context, limits).choose();
  if (choice.threads.empty() || choice.blocks.empty()) return levels;
  const size_t of_thread = limits.level_bins / choice.threads.size();
  LevelRows rows(context, choice, std::clamp<size_t>(of_thread, 1, kFinestBins));
  if (!rows.read().ok()) return levels;  // out of memory: the page has no levels
  // The number of rows is known only now. All levels of a row together have 8/7 of the bins of the
  // finest one.
  const size_t bin_count = rows.row_count() * rows.bins().count() * kFiner / (kFiner - 1);
  if (bin_count == 0) return levels;
  const size_t finest = (bin_count - 1) / std::max<size_t>(limits.level_bins, 1) + 1;
  size_t join = finest;
  while (rows.bins().count() / (join * kFiner) >= kCoarsestBins) join *= kFiner;
  for (; join >= finest; join /= kFiner) {
    levels.push_back({.bin_ns = rows.bins().bin_ns() * join, .rows = rows.rows(join)});
  }
  return levels;
}

}  // namespace millrace::analyze
