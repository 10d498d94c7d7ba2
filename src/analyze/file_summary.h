// FileSummary: from all files of a job to what a profile tells of them.
//
// Takes one file after the other and keeps none: the lists hold the most notable, the rest is in
// the sums.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyze/context.h"
#include "analyze/file_table.h"
#include "analyze/profile.h"
#include "analyze/scan.h"

namespace millrace::analyze {

inline constexpr size_t kCommonShown = 4;  // common sizes and strides in a profile

class FileSummary {
 public:
  // Writes into `profile`, which has its checkpoints and epochs already.
  FileSummary(const Context& context, const Limits& limits, Profile& profile);

  void add(trace::NameIndex name, const FileEntry& file);
  void finish();

  // How many data files a group read; beyond 64 groups an estimate.
  uint64_t data_files_of(uint32_t group) const;

  // The files that a host read or wrote: how many, and their sizes. Beyond 64 groups an estimate.
  const GroupStats& files_of_host(size_t host) const { return hosts_[host]; }

 private:
  struct Candidate {
    uint64_t score = 0;
    trace::NameIndex name{};
    const FileEntry* file = nullptr;
  };
  using Groups = std::unordered_map<std::string, GroupStats>;

  FileKind kind_of(trace::NameIndex name, const FileTotals& totals) const;
  void add_to_hosts(const FileTotals& totals);
  void add_data(const FileEntry& file, const FileTotals& totals);
  void note_candidates(trace::NameIndex name, const FileEntry& file);
  static void keep(std::vector<Candidate>& best, const Candidate& candidate, size_t limit);
  FileStats stats_of(trace::NameIndex name, const FileEntry& file) const;
  void choose_files();
  std::vector<GroupStats> sorted(Groups& groups) const;

  const Context& context_;
  const Limits& limits_;
  Profile& profile_;
  std::vector<Candidate> by_time_;
  std::vector<Candidate> by_bytes_;
  std::vector<Candidate> by_opens_;
  Groups directories_;
  GroupStats* last_directory_ = nullptr;  // entries of the map stay where they are
  std::string_view last_directory_name_;
  Groups extensions_;
  GroupStats kinds_[kFileKindCount];
  std::vector<GroupStats> hosts_;
  std::vector<uint32_t> hosts_by_bit_[64];  // where the groups of a bit are; see group_bit()
  std::vector<CommonValue> data_read_sizes_;
  uint64_t data_files_by_bit_[64] = {};
  uint64_t files_by_epoch_bit_[64] = {};
};

}  // namespace millrace::analyze
