// The samples metric: which samples the ranks read, in which order, by how many threads, and how
// long each epoch takes to start. All of it follows from regions and their tags.
//
// The order follows from the tag `index` of regions that read one sample. Unlike the files and
// offsets that the order metric uses, it is also known for data that is mapped or in memory.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "analyze/block_threads.h"
#include "analyze/files/sequence_hash.h"
#include "analyze/scan.h"
#include "base/concurrency/mutex.h"
#include "trace/pack/bytes_out.h"

namespace millrace::analyze {
namespace {

using trace::ThreadIndex;

// The samples that one thread read in one epoch, as far as one block shows.
struct Sequence {
  SequenceHash order;
  uint64_t steps = 0;  // from one sample to the next
  uint64_t steps_up = 0;
  uint64_t index_end = 0;  // the largest index, plus 1

  void append(const Sequence& next) {
    order.append(next.order);
    steps += next.steps;
    steps_up += next.steps_up;
    index_end = std::max(index_end, next.index_end);
  }
};
static_assert(std::is_trivially_copyable_v<Sequence>);

struct EpochStart {
  uint64_t setup_ns = 0;
  uint64_t wait_begin_ns = kMissing;
  uint64_t wait_ns = 0;  // the first wait

  void add(const EpochStart& other) {
    setup_ns += other.setup_ns;
    if (other.wait_begin_ns >= wait_begin_ns) return;
    wait_begin_ns = other.wait_begin_ns;
    wait_ns = other.wait_ns;
  }
};
static_assert(std::is_trivially_copyable_v<EpochStart>);

struct SampleCounts {
  uint64_t read = 0;     // by regions that read
  uint64_t fetched = 0;  // as the tags of regions that fetch say

  void add(const SampleCounts& other) {
    read += other.read;
    fetched += other.fetched;
  }
};
static_assert(std::is_trivially_copyable_v<SampleCounts>);

// The first sample of an iterable dataset that a thread read in an epoch.
struct StreamStart {
  uint64_t begin_ns = kMissing;
  uint64_t time_ns = 0;
  uint64_t bytes = 0;

  void add(const StreamStart& other) {
    if (other.begin_ns < begin_ns) *this = other;
  }
};
static_assert(std::is_trivially_copyable_v<StreamStart>);

// What was seen, in one block or in all.
struct Seen {
  std::map<SequenceKey, Sequence> pieces;
  std::map<uint32_t, Interval> loaders;                         // by thread: first to last use
  std::map<std::pair<uint32_t, int64_t>, EpochStart> starts;    // by group and epoch
  std::map<std::pair<uint32_t, uint64_t>, EpochStart> setups;   // by group and begin
  std::map<uint32_t, SampleCounts> samples;                     // by group
  std::map<std::pair<uint32_t, int64_t>, StreamStart> streams;  // by thread and epoch

  void add(const Seen& other) {
    for (const auto& [key, piece] : other.pieces) pieces[key] = piece;
    for (const auto& [thread, time] : other.loaders) add_loader(thread, time);
    for (const auto& [key, start] : other.starts) starts[key].add(start);
    for (const auto& [key, start] : other.setups) setups[key].add(start);
    for (const auto& [group, counts] : other.samples) samples[group].add(counts);
    for (const auto& [key, start] : other.streams) streams[key].add(start);
  }

  void add_loader(uint32_t thread, const Interval& time) {
    Interval& known = loaders.try_emplace(thread, time).first->second;
    known = {std::min(known.begin_ns, time.begin_ns), std::max(known.end_ns, time.end_ns)};
  }
};

class BlockSamples {
 public:
  explicit BlockSamples(const Block& block)
      : block_(block),
        columns_(block.columns),
        group_(static_cast<uint32_t>(block.group)),
        trainer_(block.context.groups[group_].thread),
        epochs_(block.context.epochs.reading(group_)),
        threads_(block.columns.thread) {}

