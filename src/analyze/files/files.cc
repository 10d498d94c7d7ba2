// The files metric: the I/O on each file and each kind of file, and the access patterns.
#include <algorithm>
#include <set>

#include "analyze/files/file_gather.h"
#include "analyze/files/file_summary.h"
#include "analyze/files/file_table.h"
#include "analyze/scan.h"
#include "base/concurrency/mutex.h"
#include "trace/pack/bytes_out.h"

namespace millrace::analyze {
namespace {

// The I/O of one group.
struct GroupTotals {
  FileTotals all;                // only for its sums; sizes and access counts have no meaning here
  uint64_t data_bytes_read = 0;  // from all files but those of the system
  std::set<uint32_t> reading_threads;
};

void save_counts(const CommonCounts& counts, trace::BytesOut& out) {
  out.put_varint(counts.values().size());
  for (const auto& [value, count] : counts.values()) {
    out.put_varint(value);
    out.put_varint(count);
  }
}

Status merge_counts(ByteReader& saved, CommonCounts& counts) {
  ASSIGN_OR_RETURN(const uint64_t size, saved.read_varint());
  for (uint64_t i = 0; i < size; ++i) {
    ASSIGN_OR_RETURN(const uint64_t value, saved.read_varint());
    ASSIGN_OR_RETURN(const uint64_t count, saved.read_varint());
    counts.add(value, count);
  }
  return {};
}

void save_pattern(const PatternTotals& pattern, trace::BytesOut& out) {
  out.put(pattern.sizes);
  save_counts(pattern.common_sizes, out);
  save_counts(pattern.common_strides, out);
}

Status merge_pattern(ByteReader& saved, PatternTotals& pattern) {
  ASSIGN_OR_RETURN(const auto sizes, saved.read<LogHistogram>());
  pattern.sizes.merge(sizes);
  RETURN_IF_ERROR(merge_counts(saved, pattern.common_sizes));
  return merge_counts(saved, pattern.common_strides);
}

void fill(const PatternTotals& totals, AccessPattern& pattern) {
  pattern.sizes = totals.sizes;
  pattern.common_sizes = totals.common_sizes.most(kCommonShown);
  pattern.common_strides = totals.common_strides.most(kCommonShown);
}

class FilesMetric : public Metric {
 public:
  FilesMetric(const Context& context, const Limits& limits)
      : limits_(limits), table_(context.trace.names().size()), groups_(context.groups.size()) {}

  void observe(const Block& block) override {
    thread_local FileGatherer gatherer;
    gatherer.gather(block);
    const auto group = static_cast<uint32_t>(block.group);
    table_.add(gatherer.files(), group, group_bit(group, block.context.groups.size()));
    const GroupTotals of = group_totals(block, gatherer.files());
    const MutexLock lock(mutex_);
    reads_.merge(gatherer.reads());
    writes_.merge(gatherer.writes());
    join(of, groups_[group]);
  }

  void save(std::vector<std::byte>& out) const override {
    const MutexLock lock(mutex_);
    trace::BytesOut bytes;
    for (const PatternTotals* pattern : {&reads_, &writes_}) save_pattern(*pattern, bytes);
    for (const GroupTotals& group : groups_) {
      bytes.put(group.all);
      bytes.put(group.data_bytes_read);
      bytes.put_varint(group.reading_threads.size());
      for (const uint32_t thread : group.reading_threads) bytes.put_varint(thread);
    }
    table_.save(bytes.buffer());
    out.insert(out.end(), bytes.view().begin(), bytes.view().end());
  }

  Status merge(ByteReader& saved) override {
    const MutexLock lock(mutex_);
    for (PatternTotals* pattern : {&reads_, &writes_}) {
      RETURN_IF_ERROR(merge_pattern(saved, *pattern));
    }
    for (GroupTotals& group : groups_) {
      GroupTotals other;
      ASSIGN_OR_RETURN(other.all, saved.read<FileTotals>());
      ASSIGN_OR_RETURN(other.data_bytes_read, saved.read<uint64_t>());
      ASSIGN_OR_RETURN(const uint64_t threads, saved.read_varint());
      for (uint64_t i = 0; i < threads; ++i) {
        ASSIGN_OR_RETURN(const uint64_t thread, saved.read_varint());
        other.reading_threads.insert(static_cast<uint32_t>(thread));
      }
      join(other, group);
    }
    return table_.merge(saved);
  }

