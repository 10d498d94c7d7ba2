// compare: what became slower, faster, more, fewer, new or gone between two jobs, and which of
// these differences are regressions.
//
// Jobs of different lengths and numbers of ranks are first scaled to a unit of work (a step, an
// epoch) and a rank. Differences are sorted by their effect on the wall time. The effect is an
// estimate: time that overlaps with compute costs nothing. docs/design/comparison.md derives it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/profile/profile.h"
#include "base/system/terminal.h"

namespace millrace::report {

// The unit of work by which two jobs are compared.
enum class Per : uint8_t { kStep, kEpoch, kGigabyte, kJob };
inline constexpr std::string_view kPerNames[] = {"step", "epoch", "gigabyte", "job"};

// What a difference is about.
enum class By : uint8_t { kJob, kLayer, kFunction, kKind, kExtension, kRank, kEpoch };
inline constexpr std::string_view kByNames[] = {"job",       "layer", "function", "kind",
                                                "extension", "rank",  "epoch"};

enum class Change : uint8_t { kSlower, kFaster, kMore, kFewer, kNew, kGone };
inline constexpr std::string_view kChangeNames[] = {"slower", "faster", "more",
                                                    "fewer",  "new",    "gone"};

enum class Quantity : uint8_t { kTime, kCount, kBytes };
inline constexpr std::string_view kQuantityNames[] = {"ns", "count", "bytes"};

struct CompareOptions {
  double threshold = 0.10;   // relative; ignore changes smaller than this
  std::optional<Per> per{};  // none: the first of step, epoch and job that both jobs have
  bool strict = false;       // anything worse is a regression, even if it costs no wall time, or if
                             // the job became faster
};

// Noise floors: ignore smaller changes, whatever their ratio. All refer to the later job.
inline constexpr double kTimeFloorShare = 0.001;  // of the wall time, for sums of time
inline constexpr double kTimeFloorNs = 1e6;
inline constexpr double kQuantileFloorNs = 1e3;  // clocks and caches cause microseconds of noise
inline constexpr double kCountFloor = 10;        // calls in the whole job
inline constexpr double kBytesFloor = 65536;     // in the whole job
inline constexpr uint64_t kMedianCountMin = 10;  // fewer calls have no meaningful median
inline constexpr uint64_t kTailCountMin = 100;   // nor p99
// A regression costs at least this share of the wall time.
inline constexpr double kRegressionShare = 0.01;
inline constexpr double kRegressionFloorNs = 10e6;
// If the lengths of jobs differ by more, only steps and epochs are judged: the start of the job
// weighs too much in the shorter one.
inline constexpr double kLengthRatioMax = 2;

struct Difference {
  By by{};
  std::string name;     // "posix read", ".jpg", "rank 3"
  std::string measure;  // "time", "calls", "bytes read", "p99 latency", ...
  Quantity quantity{};
  Change change{};
  double before = 0;  // per unit of work
  double after = 0;
  double effect_ns = 0;  // on the wall time of the later job; positive: longer
  bool regression = false;
  bool minor = false;  // follows from another difference; shown only with `by`

  // after / before - 1; none if before is 0.
  std::optional<double> relative() const;
};

// One of the two jobs, as the comparison saw it.
struct Compared {
  std::string name;
  uint32_t ranks = 0;
  uint64_t hosts = 0;
  uint64_t epochs = 0;
  double steps = 0;  // per rank
  double units = 0;  // of work, per rank
  uint64_t wall_ns = 0;
  double wait_share = 0;
};

struct Comparison {
  Compared before;
  Compared after;
  Per per{};
  double threshold = 0;
  bool strict = false;
  bool lengths_differ = false;  // by more than kLengthRatioMax
  size_t baselines = 1;
  // Grouped by subject (`by` and `name`): the job first, then by decreasing effect.
  std::vector<Difference> differences;
  std::vector<std::string> notes;  // caveats, as sentences

  size_t regression_count() const;
};

// Compares with the baseline of the median wall time. A regression is one against each baseline:
// what varies between them is noise. REQUIRES: at least one baseline.
Comparison compare_with_baselines(const std::vector<analyze::Profile>& baselines,
                                  const analyze::Profile& after,
                                  const CompareOptions& options = {});

// If a job lacks the unit of `options.per`, compares whole jobs and adds a note.
Comparison compare(const analyze::Profile& before, const analyze::Profile& after,
                   const CompareOptions& options = {});

struct CompareView {
  std::optional<By> by{};  // none: all except minor differences
  size_t top = 20;         // subjects; 0: all
};

// At most `terminal.columns` wide.
std::string compare_text(const Comparison& comparison, const CompareView& view,
                         const Terminal& terminal);

// docs/formats/comparison.md
std::string compare_json(const Comparison& comparison, const CompareView& view);

}  // namespace millrace::report
