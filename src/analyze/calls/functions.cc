// The functions metric: totals of each call, each region and each layer.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "analyze/profile/profile.h"
#include "analyze/scan.h"
#include "base/base.h"
#include "base/bytes.h"
#include "base/concurrency/mutex.h"
#include "base/numbers/log_histogram.h"
#include "base/numbers/quantile_sketch.h"
#include "base/result.h"
#include "trace/pack/bytes_out.h"
#include "trace/summary/summary.h"

namespace millrace::analyze {
namespace {

using trace::EventColumns;
using wire::Call;
using wire::CallKind;

// Programs that put a number into region names must not exhaust memory: once there are this many
// names, all further regions count as one.
constexpr size_t kRegionNamesMax = 4096;
constexpr size_t kFunctionsMax = 1000;

// A call is identified by its number, a region by its name.
struct Key {
  Call call{};
  trace::NameIndex name{};  // of regions

  auto operator<=>(const Key&) const = default;
};

bool moves_bytes(CallKind kind) {
  return kind == CallKind::kRead || kind == CallKind::kWrite || kind == CallKind::kTransfer;
}

// Collects values and computes their Distribution.
class ValueStats {
 public:
  void add_all(std::span<const uint64_t> values);
  void merge(const ValueStats& other);

  uint64_t sum() const { return sum_; }
  const LogHistogram& bins() const { return bins_; }
  Distribution distribution() const;

  void save(std::vector<std::byte>& out) const;
  static Result<ValueStats> load(ByteReader& in);

 private:
  QuantileSketch sketch_;
  LogHistogram bins_;
  uint64_t sum_ = 0;
};

void ValueStats::add_all(std::span<const uint64_t> values) {
  sketch_.add_all(values);
  for (const uint64_t value : values) {
    bins_.add(value);
    sum_ += value;
  }
}

void ValueStats::merge(const ValueStats& other) {
  sketch_.merge(other.sketch_);
  bins_.merge(other.bins_);
  sum_ += other.sum_;
}

Distribution ValueStats::distribution() const {
  constexpr double kShares[] = {0.25, 0.5, 0.75, 0.95, 0.99};
  Distribution distribution;
  distribution.count = sketch_.count();
  if (distribution.count == 0) return distribution;
  const std::vector<uint64_t> at = sketch_.quantiles(kShares);
  distribution.sum = sum_;
  distribution.min = sketch_.min();
  distribution.p25 = at[0];
  distribution.mean = static_cast<double>(sum_) / static_cast<double>(distribution.count);
  distribution.median = at[1];
  distribution.p75 = at[2];
  distribution.p95 = at[3];
  distribution.p99 = at[4];
  distribution.max = sketch_.max();
  return distribution;
}

void ValueStats::save(std::vector<std::byte>& out) const {
  const auto put = [&out](const auto& value) {
    const ByteView bytes = std::as_bytes(std::span(&value, 1));
    out.insert(out.end(), bytes.begin(), bytes.end());
  };
  put(sum_);
  put(bins_);
  sketch_.save(out);
}

Result<ValueStats> ValueStats::load(ByteReader& in) {
  ValueStats stats;
  ASSIGN_OR_RETURN(stats.sum_, in.read<uint64_t>());
  ASSIGN_OR_RETURN(stats.bins_, in.read<LogHistogram>());
  ASSIGN_OR_RETURN(stats.sketch_, QuantileSketch::load(in));
  if (stats.bins_.total() != stats.sketch_.count()) {
    return fail(Errc::kCorrupt, "a histogram has {} values, but its quantiles have {}",
                stats.bins_.total(), stats.sketch_.count());
  }
  return stats;
}

struct Totals {
  uint64_t errors = 0;
  ValueStats sizes;
  ValueStats latencies;

  void merge(const Totals& other) {
    errors += other.errors;
    sizes.merge(other.sizes);
    latencies.merge(other.latencies);
  }
};

// The events of one function in a block.
struct Gathered {
  Key key;
  bool sized = false;
  uint64_t errors = 0;
  std::vector<uint64_t> sizes;
  std::vector<uint64_t> latencies;
};

// Groups the events of a block by function. Reuses its memory for every block.
class Gatherer {
 public:
  std::span<Gathered> gather(const EventColumns& columns) {
    used_ = 0;
    std::fill(std::begin(slot_of_call_), std::end(slot_of_call_), kNone);
    slot_of_region_.clear();
    Gathered* of = nullptr;
    Key last;
    for (size_t i = 0; i < columns.size_events(); ++i) {
      const Call call = columns.call[i];
      const bool region = wire::level_of(call) == wire::Level::kApp;
      const Key key{call, region ? columns.file[i] : trace::NameIndex{}};
      if (of == nullptr || key != last) {
        of = &gathered_[slot(key)];
        last = key;
      }
      of->latencies.push_back(columns.duration_ns[i]);
      if (columns.error[i] != 0) ++of->errors;
      if (of->sized && columns.result[i] >= 0) {
        of->sizes.push_back(static_cast<uint64_t>(columns.result[i]));
      }
    }
    return {gathered_.data(), used_};
  }

 private:
  static constexpr uint16_t kNone = 0xffff;

  size_t slot(const Key& key) {
    const auto number = static_cast<size_t>(key.call);
    const bool region = wire::level_of(key.call) == wire::Level::kApp;
    if (!region && number < kCallTableSize) {
      if (slot_of_call_[number] == kNone) slot_of_call_[number] = static_cast<uint16_t>(add(key));
      return slot_of_call_[number];
    }
    const uint64_t name = static_cast<uint64_t>(number) << 32 | static_cast<uint32_t>(key.name);
    const auto [found, is_new] = slot_of_region_.try_emplace(name, 0);
    if (is_new) found->second = add(key);
    return found->second;
  }

