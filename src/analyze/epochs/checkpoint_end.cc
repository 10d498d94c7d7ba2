#include "analyze/epochs/checkpoint_end.h"

#include <fcntl.h>

#include <algorithm>
#include <vector>

#include "analyze/call_traits.h"

namespace millrace::analyze {
namespace {

using trace::EventColumns;
using trace::NameIndex;
using wire::CallKind;

uint64_t end_of(const EventColumns& columns, size_t i) {
  return columns.begin_ns[i] + columns.duration_ns[i];
}

bool writes(wire::Call call) {
  const CallKind kind = traits_of(call).kind;
  return kind == CallKind::kWrite || kind == CallKind::kTransfer;
}

// The file that a call writes to.
NameIndex written_file(const EventColumns& columns, size_t i) {
  return traits_of(columns.call[i]).kind == CallKind::kTransfer ? columns.other_file[i]
                                                                : columns.file[i];
}

// The files of one checkpoint.
class CheckpointFiles {
 public:
  // Finds the files that were written within the region. Events are in the order of their ends.
  CheckpointFiles(const EventColumns& columns, size_t first) : columns_(columns) {
    if (columns.call[first] != wire::Call::kRegion) {
      add(columns.file[first]);
      return;
    }
    for (size_t i = first; i-- > 0;) {
      if (columns.thread[i] != columns.thread[first]) continue;
      if (end_of(columns, i) <= columns.begin_ns[first]) break;
      if (writes(columns.call[i])) add(written_file(columns, i));
    }
    // If nothing was written yet, the state is in a buffer, and the next file is the checkpoint.
    takes_any_ = files_.empty();
  }

  // Whether a call after the region completes a file. A rename gives the file another name. The
  // directory of a new file is synced too.
  bool is_completed_by(size_t i) {
    const CallKind kind = traits_of(columns_.call[i]).kind;
    if (takes_any_ && writes(columns_.call[i])) add(written_file(columns_, i));
    const bool is_ours = has(columns_.file[i]) || has(columns_.other_file[i]);
    if (is_ours && columns_.other_file[i] != NameIndex{}) add(columns_.other_file[i]);
    return is_ours || (kind == CallKind::kSync && !files_.empty());
  }

 private:
  bool has(NameIndex file) const {
    return std::find(files_.begin(), files_.end(), file) != files_.end();
  }
  void add(NameIndex file) {
    if (file != NameIndex{} && !has(file)) files_.push_back(file);
  }

  const EventColumns& columns_;
  std::vector<NameIndex> files_;
  bool takes_any_ = false;
};

// A log stays open or is appended to; a checkpoint is a new file.
bool creates_file(const EventColumns& columns, size_t i) {
  return traits_of(columns.call[i]).opens &&
         wire::level_of(columns.call[i]) == wire::Level::kPosix &&
         (columns.detail[i] & O_ACCMODE) != O_RDONLY && (columns.detail[i] & O_APPEND) == 0 &&
         columns.error[i] == 0;
}

}  // namespace

bool follows_checkpoint(uint64_t time_ns, const Interval& checkpoint) {
  constexpr uint64_t kPauseNs = 100'000'000;
  const uint64_t length_ns = checkpoint.end_ns - checkpoint.begin_ns;
  return time_ns <= checkpoint.end_ns + std::max(kPauseNs, length_ns);
}

uint64_t end_of_checkpoint(const EventColumns& columns, size_t first, const RoleOf& role_of) {
  const uint64_t first_end_ns = end_of(columns, first);
  CheckpointFiles files(columns, first);
  std::vector<Interval> calls;
  uint64_t until_ns = ~uint64_t{0};
  for (size_t i = first + 1; i < columns.size_events(); ++i) {
    if (columns.thread[i] != columns.thread[first]) continue;
    if (columns.call[i] == wire::Call::kRegion) {
      if (!is_activity(role_of(i))) continue;
      until_ns = columns.begin_ns[i];
      break;
    }
    if (traits_of(columns.call[i]).io && columns.begin_ns[i] >= first_end_ns &&
        files.is_completed_by(i)) {
      calls.push_back({columns.begin_ns[i], end_of(columns, i)});
    }
  }
  // A call that lies in the next region was met before that region. After the last checkpoint there
  // is none, and files that are still open are closed when the process ends.
  uint64_t last_ns = first_end_ns;
  for (const Interval& call : calls) {
    if (!follows_checkpoint(call.begin_ns, {columns.begin_ns[first], last_ns})) break;
    if (call.end_ns <= until_ns) last_ns = std::max(last_ns, call.end_ns);
  }
  return last_ns;
}

std::vector<size_t> find_unmarked_checkpoints(
    const EventColumns& columns, trace::ThreadIndex thread, const RoleOf& role_of,
    const std::function<bool(NameIndex file)>& is_checkpoint) {
  std::vector<size_t> found;
  // Backwards: an activity comes before the calls within it.
  uint64_t activity_ns = ~uint64_t{0};  // begin of the next activity
  bool is_same_gap = false;
  for (size_t i = columns.size_events(); i-- > 0;) {
    if (columns.thread[i] != thread || columns.begin_ns[i] >= activity_ns) continue;
    if (columns.call[i] == wire::Call::kRegion) {
      if (!is_activity(role_of(i))) continue;
      activity_ns = columns.begin_ns[i];
      is_same_gap = false;
    } else if (creates_file(columns, i) && is_checkpoint(columns.file[i])) {
      if (is_same_gap) found.pop_back();
      found.push_back(i);
      is_same_gap = true;
    }
  }
  return found;
}

}  // namespace millrace::analyze