  void finish(const Context& context, Profile& profile) override {
    const MutexLock lock(mutex_);
    fill(reads_, profile.reads);
    fill(writes_, profile.writes);
    FileSummary summary(context, limits_, profile);
    table_.visit([&](trace::NameIndex name, const FileEntry& file) { summary.add(name, file); });
    summary.finish();
    finish_ranks(context, summary, profile);
  }

 private:
  static GroupTotals group_totals(const Block& block, std::span<const FileUse> uses) {
    GroupTotals of;
    for (const FileUse& use : uses) {
      of.all.merge(use.totals);
      if (!block.context.system_file[static_cast<size_t>(use.file)]) {
        of.data_bytes_read += use.totals.bytes_read;
      }
    }
    auto last = trace::ThreadIndex{~uint32_t{0}};
    const trace::EventColumns& columns = block.columns;
    for (size_t i = 0; i < columns.size_events(); ++i) {
      if (columns.thread[i] == last) continue;
      const CallTraits& traits = traits_of(columns.call[i]);
      if (traits.kind != wire::CallKind::kRead || columns.result[i] <= 0) continue;
      if (block.context.system_file[static_cast<size_t>(columns.file[i])]) continue;
      last = columns.thread[i];
      of.reading_threads.insert(static_cast<uint32_t>(last));
    }
    return of;
  }

  static void join(const GroupTotals& of, GroupTotals& into) {
    into.all.merge(of.all);
    into.data_bytes_read += of.data_bytes_read;
    into.reading_threads.insert(of.reading_threads.begin(), of.reading_threads.end());
  }

  // Runs after the time metric: its unions show how much of a rank's I/O was concurrent.
  void finish_ranks(const Context& context, const FileSummary& summary, Profile& profile) const
      REQUIRES(mutex_) {
    std::vector<IoTotals> hosts(context.hosts.size());
    for (size_t i = 0; i < groups_.size(); ++i) {
      const Group& group = context.groups[i];
      RankLoad load;
      load.name = group.name;
      if (group.host < context.hosts.size()) load.host = context.hosts[group.host];
      load.io = groups_[i].all.io(context.begin_ns);
      if (group.host < hosts.size()) hosts[group.host] += load.io;
      load.data_files = summary.data_files_of(static_cast<uint32_t>(i));
      const uint64_t other_bytes = summary.other_bytes_read_of(static_cast<uint32_t>(i));
      load.data_bytes_read =
          groups_[i].data_bytes_read - std::min(groups_[i].data_bytes_read, other_bytes);
      load.threads_reading = groups_[i].reading_threads.size();
      const auto time =
          std::find_if(profile.time.ranks.begin(), profile.time.ranks.end(),
                       [&](const TimeSplit& split) { return split.name == load.name; });
      if (time != profile.time.ranks.end()) {
        load.wait_ns = time->wait_ns;
        load.compute_ns = time->compute_ns;
      }
      const auto steps = context.epochs.steps(static_cast<uint32_t>(i));
      load.steps = steps.size();
      if (!steps.empty()) load.end_ns = steps.back().end_ns - context.begin_ns;
      if (time != profile.time.ranks.end() && time->io_ns > 0) {
        const IoTotals& io = load.io;
        load.calls_in_flight = static_cast<double>(io.read_ns + io.write_ns + io.metadata_ns) /
                               static_cast<double>(time->io_ns);
      }
      if (group.trains) profile.ranks.push_back(std::move(load));
    }
    for (size_t i = 0; i < hosts.size(); ++i) {
      GroupStats host = summary.files_of_host(i);
      host.name = context.hosts[i];
      host.io = hosts[i];
      profile.hosts.push_back(std::move(host));
    }
  }

  const Limits limits_;
  FileTable table_;
  mutable Mutex mutex_;
  PatternTotals reads_ GUARDED_BY(mutex_);
  PatternTotals writes_ GUARDED_BY(mutex_);
  std::vector<GroupTotals> groups_ GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Metric> make_files_metric(const Context& context, const Limits& limits) {
  return std::make_unique<FilesMetric>(context, limits);
}

}  // namespace millrace::analyze