  size_t add(const Key& key) {
    if (used_ == gathered_.size()) gathered_.emplace_back();
    Gathered& of = gathered_[used_];
    of.key = key;
    of.sized = moves_bytes(traits_of(key.call).kind);
    of.errors = 0;
    of.sizes.clear();
    of.latencies.clear();
    return used_++;
  }

  std::vector<Gathered> gathered_;
  size_t used_ = 0;
  uint16_t slot_of_call_[kCallTableSize] = {};
  std::unordered_map<uint64_t, size_t> slot_of_region_;
};

class FunctionsMetric : public Metric {
 public:
  void observe(const Block& block) override {
    thread_local Gatherer gatherer;
    for (const Gathered& of : gatherer.gather(block.columns)) {
      // Computed before taking the lock, because sorting is expensive.
      Totals totals;
      totals.errors = of.errors;
      totals.sizes.add_all(of.sizes);
      totals.latencies.add_all(of.latencies);
      const MutexLock lock(mutex_);
      entry(of.key).merge(totals);
    }
  }

  void save(std::vector<std::byte>& out) const override {
    const MutexLock lock(mutex_);
    trace::BytesOut bytes;
    bytes.put_varint(functions_.size());
    for (const auto& [key, totals] : functions_) {
      bytes.put(key.call);
      bytes.put(key.name);
      bytes.put(totals.errors);
      totals.sizes.save(bytes.buffer());
      totals.latencies.save(bytes.buffer());
    }
    out.insert(out.end(), bytes.view().begin(), bytes.view().end());
  }

  Status merge(ByteReader& saved) override {
    const MutexLock lock(mutex_);
    ASSIGN_OR_RETURN(const uint64_t count, saved.read_varint());
    for (uint64_t i = 0; i < count; ++i) {
      Key key;
      Totals totals;
      ASSIGN_OR_RETURN(key.call, saved.read<Call>());
      ASSIGN_OR_RETURN(key.name, saved.read<trace::NameIndex>());
      ASSIGN_OR_RETURN(totals.errors, saved.read<uint64_t>());
      ASSIGN_OR_RETURN(totals.sizes, ValueStats::load(saved));
      ASSIGN_OR_RETURN(totals.latencies, ValueStats::load(saved));
      entry(key).merge(totals);
    }
    return {};
  }

  void finish(const Context& context, Profile& profile) override {
    const MutexLock lock(mutex_);
    std::map<Layer, LayerStats> layers;
    for (const auto& [key, totals] : functions_) {
      FunctionStats function = describe(context, key, totals);
      add_to_layer(function, layers[function.layer]);
      profile.functions.push_back(std::move(function));
    }
    for (auto& [layer, stats] : layers) {
      stats.layer = layer;
      profile.layers.push_back(stats);
    }
    std::stable_sort(profile.functions.begin(), profile.functions.end(),
                     [](const FunctionStats& a, const FunctionStats& b) {
                       return a.time_ns != b.time_ns ? a.time_ns > b.time_ns : a.count > b.count;
                     });
    if (profile.functions.size() > kFunctionsMax) profile.functions.resize(kFunctionsMax);
  }

 private:
  Totals& entry(const Key& key) REQUIRES(mutex_) {
    if (wire::level_of(key.call) != wire::Level::kApp) return functions_[key];
    const auto found = functions_.find(key);
    if (found != functions_.end()) return found->second;
    if (region_names_ >= kRegionNamesMax) return functions_[Key{key.call, {}}];
    ++region_names_;
    return functions_[key];
  }

  static FunctionStats describe(const Context& context, const Key& key, const Totals& totals) {
    FunctionStats function;
    const CallTraits& traits = traits_of(key.call);
    function.kind = traits.kind;
    function.layer = traits.layer;
    function.name = trace::call_name(key.call);
    if (traits.region && static_cast<size_t>(key.name) < context.trace.names().size()) {
      function.role = context.role(key.name);
      function.layer = layer_of(function.role);
      function.name = key.name == trace::NameIndex{} ? "(other regions)"
                                                     : std::string(context.trace.name(key.name));
    }
    function.size_bytes = totals.sizes.distribution();
    function.latency_ns = totals.latencies.distribution();
    function.size_bins = totals.sizes.bins();
    function.latency_bins = totals.latencies.bins();
    function.count = function.latency_ns.count;
    function.errors = totals.errors;
    function.time_ns = totals.latencies.sum();
    function.bytes = totals.sizes.sum();
    return function;
  }

  static void add_to_layer(const FunctionStats& function, LayerStats& layer) {
    layer.count += function.count;
    layer.time_ns += function.time_ns;
    switch (function.kind) {
      case CallKind::kRead:
        layer.bytes_read += function.bytes;
        break;
      case CallKind::kWrite:
        layer.bytes_written += function.bytes;
        break;
      case CallKind::kTransfer:
        layer.bytes_read += function.bytes;
        layer.bytes_written += function.bytes;
        break;
      case CallKind::kSync:
      case CallKind::kProcess:
      case CallKind::kRegion:
        break;
      default:
        layer.metadata_count += function.count;
        layer.metadata_ns += function.time_ns;
    }
  }

  mutable Mutex mutex_;
  std::map<Key, Totals> functions_ GUARDED_BY(mutex_);
  size_t region_names_ GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::unique_ptr<Metric> make_functions_metric(const Context& /*context*/,
                                              const Limits& /*limits*/) {
  return std::make_unique<FunctionsMetric>();
}

}  // namespace millrace::analyze