  // Backwards: a region comes before those that it contains.
  Seen gather() {
    for (size_t i = columns_.size_events(); i-- > 0;) {
      if (columns_.call[i] != wire::Call::kRegion) {
        if (reads_) add_read(i);
        continue;
      }
      const Role role = block_.context.role(columns_.file[i]);
      if (role == Role::kFetch || role == Role::kRead) add_load(i, role);
      if (columns_.thread[i] == trainer_) add_start(i, role);
    }
    for (const ThreadState& state : threads_.values()) {
      if (state.thread == trainer_) continue;
      seen_.add_loader(static_cast<uint32_t>(state.thread), state.load);
    }
    if (samples_.read + samples_.fetched > 0) seen_.samples[group_] = samples_;
    for (auto it = indexed_.rbegin(); it != indexed_.rend(); ++it) add_indexed(*it);
    return std::move(seen_);
  }

 private:
  struct Indexed {
    ThreadIndex thread{};
    int64_t epoch = -1;
    int64_t index = 0;
  };
  struct ThreadState {
    ThreadIndex thread{};
    Interval load{.begin_ns = kMissing, .end_ns = 0};  // from its first to its last region
    uint64_t read_begin_ns = kMissing;                 // of the last outermost read
    int64_t epoch = -2;
    int64_t index = 0;
    Sequence* piece = nullptr;
    StreamStart* stream = nullptr;  // of the last outermost read
  };

  std::optional<int64_t> tag(size_t i, std::string_view key) const {
    if (columns_.tag_begin.empty()) return std::nullopt;
    for (size_t at = columns_.tag_begin[i]; at < columns_.tag_begin[i + 1]; ++at) {
      const trace::RegionTag& tag = columns_.tags[at];
      if (tag.kind == wire::TagKind::kInteger && block_.context.trace.name(tag.key) == key) {
        return static_cast<int64_t>(tag.value);
      }
    }
    return std::nullopt;
  }

  uint64_t samples_tag(size_t i, uint64_t otherwise) const {
    return static_cast<uint64_t>(
        std::max<int64_t>(0, tag(i, "samples").value_or(static_cast<int64_t>(otherwise))));
  }

  void add_load(size_t i, Role role) {
    const uint64_t begin_ns = columns_.begin_ns[i];
    const ThreadIndex thread = columns_.thread[i];
    ThreadState& state = threads_.of(thread);
    if (state.load.end_ns == 0) state.load.end_ns = begin_ns + columns_.duration_ns[i];
    state.load.begin_ns = std::min(state.load.begin_ns, begin_ns);
    state.thread = thread;
    if (role == Role::kFetch) {
      samples_.fetched += samples_tag(i, 0);
      return;
    }
    if (begin_ns >= state.read_begin_ns) return;  // within another read
    state.read_begin_ns = begin_ns;
    state.stream = nullptr;  // the calls within this read are not of the read after it
    samples_.read += samples_tag(i, 1);
    const auto index = tag(i, "index");
    if (!index && !tag(i, "stream")) return;
    const bool has_epoch = columns_.size[i] != wire::kNoEpoch;
    const int64_t epoch = has_epoch ? static_cast<int64_t>(columns_.size[i]) : epochs_.at(begin_ns);
    if (index) {
      indexed_.push_back({thread, epoch, *index});
      return;
    }
    // Backwards, the last one of an epoch is its first.
    state.stream = &seen_.streams[{static_cast<uint32_t>(thread), epoch}];
    *state.stream = {.begin_ns = begin_ns, .time_ns = columns_.duration_ns[i]};
    reads_ = true;
  }

  void add_read(size_t i) {
    if (traits_of(columns_.call[i]).kind != wire::CallKind::kRead) return;
    ThreadState& state = threads_.of(columns_.thread[i]);
    if (state.stream == nullptr || columns_.begin_ns[i] < state.read_begin_ns) return;
    state.stream->bytes += columns_.size[i];
  }

