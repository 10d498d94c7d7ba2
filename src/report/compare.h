// compare: what became slower, faster, more, fewer, new or gone between two jobs, and what of it is
// a regression.
//
// Jobs of different lengths and ranks are put on a common scale first: a unit of work (a step, an
// epoch) and a rank. What differs is ordered by its effect on the wall time, which is an estimate:
// time that computing hides costs nothing. docs/design/comparison.md derives all of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/profile.h"
#include "base/terminal.h"

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
  double threshold = 0.10;   // relative; less is no difference
  std::optional<Per> per{};  // none: step, epoch or job, the first that both know
  bool strict = false;       // what is worse is a regression also where it costs no wall time
};

// Noise floors: what is below them is no difference, whatever its ratio. All are of the later job.
inline constexpr double kTimeFloorShare = 0.001;  // of the wall time, for sums of time
inline constexpr double kTimeFloorNs = 1e6;
inline constexpr double kQuantileFloorNs = 1e3;  // clocks and caches alone make microseconds
inline constexpr double kCountFloor = 10;        // calls in the whole job
inline constexpr double kBytesFloor = 65536;     // in the whole job
inline constexpr uint64_t kMedianCountMin = 10;  // fewer calls have no median worth comparing
inline constexpr uint64_t kTailCountMin = 100;   // nor a p99
// A regression costs at least this of the wall time.
inline constexpr double kRegressionShare = 0.01;
inline constexpr double kRegressionFloorNs = 10e6;
// Jobs whose lengths differ by more are judged by their steps and epochs alone: what happens once,
// at the start, weighs too much in the shorter.
inline constexpr double kLengthRatioMax = 2;

struct Difference {
  By by{};
  std::string name;     // "posix read", ".jpg", "rank 3"
  std::string measure;  // "time", "calls", "bytes read", "p99 latency", ...
  Quantity quantity{};
  Change change{};
  double before = 0;  // per unit of work
  double after = 0;
  double effect_ns = 0;  // on the wall time of the later job; over 0: it takes longer
  bool regression = false;
  bool minor = false;  // follows from another difference; shown only where asked for by `by`

  // after over before, less 1; none where there was nothing before.
  std::optional<double> relative() const;
};

// One of the two jobs, as the comparison saw it.
struct Compared {
  std::string name;
  uint32_t ranks = 0;
  uint64_t hosts = 0;
  uint64_t epochs = 0;
  double steps = 0;  // of a rank
  double units = 0;  // of work, of a rank
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
  // One subject (`by` and `name`) after the other: the job, then the one with the largest effect.
  std::vector<Difference> differences;
  std::vector<std::string> notes;  // what to know to judge them, as sentences

  size_t regression_count() const;
};

// REQUIRES of `options.per`, if given, nothing: where a job lacks that unit, whole jobs are
// compared and a note tells it.
Comparison compare(const analyze::Profile& before, const analyze::Profile& after,
                   const CompareOptions& options = {});

struct CompareView {
  std::optional<By> by{};  // none: all but what is minor
  size_t top = 20;         // subjects; 0: all
};

// At most `terminal.columns` wide.
std::string compare_text(const Comparison& comparison, const CompareView& view,
                         const Terminal& terminal);

// docs/formats/comparison.md
std::string compare_json(const Comparison& comparison, const CompareView& view);

}  // namespace millrace::report
