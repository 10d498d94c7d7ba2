// profile_fields: the names of the members of a Profile, defined once for all writers and readers.
//
// visit_fields(visit, value) calls visit(name, member) for each member of a struct in declaration
// order, and visit.moment(name, member) for points in time that may be missing (~0). Writer and
// reader are both visitors, so neither can know a name that the other does not.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include "analyze/profile/profile.h"

namespace millrace::analyze {

inline constexpr std::string_view kProfileFormat = "millrace-report";
inline constexpr uint64_t kProfileVersion = 1;

inline constexpr std::array<std::string_view, 14> kCallKindNames = {
    "other", "open",     "close",     "read", "write",     "transfer", "seek",
    "sync",  "metadata", "directory", "map",  "duplicate", "process",  "region"};

// The names of enum values in JSON, by value.
constexpr const auto& names_of(Layer) { return kLayerNames; }
constexpr const auto& names_of(Role) { return kRoleNames; }
constexpr const auto& names_of(FileKind) { return kFileKindNames; }
constexpr const auto& names_of(ReadOrder) { return kReadOrderNames; }
constexpr const auto& names_of(WaitBasis) { return kWaitBasisNames; }
constexpr const auto& names_of(wire::CallKind) { return kCallKindNames; }

// T is Struct or const Struct.
template <typename T, typename Struct>
concept Of = std::same_as<std::remove_const_t<T>, Struct>;

// Whether values of a struct are many and small, so that each is written on one line.
template <typename T>
inline constexpr bool kOnOneLine = Of<T, Distribution> || Of<T, CommonValue> || Of<T, Stretch> ||
                                   Of<T, EpochAction> || Of<T, StepStats> || Of<T, TreeNode> ||
                                   Of<T, Checkpoint> || Of<T, AccessCounts> || Of<T, IoTotals>;

void visit_fields(auto& visit, Of<Distribution> auto& of) {
  visit("count", of.count);
  visit("sum", of.sum);
  visit("min", of.min);
  visit("p25", of.p25);
  visit("mean", of.mean);
  visit("median", of.median);
  visit("p75", of.p75);
  visit("p95", of.p95);
  visit("p99", of.p99);
  visit("max", of.max);
}

void visit_fields(auto& visit, Of<Job> auto& of) {
  visit("traces", of.traces);
  visit("command", of.command);
  visit("framework", of.framework);
  visit("hosts", of.hosts);
  visit("ranks", of.ranks);
  visit("failed_ranks", of.failed_ranks);
  visit("exit_code", of.exit_code);
  visit("processes", of.processes);
  visit("threads", of.threads);
  visit("compute_threads", of.compute_threads);
  visit("io_threads", of.io_threads);
  visit("begin_wall_ns", of.begin_wall_ns);
  visit("begin_ns", of.begin_ns);
  visit("wall_ns", of.wall_ns);
  visit("events", of.events);
  visit("lost_events", of.lost_events);
  visit("files", of.files);
  visit("dataset_files", of.dataset_files);
  visit("dataset_bytes", of.dataset_bytes);
  visit("dataset_bytes_read", of.dataset_bytes_read);
  visit("dataset_unique_bytes", of.dataset_unique_bytes);
  visit("bytes_read", of.bytes_read);
  visit("bytes_written", of.bytes_written);
  visit("amplification", of.amplification);
  visit("epochs", of.epochs);
  visit("steps", of.steps);
  visit("direct_io", of.direct_io);
  visit("mapped_io", of.mapped_io);
  visit("uring_io", of.uring_io);
}

void visit_fields(auto& visit, Of<TimeSplit> auto& of) {
  visit("name", of.name);
  visit("wall_ns", of.wall_ns);
  visit("compute_ns", of.compute_ns);
  visit("io_ns", of.io_ns);
  visit("fetch_ns", of.fetch_ns);
  visit("decode_ns", of.decode_ns);
  visit("checkpoint_ns", of.checkpoint_ns);
  visit("communicate_ns", of.communicate_ns);
  visit("wait_ns", of.wait_ns);
  visit("io_hidden_ns", of.io_hidden_ns);
  visit("io_unhidden_ns", of.io_unhidden_ns);
  visit("fetch_unhidden_ns", of.fetch_unhidden_ns);
  visit("compute_unhidden_ns", of.compute_unhidden_ns);
  visit("idle_ns", of.idle_ns);
  visit("step_ns", of.step_ns);
  visit("wait_share", of.wait_share);
}

void visit_fields(auto& visit, Of<SplitOfTime> auto& of) {
  visit("basis", of.basis);
  visit("job", of.job);
  visit("mean", of.mean);
  visit("nodes", of.nodes);
  visit("ranks", of.ranks);
}

void visit_fields(auto& visit, Of<FunctionStats> auto& of) {
  visit("name", of.name);
  visit("layer", of.layer);
  visit("kind", of.kind);
  visit("role", of.role);
  visit("count", of.count);
  visit("errors", of.errors);
  visit("time_ns", of.time_ns);
  visit("bytes", of.bytes);
  visit("size_bytes", of.size_bytes);
  visit("latency_ns", of.latency_ns);
  visit("size_bins", of.size_bins);
  visit("latency_bins", of.latency_bins);
}

void visit_fields(auto& visit, Of<LayerStats> auto& of) {
  visit("layer", of.layer);
  visit("count", of.count);
  visit("time_ns", of.time_ns);
  visit("busy_ns", of.busy_ns);
  visit("hidden_ns", of.hidden_ns);
  visit("bytes_read", of.bytes_read);
  visit("bytes_written", of.bytes_written);
  visit("metadata_count", of.metadata_count);
  visit("metadata_ns", of.metadata_ns);
}

void visit_fields(auto& visit, Of<IoTotals> auto& of) {
  visit("opens", of.opens);
  visit("reads", of.reads);
  visit("writes", of.writes);
  visit("seeks", of.seeks);
  visit("syncs", of.syncs);
  visit("metadata", of.metadata);
  visit("maps", of.maps);
  visit("errors", of.errors);
  visit("bytes_read", of.bytes_read);
  visit("bytes_written", of.bytes_written);
  visit("read_ns", of.read_ns);
  visit("write_ns", of.write_ns);
  visit("metadata_ns", of.metadata_ns);
  visit.moment("first_ns", of.first_ns);
  visit("last_ns", of.last_ns);
}

void visit_fields(auto& visit, Of<AccessCounts> auto& of) {
  visit("count", of.count);
  visit("transitions", of.transitions);
  visit("consecutive", of.consecutive);
  visit("sequential", of.sequential);
  visit("unaligned_offset", of.unaligned_offset);
  visit("unaligned_size", of.unaligned_size);
  visit("small", of.small);
  visit("at_end", of.at_end);
  visit("lines", of.lines);
}

void visit_fields(auto& visit, Of<FileStats> auto& of) {
  visit("path", of.path);
  visit("kind", of.kind);
  visit("io", of.io);
  visit("read", of.read);
  visit("write", of.write);
  visit("size_bytes", of.size_bytes);
  visit("size_known", of.size_known);
  visit("unique_bytes_read", of.unique_bytes_read);
  visit("shared_bytes_read", of.shared_bytes_read);
  visit("ranks", of.ranks);
  visit("readers", of.readers);
  visit("reader_ranks", of.reader_ranks);
  visit("epochs", of.epochs);
  visit("direct_opens", of.direct_opens);
  visit("unaligned_direct", of.unaligned_direct);
}

void visit_fields(auto& visit, Of<GroupStats> auto& of) {
  visit("name", of.name);
  visit("io", of.io);
  visit("files", of.files);
  visit("size_bytes", of.size_bytes);
}

void visit_fields(auto& visit, Of<CommonValue> auto& of) {
  visit("value", of.value);
  visit("count", of.count);
}

void visit_fields(auto& visit, Of<AccessPattern> auto& of) {
  visit("counts", of.counts);
  visit("sizes", of.sizes);
  visit("common_sizes", of.common_sizes);
  visit("common_strides", of.common_strides);
}

void visit_fields(auto& visit, Of<DataUse> auto& of) {
  visit("files_read", of.files_read);
  visit("files_whole", of.files_whole);
  visit("files_opened_unread", of.files_opened_unread);
  visit("files_small", of.files_small);
  visit("files_one_rank", of.files_one_rank);
  visit("files_shared", of.files_shared);
  visit("files_every_epoch", of.files_every_epoch);
  visit("files_once", of.files_once);
  visit("shared_bytes", of.shared_bytes);
  visit("order", of.order);
  visit("order_repeated", of.order_repeated);
  visit("ascending", of.ascending);
  visit("ascending_within", of.ascending_within);
}

void visit_fields(auto& visit, Of<Timeline> auto& of) {
  visit("bin_ns", of.bin_ns);
  visit("bytes_read", of.bytes_read);
  visit("bytes_written", of.bytes_written);
  visit("operations", of.operations);
  visit("metadata", of.metadata);
  visit("busy_ns", of.busy_ns);
}

void visit_fields(auto& visit, Of<RankActivity> auto& of) {
  visit("name", of.name);
  visit("io", of.io);
  visit("compute", of.compute);
  visit("wait", of.wait);
}

void visit_fields(auto& visit, Of<HeatMap> auto& of) {
  visit("bin_ns", of.bin_ns);
  visit("ranks", of.ranks);
}

void visit_fields(auto& visit, Of<Stretch> auto& of) {
  visit("role", of.role);
  visit("name", of.name);
  visit("epoch", of.epoch);
  visit("rank", of.rank);
  visit("begin_ns", of.begin_ns);
  visit("end_ns", of.end_ns);
}

void visit_fields(auto& visit, Of<EpochAction> auto& of) {
  visit("name", of.name);
  visit("role", of.role);
  visit("count", of.count);
  visit("mean_ns", of.mean_ns);
  visit("min_ns", of.min_ns);
  visit("max_ns", of.max_ns);
}

void visit_fields(auto& visit, Of<EpochStats> auto& of) {
  visit("epoch", of.epoch);
  visit("begin_ns", of.begin_ns);
  visit("end_ns", of.end_ns);
  visit("steps", of.steps);
  visit("time", of.time);
  visit("io", of.io);
  visit("files", of.files);
  visit("actions", of.actions);
}

void visit_fields(auto& visit, Of<StepStats> auto& of) {
  visit("epoch", of.epoch);
  visit("step", of.step);
  visit("rank", of.rank);
  visit("begin_ns", of.begin_ns);
  visit("duration_ns", of.duration_ns);
  visit("wait_ns", of.wait_ns);
}

void visit_fields(auto& visit, Of<Steps> auto& of) {
  visit("duration_ns", of.duration_ns);
  visit("wait_ns", of.wait_ns);
  visit("slowest", of.slowest);
  visit("all", of.all);
}

void visit_fields(auto& visit, Of<TreeNode> auto& of) {
  visit("name", of.name);
  visit("layer", of.layer);
  visit("parent", of.parent);
  visit("count", of.count);
  visit("total_ns", of.total_ns);
  visit("self_ns", of.self_ns);
  visit("bytes", of.bytes);
}

void visit_fields(auto& visit, Of<Checkpoint> auto& of) {
  visit("epoch", of.epoch);
  visit("begin_ns", of.begin_ns);
  visit("end_ns", of.end_ns);
  visit("ranks_writing", of.ranks_writing);
  visit("bytes", of.bytes);
  visit("writes", of.writes);
  visit("stalled_ns", of.stalled_ns);
  visit("file", of.file);
}

void visit_fields(auto& visit, Of<RankLoad> auto& of) {
  visit("name", of.name);
  visit("host", of.host);
  visit("io", of.io);
  visit("data_files", of.data_files);
  visit("data_bytes_read", of.data_bytes_read);
  visit("threads_reading", of.threads_reading);
  visit("reads_in_flight", of.reads_in_flight);
}

void visit_fields(auto& visit, Of<Profile> auto& of) {
  visit("job", of.job);
  visit("time", of.time);
  visit("layers", of.layers);
  visit("functions", of.functions);
  visit("reads", of.reads);
  visit("writes", of.writes);
  visit("data_reads", of.data_reads);
  visit("data", of.data);
  visit("files", of.files);
  visit("directories", of.directories);
  visit("extensions", of.extensions);
  visit("kinds", of.kinds);
  visit("hosts", of.hosts);
  visit("ranks", of.ranks);
  visit("timeline", of.timeline);
  visit("heat", of.heat);
  visit("stretches", of.stretches);
  visit("epochs", of.epochs);
  visit("steps", of.steps);
  visit("tree", of.tree);
  visit("checkpoints", of.checkpoints);
  visit("problems", of.problems);
}

}  // namespace millrace::analyze
