// FileSummary: summarizes all files of a job for the profile.
//
// Files are added one by one and not kept. The lists contain the most notable files, the sums all
// of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyze/context.h"
#include "analyze/files/file_table.h"
#include "analyze/profile/profile.h"
#include "analyze/scan.h"

namespace millrace::analyze {

inline constexpr size_t kCommonShown = 4;  // common sizes and strides in a profile

class FileSummary {
 public:
  // Writes into `profile`, which must already have its checkpoints and epochs.
  FileSummary(const Context& context, const Limits& limits, Profile& profile);

  void add(trace::NameIndex name, const FileEntry& file);
  void finish();

  // The number of data files that a group read. An estimate above 64 groups.
  uint64_t data_files_of(uint32_t group) const;

  // What a group read from files that are neither data nor of the system, for example its
  // checkpoints. Each reader of such a file counts as having read an equal part.
  uint64_t other_bytes_read_of(uint32_t group) const;

  // The number and total size of the files that a host read or wrote. An estimate above 64 groups.
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
  void examine_content();

  const Context& context_;
  const Limits& limits_;
  Profile& profile_;
  std::vector<Candidate> by_time_;
  std::vector<Candidate> by_bytes_;
  std::vector<Candidate> by_opens_;
  Groups directories_;
  GroupStats* last_directory_ = nullptr;  // pointers into the map stay valid
  std::string_view last_directory_name_;
  Groups extensions_;
  std::unordered_map<std::string, std::string> examples_;  // by extension: a file that was read
  GroupStats kinds_[kFileKindCount];
  std::vector<GroupStats> hosts_;
  std::vector<uint32_t> hosts_by_bit_[64];  // hosts of the groups that share a bit; see group_bit()
  std::vector<CommonValue> data_read_sizes_;
  uint64_t data_files_by_bit_[64] = {};
  uint64_t other_bytes_by_bit_[64] = {};
  uint64_t files_by_epoch_bit_[64] = {};
};

}  // namespace millrace::analyze
