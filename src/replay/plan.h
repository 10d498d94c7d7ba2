// Plan: the calls that a replay makes, by recorded thread, and what they need.
//
// Made in one pass over the events of a trace, at 40 bytes a call (80 while they are sorted), so
// that millions of calls fit into memory and nothing is read or computed while the replay runs.
//
// A call that failed is planned only if it could change nothing: it may have failed for a
// permission that the replay has.
//
// Events name the file, not the descriptor, that a call used. The plan therefore models the open
// files of each process: a call belongs to the open file of its name at whose position it was made,
// or else to the one of the same thread, or else to the newest. If none is known, because its open
// was lost or filtered out, the replay opens the file itself, before the call and unmeasured.
//
// The order of calls within a thread is that of the trace. Between threads it is kept where it
// matters to success: a call on an open file comes after its open and before its close, and a call
// on a name comes after the calls that create, rename or remove that name. Each wait is for a call
// that is earlier in the trace, so threads cannot wait for each other in a circle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "interop/selection.h"
#include "replay/action.h"
#include "replay/paths.h"
#include "trace/trace.h"

namespace millrace::replay {

// Bits of Step::flags.
inline constexpr uint16_t kFailedBefore = 1;   // the recorded call failed
inline constexpr uint16_t kInPages = 2;        // size and result are in pages of 4 KiB
inline constexpr uint16_t kAtPosition = 4;     // no lseek is needed before the call
inline constexpr uint16_t kHasOther = 8;       // `size` is a second path
inline constexpr uint16_t kChangesName = 16;   // creates, renames or removes its path
inline constexpr uint16_t kChangesOther = 32;  // the same for the second path
inline constexpr uint16_t kDropped = 64;       // not replayed; removed when the plan is done

struct Step {
  uint64_t begin_ns = 0;  // on the clock of the trace
  // Where the call reads or writes; the new size for truncate; an index into Plan::transfers. For a
  // call on a name: how many calls on the first (low half) and the second path must come before.
  uint64_t offset = wire::kNoOffset;
  uint32_t size = 0;      // requested bytes; the second path if kHasOther
  uint32_t result = 0;    // bytes moved, if it moves bytes; whence, advice or mode otherwise
  float duration_ns = 0;  // as recorded: six digits are enough for statistics
  uint32_t target = 0;    // a handle if the action opens, uses or closes one; otherwise a path
  uint32_t thread = 0;    // of the trace
  wire::Call call = wire::Call::kEmpty;
  uint16_t flags = 0;

  bool has(uint16_t flag) const { return (flags & flag) != 0; }
  uint64_t bytes(uint32_t number) const { return has(kInPages) ? uint64_t{number} << 12 : number; }
  uint64_t size_bytes() const { return bytes(size); }
  uint64_t result_bytes() const { return bytes(result); }
};
static_assert(sizeof(Step) == 40);

// A file that the replay opens and closes.
struct Handle {
  uint32_t path = 0;
  uint32_t flags = 0;            // of open(2)
  uint32_t use_count = 0;        // steps between its open and its close
  uint32_t user = ~uint32_t{0};  // the first thread that uses it
  HandleKind kind = HandleKind::kDescriptor;
  bool is_shared = false;   // used by several threads: no call may depend on its position
  bool is_closed = false;   // by a step. Otherwise after its last use
  bool is_implied = false;  // opened by its first use, not by a step
};

enum class Existence : uint8_t { kUnknown, kAbsent, kPresent };

struct Path {
  uint64_t size_bytes = 0;     // before the first call, as far as calls show it
  uint64_t written_end = 0;    // end of the furthest write
  uint64_t unnamed_bytes = 0;  // while planning: of files that were removed while they were open
  uint32_t calls = 0;          // on the name
  uint32_t changes = 0;        // of them, those that change the name
  uint32_t parent = kNoPath;   // if the trace has calls on it
  uint32_t open_count = 0;     // while planning
  Existence before = Existence::kUnknown;
  Existence now = Existence::kUnknown;  // while planning
  bool is_used = false;
  bool is_directory = false;
  bool is_created = false;    // by a call of the trace
  bool may_be_older = false;  // created by an O_CREAT that could also have found it
  bool is_modified = false;
  bool has_unnamed = false;  // while planning
};

struct Transfer {
  uint32_t from = 0;  // handles
  uint32_t to = 0;
  uint64_t from_offset = 0;
  uint64_t to_offset = wire::kNoOffset;
};

// The steps of one recorded thread: steps[first] to steps[first + count].
struct ThreadPlan {
  size_t first = 0;
  size_t count = 0;
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  uint64_t buffer_bytes = 0;  // the largest transfer
  bool writes = false;
};

// A trace may claim any number.
constexpr uint64_t add_saturating(uint64_t a, uint64_t b) {
  return a > ~uint64_t{0} - b ? ~uint64_t{0} : a + b;
}

// Calls that are not replayed, by reason.
struct Skipped {
  uint64_t filtered = 0;      // by the options
  uint64_t not_storage = 0;   // pipes, sockets, /proc, /sys, /dev
  uint64_t outside = 0;       // not below --root
  uint64_t unknown_file = 0;  // on a descriptor whose file is not in the trace
  uint64_t covered = 0;       // the I/O is in other events: mmap, fseek, dup, upper levels
  uint64_t unmatched = 0;     // closes of files that were not open
  uint64_t failed = 0;        // calls that failed, and would change something if they succeeded
  std::map<std::string, uint64_t> cannot;  // by function

  uint64_t total() const;
};

struct PlanOptions {
  interop::Selection selection;
  std::vector<bool> functions;  // by number of the call; empty: all
  uint64_t size_min = 0;        // for calls that move bytes
  uint64_t size_max = ~uint64_t{0};
  std::string root;  // a clean path; empty: the common directory of all files
  std::set<std::string, std::less<>> files;  // clean paths; empty: all
};

struct Plan {
  std::vector<Step> steps;
  std::vector<ThreadPlan> threads;  // by begin_ns
  std::vector<Handle> handles;
  std::vector<Path> paths;  // by index in names
  std::vector<Transfer> transfers;
  PathTable names;
  std::string root;
  Skipped skipped;
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  size_t open_peak = 0;             // files that are open at once
  uint64_t unnamed_peak_bytes = 0;  // of files that are removed, but still open, at once

  // The path of a used name below the folder of the replay; empty for the folder itself.
  std::string_view relative(uint32_t path) const { return relative_to(names.text(path), root); }
};

// Fails if the trace cannot be read, or has more than 4 billion calls.
Result<Plan> make_plan(const trace::Trace& trace, const PlanOptions& options);

// "read,pread" as a set of calls; "posix" names all calls of a level. Unknown names are errors.
Result<std::vector<bool>> parse_functions(std::string_view text);

// "4KiB..1MiB", "..64KiB", "1MiB..", or one size.
struct SizeRange {
  uint64_t min = 0;
  uint64_t max = ~uint64_t{0};
};
Result<SizeRange> parse_size_range(std::string_view text);

// The paths that a file lists, one on each line. Fails if one is not absolute, or if there are
// none.
Result<std::set<std::string, std::less<>>> read_file_list(const std::string& path);

// Assigns handles and names to the steps, which are in the order of time, and marks those that are
// not replayed. Used by make_plan().
void resolve_steps(const trace::Trace& trace, Plan& plan);

}  // namespace millrace::replay
