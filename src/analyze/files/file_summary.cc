#include "analyze/files/file_summary.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "analyze/files/file_content.h"
#include "analyze/files/file_kinds.h"

namespace millrace::analyze {
namespace {

constexpr uint64_t kSmallFileBytes = 1 << 20;

uint64_t total_ns(const FileTotals& totals) {
  return totals.read_ns + totals.write_ns + totals.metadata_ns;
}

uint64_t unique_bytes(const FileEntry& file) {
  return std::min({file.coverage.unique_bytes(), file.totals.bytes_read,
                   std::max(file.totals.size_bytes, uint64_t{1})});
}

void add_to(GroupStats& group, const IoTotals& io, uint64_t size_bytes) {
  group.io += io;
  ++group.files;
  group.size_bytes += size_bytes;
}

// "0-3,7". Groups are sorted by rank.
std::string ranks_of(const std::vector<Group>& groups, uint64_t bits) {
  std::string text;
  if (groups.size() > 64) return text;
  for (size_t i = 0; i < groups.size(); ++i) {
    const auto is_reader = [&](size_t at) {
      return at < groups.size() && groups[at].rank >= 0 && (bits >> at & 1) != 0;
    };
    if (!is_reader(i)) continue;
    const size_t first = i;
    while (is_reader(i + 1) && groups[i + 1].rank == groups[i].rank + 1) ++i;
    if (!text.empty()) text += ',';
    text += std::to_string(groups[first].rank);
    if (i > first) text += '-' + std::to_string(groups[i].rank);
  }
  return text;
}

}  // namespace

FileSummary::FileSummary(const Context& context, const Limits& limits, Profile& profile)
    : context_(context), limits_(limits), profile_(profile) {
  for (size_t i = 0; i < kFileKindCount; ++i) kinds_[i].name = kFileKindNames[i];
  hosts_.resize(context.hosts.size());
  for (uint32_t i = 0; i < context.groups.size(); ++i) {
    auto& hosts = hosts_by_bit_[std::countr_zero(group_bit(i, context.groups.size()))];
    const uint32_t host = context.groups[i].host;
    if (host < hosts_.size() && !std::count(hosts.begin(), hosts.end(), host)) {
      hosts.push_back(host);
    }
  }
}

void FileSummary::add_to_hosts(const FileTotals& totals) {
  std::vector<uint32_t> hosts;
  for (uint64_t bits = totals.users; bits != 0; bits &= bits - 1) {
    const auto& of_bit = hosts_by_bit_[std::countr_zero(bits)];
    hosts.insert(hosts.end(), of_bit.begin(), of_bit.end());
  }
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  for (const uint32_t host : hosts) {
    ++hosts_[host].files;
    hosts_[host].size_bytes += totals.size_bytes;
  }
}

FileKind FileSummary::kind_of(trace::NameIndex name, const FileTotals& totals) const {
  const std::string_view path = context_.trace.name(name);
  const auto is_this = [&](const Checkpoint& one) { return one.file == path; };
  if (totals.writes > 0 &&
      std::any_of(profile_.checkpoints.begin(), profile_.checkpoints.end(), is_this)) {
    return FileKind::kCheckpoint;
  }
  if (context_.system_file[static_cast<size_t>(name)]) return FileKind::kSystem;
  if (totals.bytes_written > 0 || totals.writes > 0) {
    return is_checkpoint_name(path) ? FileKind::kCheckpoint : FileKind::kOutput;
  }
  // A lock file is opened and read, but empty.
  const bool is_used = totals.bytes_read > 0 || (totals.maps > 0 && totals.size_bytes > 0);
  if (is_used) {
    // A model is loaded before the epochs. What is read during an epoch and never written is a
    // sample, even if its name is that of a model.
    return is_checkpoint_name(path) && totals.epochs == 0 ? FileKind::kCheckpoint : FileKind::kData;
  }
  return FileKind::kOther;
}

void FileSummary::add(trace::NameIndex name, const FileEntry& file) {
  const FileTotals& totals = file.totals;
  const std::string_view path = context_.trace.name(name);
  const FileKind kind = kind_of(name, totals);
  const IoTotals io = totals.io(context_.begin_ns);
  ++profile_.job.files;
  profile_.job.bytes_read += totals.bytes_read;
  profile_.job.bytes_written += totals.bytes_written;
  add_to(kinds_[static_cast<size_t>(kind)], io, totals.size_bytes);
  add_to_hosts(totals);
  profile_.reads.counts += totals.read.counts();
  profile_.writes.counts += totals.write.counts();
  if (kind == FileKind::kSystem) {
    if (total_ns(totals) > 0) note_candidates(name, file);
    return;
  }
  if (kind != FileKind::kData && totals.readers != 0) {
    const auto readers = static_cast<uint64_t>(std::popcount(totals.readers));
    for (uint64_t bits = totals.readers; bits != 0; bits &= bits - 1) {
      other_bytes_by_bit_[std::countr_zero(bits)] += totals.bytes_read / readers;
    }
  }
  // Files of the same directory are mostly adjacent.
  if (const std::string_view directory = directory_of(path);
      last_directory_ == nullptr || directory != last_directory_name_) {
    last_directory_ = &directories_[std::string(directory)];
    last_directory_name_ = directory;
  }
  add_to(*last_directory_, io, totals.size_bytes);
  if (kind == FileKind::kOther) {
    if (totals.opens > 0) ++profile_.data.files_opened_unread;
  } else {
    const std::string extension = extension_of(path);
    add_to(extensions_[extension], io, totals.size_bytes);
    if (totals.bytes_read > 0) examples_.try_emplace(extension, path);
  }
  if (kind == FileKind::kData) add_data(file, totals);
  note_candidates(name, file);
}

void FileSummary::add_data(const FileEntry& file, const FileTotals& totals) {
  Job& job = profile_.job;
  DataUse& data = profile_.data;
  const uint64_t unique = unique_bytes(file);
  ++job.dataset_files;
  job.dataset_bytes += totals.size_bytes;
  job.dataset_bytes_read += totals.bytes_read;
  job.dataset_unique_bytes += unique;
  profile_.data_reads.counts += totals.read.counts();
  if (file.read_sizes != nullptr) {
    file.read_sizes->add_to(profile_.data_reads.sizes, data_read_sizes_);
  }
  if (totals.bytes_read == 0) return;
  ++data.files_read;
  if (totals.size_known != 0 && unique >= totals.size_bytes) ++data.files_whole;
  if (totals.size_bytes < kSmallFileBytes) ++data.files_small;
  const uint32_t readers = count_groups(totals.readers, context_.groups.size());
  ++(readers > 1 ? data.files_shared : data.files_one_rank);
  data.shared_bytes += std::min(unique, file.coverage.shared_bytes());
  const auto epochs = static_cast<uint64_t>(std::popcount(totals.epochs));
  if (job.epochs > 1 && epochs >= std::min<uint64_t>(job.epochs, 64)) ++data.files_every_epoch;
  if (totals.opens <= 1) ++data.files_once;
  for (uint64_t bits = totals.readers; bits != 0; bits &= bits - 1) {
    ++data_files_by_bit_[std::countr_zero(bits)];
  }
  for (uint64_t bits = totals.epochs; bits != 0; bits &= bits - 1) {
    ++files_by_epoch_bit_[std::countr_zero(bits)];
  }
}

// Keeps the best candidates in a heap with the worst of them on top.
void FileSummary::keep(std::vector<Candidate>& best, const Candidate& candidate, size_t limit) {
  const auto is_better = [](const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score > b.score : a.name < b.name;
  };
  if (candidate.score == 0 || limit == 0) return;
  if (best.size() == limit) {
    if (!is_better(candidate, best.front())) return;
    std::pop_heap(best.begin(), best.end(), is_better);
    best.pop_back();
  }
  best.push_back(candidate);
  std::push_heap(best.begin(), best.end(), is_better);
}

void FileSummary::note_candidates(trace::NameIndex name, const FileEntry& file) {
  const FileTotals& totals = file.totals;
  const size_t half = std::max<size_t>(1, limits_.files / 2);
  const size_t quarter = std::max<size_t>(1, limits_.files / 4);
  keep(by_time_, {total_ns(totals), name, &file}, half);
  keep(by_bytes_, {totals.bytes_read + totals.bytes_written, name, &file}, quarter);
  keep(by_opens_, {totals.opens, name, &file}, quarter);
}

FileStats FileSummary::stats_of(trace::NameIndex name, const FileEntry& file) const {
  const FileTotals& totals = file.totals;
  FileStats stats;
  stats.path = context_.trace.name(name);
  stats.kind = kind_of(name, totals);
  stats.io = totals.io(context_.begin_ns);
  stats.read = totals.read.counts();
  stats.write = totals.write.counts();
  stats.size_bytes = totals.size_bytes;
  stats.size_known = totals.size_known != 0;
  stats.unique_bytes_read = totals.bytes_read == 0 ? 0 : unique_bytes(file);
  stats.shared_bytes_read = std::min(stats.unique_bytes_read, file.coverage.shared_bytes());
  stats.ranks = count_groups(totals.users, context_.groups.size());
  stats.readers = count_groups(totals.readers, context_.groups.size());
  stats.reader_ranks = ranks_of(context_.groups, totals.readers);
  stats.epochs = static_cast<uint32_t>(std::popcount(totals.epochs));
  stats.direct_opens = totals.direct_opens;
  // If only some opens were direct, the trace does not show which transfers were.
  if (totals.direct_opens > 0 && totals.direct_opens == totals.opens) {
    stats.unaligned_direct = totals.unaligned_sector;
  }
  return stats;
}

void FileSummary::choose_files() {
  std::unordered_set<uint32_t> chosen;
  for (const std::vector<Candidate>* best : {&by_time_, &by_bytes_, &by_opens_}) {
    for (const Candidate& candidate : *best) {
      if (!chosen.insert(static_cast<uint32_t>(candidate.name)).second) continue;
      profile_.files.push_back(stats_of(candidate.name, *candidate.file));
    }
  }
  const auto time_of = [](const FileStats& file) {
    return file.io.read_ns + file.io.write_ns + file.io.metadata_ns;
  };
  std::sort(profile_.files.begin(), profile_.files.end(),
            [&](const FileStats& a, const FileStats& b) {
              return time_of(a) != time_of(b) ? time_of(a) > time_of(b) : a.path < b.path;
            });
}

std::vector<GroupStats> FileSummary::sorted(Groups& groups) const {
  std::vector<GroupStats> list;
  for (auto& [name, group] : groups) {
    group.name = name;
    list.push_back(group);
  }
  const auto weight = [](const GroupStats& group) {
    return group.io.read_ns + group.io.write_ns + group.io.metadata_ns;
  };
  std::sort(list.begin(), list.end(), [&](const GroupStats& a, const GroupStats& b) {
    return weight(a) != weight(b) ? weight(a) > weight(b) : a.name < b.name;
  });
  if (list.size() > limits_.groups) list.resize(limits_.groups);
  return list;
}

void FileSummary::finish() {
  Job& job = profile_.job;
  choose_files();
  profile_.data_reads.common_sizes = most_common(std::move(data_read_sizes_), kCommonShown);
  profile_.directories = sorted(directories_);
  profile_.extensions = sorted(extensions_);
  examine_content();
  for (const GroupStats& kind : kinds_) {
    if (kind.files > 0) profile_.kinds.push_back(kind);
  }
  if (job.dataset_bytes > 0) {
    const auto passes = static_cast<double>(std::max<uint64_t>(1, job.epochs));
    job.amplification = static_cast<double>(job.dataset_bytes_read) / passes /
                        static_cast<double>(job.dataset_bytes);
  }
  for (EpochStats& epoch : profile_.epochs) {
    if (epoch.epoch >= 0) epoch.files = files_by_epoch_bit_[epoch.epoch % 64];
  }
}

// Examines files of the few extensions that most data has.
void FileSummary::examine_content() {
  constexpr size_t kExaminedMax = 16;
  std::vector<GroupStats>& groups = profile_.extensions;
  for (size_t i = 0; i < std::min(groups.size(), kExaminedMax); ++i) {
    const auto example = examples_.find(groups[i].name);
    if (example != examples_.end()) groups[i].content = content_of_file(example->second);
  }
}

uint64_t FileSummary::data_files_of(uint32_t group) const {
  const uint64_t bit = group_bit(group, context_.groups.size());
  return data_files_by_bit_[std::countr_zero(bit)];
}

uint64_t FileSummary::other_bytes_read_of(uint32_t group) const {
  const size_t count = context_.groups.size();
  const uint64_t bit = group_bit(group, count);
  uint64_t sharing = 0;
  for (uint32_t other = 0; other < count; ++other)
    sharing += group_bit(other, count) == bit ? 1 : 0;
  return other_bytes_by_bit_[std::countr_zero(bit)] / sharing;
}

}  // namespace millrace::analyze
