// PfwImport: reads lines of DFTracer files, of either generation, into a packed trace.
//
// The older generation writes ph as "X" and "M" after a `[` line, the newer one as 1 and 4. Both
// refer to files and hosts by hashes that other lines define. Such a line may come later, or in the
// file of another process, so events with an unknown file are held until the end.
//
// Used by import_pfw() and by the fuzz target, which has no files.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "interop/import_columns.h"
#include "interop/pfw/line.h"
#include "interop/pfw/vocabulary.h"
#include "trace/trace.h"

namespace millrace::interop {

class PfwImport {
 public:
  // `origin_wall_ns` is time zero of the trace. Earlier events are dropped; see earliest_wall_ns().
  PfwImport(trace::TraceWriter& writer, int64_t origin_wall_ns);

  // Call before the lines of each file. `name` is for warnings.
  void begin_file(std::string name);

  // Takes whole lines. The last line of a file may lack its newline. `at_end`: nothing follows.
  Status take(std::string_view lines, bool at_end);

  // Call after the last file: stores the held events. REQUIRED before the writer's finish().
  Status finish();

  uint64_t event_count() const { return event_count_; }
  uint64_t process_count() const { return columns_.process_count(); }
  int64_t earliest_wall_ns() const { return earliest_wall_ns_; }  // of all events seen
  std::vector<std::string> warnings() const;

 private:
  // An event being read. Files are represented by hashes until they are resolved.
  struct Draft {
    Event event;
    uint64_t wall_ns = 0;
    uint64_t duration_ns = 0;
    uint64_t nanoseconds = 0;  // the argument "ns" of our exports
    uint64_t file_hash = 0;    // 0: none
    uint64_t other_hash = 0;
    uint64_t item_size = 0;  // of fread and fwrite; 0: not given
    size_t process = 0;
    uint32_t tid = 0;
    std::vector<trace::RegionTag> tags;
  };
  struct ProcessHashes {
    uint64_t executable = 0, command = 0, directory = 0;
  };
  using ProcessKey = std::tuple<uint64_t, uint64_t, uint64_t>;  // host hash, pid, our number

  Status take_line(std::string_view line, bool may_be_torn);
  void complain(std::string_view what);
  void take_metadata(const PfwLine& line);
  void take_process_metadata(const PfwLine& line);
  void take_program(const PfwLine& line, size_t process);
  Status take_event(const PfwLine& line);
  bool read_times(const PfwLine& line);
  void read_call(const PfwLine& line);
  void read_argument(const PfwLine& line, const PfwArgumentValue& argument);
  void read_number(PfwArgument argument, const PfwValue& value);
  void read_tag(std::string_view key, const PfwValue& value);
  void read_tag_list(std::string_view json);
  void settle_sizes();
  Status place_event();
  Status store(Draft& draft);

  uint64_t hash_key(const PfwValue& value);
  const trace::NameIndex* find_name(uint64_t hash) const;
  size_t process_of(const PfwLine& line);
  uint32_t session_of(uint64_t host_hash);
  void complete(size_t index, trace::Process& process);

  trace::TraceWriter& writer_;
  const int64_t origin_wall_ns_;
  int64_t earliest_wall_ns_ = std::numeric_limits<int64_t>::max();
  ImportColumns columns_;

  std::string file_;
  uint64_t line_number_ = 0;
  uint64_t ns_per_unit_ = 1000;  // unit of the times in the file
  uint64_t bad_lines_ = 0;       // in the current file
  std::string first_bad_;
  std::vector<std::string> warnings_;

  PfwLine line_;
  Draft draft_;
  std::string storage_, key_storage_, line_storage_;
  std::unordered_map<uint64_t, trace::NameIndex> names_;  // by hash
  std::unordered_map<uint64_t, std::string> hosts_;
  std::map<uint64_t, uint32_t> sessions_;  // by host hash
  std::map<ProcessKey, size_t> processes_;
  ProcessKey last_key_{};
  size_t last_process_ = ~size_t{0};
  std::vector<ProcessHashes> process_hashes_;
  std::vector<uint64_t> process_hosts_;
  std::vector<Draft> held_drafts_;
  uint64_t unresolved_ = 0;
  uint64_t event_count_ = 0;
};

}  // namespace millrace::interop
