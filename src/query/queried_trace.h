// QueriedTrace: the trace behind the tables, and what is worked out of it on first use.
//
// What most queries need is cheap and there at once; the context (a pass over the blocks with
// regions) and the files (a pass over all blocks, on all CPUs) are made when a query asks for them,
// and kept. Blocks that cannot be read become sentences in problems(), once each.
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
#include "analyze/profile.h"
#include "base/result.h"
#include "query/query.h"
#include "trace/trace.h"

namespace millrace::query {

class QueriedTrace {
 public:
  QueriedTrace(const trace::Trace& trace, Options options);

  const trace::Trace& trace() const { return trace_; }
  uint64_t begin_ns() const { return begin_ns_; }  // of the job's first event
  bool stopped() const { return options_.stop != nullptr && options_.stop->load(); }

  const analyze::Context& context();
  // Fails where the user stopped it.
  Result<const std::vector<analyze::FileStats>*> files();

  // Null where it cannot be read.
  const trace::EventColumns* read_block(size_t index, trace::EventColumns& columns);
  // The same for those who come back to blocks: the last few are kept.
  std::shared_ptr<const trace::EventColumns> read_kept_block(size_t index);

  // Null: no process, or no host, of that number.
  const trace::Process* process_of(trace::ThreadIndex thread) const;
  std::string_view host_of(const trace::Process& process) const;
  // Of the process, or of the rank whose worker it is, as the report groups them; -1: none.
  int32_t rank_of(trace::ProcessIndex process);

  const std::vector<std::string>& problems() const { return problems_; }
  Counters& counters() { return counters_; }

 private:
  struct Kept {
    size_t index = 0;
    std::shared_ptr<trace::EventColumns> columns;  // shared with the scans that stand in it
  };

  void note_problem(size_t block, const std::string& sentence);
  Status read_files();

  const trace::Trace& trace_;
  Options options_;
  uint64_t begin_ns_ = 0;
  std::optional<analyze::Context> context_;
  std::optional<std::vector<int32_t>> ranks_;  // by process
  std::optional<std::vector<analyze::FileStats>> files_;
  std::list<Kept> kept_;  // the last used first
  std::set<size_t> bad_blocks_;
  std::vector<std::string> problems_;
  Counters counters_;
};

}  // namespace millrace::query