  void add_indexed(const Indexed& sample) {
    ThreadState& state = threads_.of(sample.thread);
    const bool is_next = state.piece != nullptr && state.epoch == sample.epoch;
    if (!is_next) {
      state.piece =
          &seen_.pieces[{static_cast<uint32_t>(sample.thread), sample.epoch, block_.index}];
      state.epoch = sample.epoch;
    } else {
      ++state.piece->steps;
      if (sample.index > state.index) ++state.piece->steps_up;
    }
    state.index = sample.index;
    const auto index = static_cast<uint64_t>(std::max<int64_t>(sample.index, 0));
    state.piece->order.add(static_cast<uint64_t>(sample.index));
    state.piece->index_end = std::max(state.piece->index_end, index + 1);
  }

  void add_start(size_t i, Role role) {
    const bool is_setup = role == Role::kSetup;
    if (!is_setup && !is_waiting(block_.context, role, columns_.thread[i])) return;
    const bool has_epoch = columns_.size[i] != wire::kNoEpoch;
    const int64_t epoch = has_epoch ? static_cast<int64_t>(columns_.size[i])
                                    : block_.context.epochs.epoch_at(group_, columns_.begin_ns[i]);
    if (epoch < 0) return;
    if (is_setup) {
      EpochStart& start = seen_.setups[{group_, columns_.begin_ns[i]}];
      start = next_wait_;
      start.setup_ns = columns_.duration_ns[i];
    } else {
      next_wait_.wait_begin_ns = columns_.begin_ns[i];
      next_wait_.wait_ns = columns_.duration_ns[i];
      seen_.starts[{group_, epoch}].add(next_wait_);
    }
  }

  const Block& block_;
  const trace::EventColumns& columns_;
  const uint32_t group_;
  const std::optional<ThreadIndex> trainer_;
  EpochCursor epochs_;
  BlockThreads<ThreadState> threads_;
  std::vector<Indexed> indexed_;  // latest first
  EpochStart next_wait_;
  SampleCounts samples_;
  bool reads_ = false;  // a stream was seen, of which reads count
  Seen seen_;
};

class SamplesMetric final : public Metric {
 public:
  explicit SamplesMetric(const Context& context) : context_(context) {}

  void observe(const Block& block) override {
    const Seen of = BlockSamples(block).gather();
    const MutexLock lock(mutex_);
    seen_.add(of);
  }

  void save(std::vector<std::byte>& out) const override;
  Status merge(ByteReader& saved) override;

  void finish(const Context& context, Profile& profile) override {
    const MutexLock lock(mutex_);
    finish_samples(context, profile);
    finish_order(context, profile.data);
    finish_streams(profile.data);
    finish_starts(profile.loading);
    profile.loading.threads = most_threads(context);
  }

 private:
  static uint64_t samples_of(const SampleCounts& counts) {
    return counts.read > 0 ? counts.read : counts.fetched;
  }

  void finish_samples(const Context& context, Profile& profile) const REQUIRES(mutex_) {
    for (const auto& [group, counts] : seen_.samples) {
      profile.loading.samples += samples_of(counts);
      for (RankLoad& rank : profile.ranks) {
        if (rank.name == context.groups[group].name) rank.samples = samples_of(counts);
      }
    }
  }

  void finish_order(const Context& context, DataUse& data) const REQUIRES(mutex_) {
    Sequence all;
    uint64_t ascending = 0;  // samples of threads that read in ascending order
    Orders orders;
    for (auto it = seen_.pieces.begin(); it != seen_.pieces.end();) {
      const SequenceKey first = it->first;
      Sequence sequence;
      for (; it != seen_.pieces.end() && it->first.thread == first.thread &&
             it->first.epoch == first.epoch;
           ++it) {
        sequence.append(it->second);
      }
      all.append(sequence);
      // One step down may be that from training to validation.
      if (sequence.steps - sequence.steps_up <= 1) ascending += sequence.order.count;
      if (first.epoch < 0) continue;
      const auto group =
          static_cast<uint32_t>(context.group(context.trace.threads()[first.thread].process));
      SequenceHash& sum = orders[{group, first.epoch}];
      sum.hash += SequenceHash::mix(sequence.order.hash);
      sum.count += sequence.order.count;
    }
    data.samples_indexed = all.order.count;
    data.index_end = all.index_end;
    if (all.steps < kSamplesMin) return;
    constexpr double kMost = 0.9;
    const auto share = [](uint64_t part, uint64_t whole) {
      return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
    };
    const auto [compared, repeated] = count_repeated(orders);
    data.index_ascending = share(all.steps_up, all.steps);
    data.order_repeated = share(repeated, compared);
    const bool goes_up = data.index_ascending >= kMost;
    if (goes_up && share(ascending, all.order.count) >= kMost) {
      data.order = ReadOrder::kSequential;
    } else if (compared > 0 && data.order_repeated > 0.5) {
      data.order = ReadOrder::kFixed;
    } else {
      data.order = goes_up ? ReadOrder::kFilesShuffled : ReadOrder::kShuffled;
    }
  }

