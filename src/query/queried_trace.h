// QueriedTrace: the trace behind the tables, and what is computed from it on first use.
//
// What most queries need is cheap and available at once. The context (a pass over the blocks with
// regions) and the files (a pass over all blocks, on all CPUs) are computed when a query needs
// them, and kept. Blocks that cannot be read are reported in problems(), once each.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/context.h"
#include "analyze/profile/profile.h"
#include "base/result.h"
#include "query/query.h"
#include "trace/trace.h"

namespace millrace::query {

class QueriedTrace {
 public:
  QueriedTrace(const trace::Trace& trace, Options options);

  const trace::Trace& trace() const { return trace_; }
  uint64_t begin_ns() const { return begin_ns_; }  // of the first event of the job
  bool stopped() const { return options_.stop != nullptr && options_.stop->load(); }

  const analyze::Context& context();
  // Fails if the user interrupted it.
  Result<const std::vector<analyze::FileStats>*> files();

  // Null if the block cannot be read.
  const trace::EventColumns* read_block(size_t index, trace::EventColumns& columns);
  // The same for callers that read blocks again: the last few are kept.
  std::shared_ptr<const trace::EventColumns> read_kept_block(size_t index);

  // Null or empty if there is no such process or host.
  const trace::Process* process_of(trace::ThreadIndex thread) const;
  std::string_view host_of(const trace::Process& process) const;
  // The rank of the process, or of the rank whose worker it is, as in the report. -1: none.
  int32_t rank_of(trace::ProcessIndex process);

  const std::vector<std::string>& problems() const { return problems_; }
  Counters& counters() { return counters_; }

 private:
  struct Kept {
    size_t index = 0;
    std::shared_ptr<trace::EventColumns> columns;  // shared with the scans that are reading it
  };

  void note_problem(size_t block, const std::string& sentence);
  Status read_files();

  const trace::Trace& trace_;
  Options options_;
  uint64_t begin_ns_ = 0;
  std::optional<analyze::Context> context_;
  std::optional<std::vector<int32_t>> ranks_;  // by process
  std::optional<std::vector<analyze::FileStats>> files_;
  std::list<Kept> kept_;  // most recently used first
  std::set<size_t> bad_blocks_;
  std::vector<std::string> problems_;
  Counters counters_;
};

}  // namespace millrace::query