  void finish_streams(DataUse& data) const REQUIRES(mutex_) {
    if (seen_.streams.empty()) return;
    for (const auto& [key, start] : seen_.streams) {
      data.stream_first_bytes += start.bytes;
      data.stream_first_ns += start.time_ns;
    }
    data.streams = seen_.streams.size();
    data.stream_first_bytes /= data.streams;
    data.stream_first_ns /= data.streams;
  }

  // An epoch may have several passes over loaders, such as evaluations. Without marked setups, each
  // epoch counts as one.
  void finish_starts(Loading& loading) const REQUIRES(mutex_) {
    std::map<uint32_t, std::pair<uint64_t, uint64_t>> first;  // by group: begin and time
    const auto add = [&](uint32_t group, const EpochStart& start) {
      if (start.wait_begin_ns == kMissing) return;  // nothing was read
      const uint64_t time_ns = start.setup_ns + start.wait_ns;
      ++loading.epoch_starts;
      loading.epoch_starts_ns += time_ns;
      const std::pair value(start.wait_begin_ns, time_ns);
      auto& known = first.try_emplace(group, value).first->second;
      known = std::min(known, value);
    };
    std::set<uint32_t> has_setups;
    for (const auto& [key, start] : seen_.setups) {
      has_setups.insert(key.first);
      add(key.first, start);
    }
    for (const auto& [key, start] : seen_.starts) {
      if (has_setups.count(key.first) == 0) add(key.first, start);
    }
    for (const auto& [group, value] : first) loading.epoch_starts_first_ns += value.second;
  }

  // Counts threads that exist at the same time: each epoch may start new worker processes.
  uint64_t most_threads(const Context& context) const REQUIRES(mutex_) {
    std::map<GroupIndex, std::vector<std::pair<uint64_t, int>>> changes;
    for (const auto& [thread, time] : seen_.loaders) {
      auto& of = changes[context.group(context.trace.threads()[thread].process)];
      of.emplace_back(time.begin_ns, +1);
      of.emplace_back(time.end_ns, -1);
    }
    int most = 0;
    for (auto& [group, of] : changes) {
      std::sort(of.begin(), of.end());
      int alive = 0;
      for (const auto& [time_ns, change] : of) most = std::max(most, alive += change);
    }
    return static_cast<uint64_t>(most);
  }

  Result<uint32_t> read_index(ByteReader& saved, size_t limit) const;

  const Context& context_;
  mutable Mutex mutex_;
  Seen seen_ GUARDED_BY(mutex_);
};

void SamplesMetric::save(std::vector<std::byte>& out) const {
  const MutexLock lock(mutex_);
  trace::BytesOut bytes;
  bytes.put_varint(seen_.pieces.size());
  for (const auto& [key, piece] : seen_.pieces) {
    bytes.put_varint(key.thread);
    bytes.put_signed(key.epoch);
    bytes.put_varint(key.block);
    bytes.put(piece);
  }
  bytes.put_varint(seen_.loaders.size());
  for (const auto& [thread, time] : seen_.loaders) {
    bytes.put_varint(thread);
    bytes.put(time);
  }
  bytes.put_varint(seen_.starts.size());
  for (const auto& [key, start] : seen_.starts) {
    bytes.put_varint(key.first);
    bytes.put_signed(key.second);
    bytes.put(start);
  }
  bytes.put_varint(seen_.setups.size());
  for (const auto& [key, start] : seen_.setups) {
    bytes.put_varint(key.first);
    bytes.put_varint(key.second);
    bytes.put(start);
  }
  bytes.put_varint(seen_.samples.size());
  for (const auto& [group, counts] : seen_.samples) {
    bytes.put_varint(group);
    bytes.put(counts);
  }
  bytes.put_varint(seen_.streams.size());
  for (const auto& [key, start] : seen_.streams) {
    bytes.put_varint(key.first);
    bytes.put_signed(key.second);
    bytes.put(start);
  }
  out.insert(out.end(), bytes.view().begin(), bytes.view().end());
}

Result<uint32_t> SamplesMetric::read_index(ByteReader& saved, size_t limit) const {
  ASSIGN_OR_RETURN(const uint64_t value, saved.read_varint());
  if (value < limit) return static_cast<uint32_t>(value);
  return fail(Errc::kCorrupt, "saved samples have the index {}, but the limit in this trace is {}",
              value, limit);
}

Status SamplesMetric::merge(ByteReader& saved) {
  const MutexLock lock(mutex_);
  Seen of;
  ASSIGN_OR_RETURN(const uint64_t piece_count, saved.read_varint());
  for (uint64_t i = 0; i < piece_count; ++i) {
    SequenceKey key;
    ASSIGN_OR_RETURN(key.thread, read_index(saved, context_.trace.threads().size()));
    ASSIGN_OR_RETURN(const uint64_t epoch, saved.read_varint());
    key.epoch = trace::unzigzag(epoch);
    ASSIGN_OR_RETURN(key.block, saved.read_varint());
    ASSIGN_OR_RETURN(of.pieces[key], saved.read<Sequence>());
  }
  ASSIGN_OR_RETURN(const uint64_t loader_count, saved.read_varint());
  for (uint64_t i = 0; i < loader_count; ++i) {
    ASSIGN_OR_RETURN(const uint32_t thread, read_index(saved, context_.trace.threads().size()));
    ASSIGN_OR_RETURN(of.loaders[thread], saved.read<Interval>());
  }
  ASSIGN_OR_RETURN(const uint64_t start_count, saved.read_varint());
  for (uint64_t i = 0; i < start_count; ++i) {
    ASSIGN_OR_RETURN(const uint32_t group, read_index(saved, context_.groups.size()));
    ASSIGN_OR_RETURN(const uint64_t epoch, saved.read_varint());
    ASSIGN_OR_RETURN((of.starts[{group, trace::unzigzag(epoch)}]), saved.read<EpochStart>());
  }
  ASSIGN_OR_RETURN(const uint64_t setup_count, saved.read_varint());
  for (uint64_t i = 0; i < setup_count; ++i) {
    ASSIGN_OR_RETURN(const uint32_t group, read_index(saved, context_.groups.size()));
    ASSIGN_OR_RETURN(const uint64_t begin_ns, saved.read_varint());
    ASSIGN_OR_RETURN((of.setups[{group, begin_ns}]), saved.read<EpochStart>());
  }
  ASSIGN_OR_RETURN(const uint64_t group_count, saved.read_varint());
  for (uint64_t i = 0; i < group_count; ++i) {
    ASSIGN_OR_RETURN(const uint32_t group, read_index(saved, context_.groups.size()));
    ASSIGN_OR_RETURN(of.samples[group], saved.read<SampleCounts>());
  }
  ASSIGN_OR_RETURN(const uint64_t stream_count, saved.read_varint());
  for (uint64_t i = 0; i < stream_count; ++i) {
    ASSIGN_OR_RETURN(const uint32_t thread, read_index(saved, context_.trace.threads().size()));
    ASSIGN_OR_RETURN(const uint64_t epoch, saved.read_varint());
    ASSIGN_OR_RETURN((of.streams[{thread, trace::unzigzag(epoch)}]), saved.read<StreamStart>());
  }
  seen_.add(of);
  return {};
}

}  // namespace

std::unique_ptr<Metric> make_samples_metric(const Context& context, const Limits& /*limits*/) {
  return std::make_unique<SamplesMetric>(context);
}

}  // namespace millrace::analyze
