// advise: what to change in a job, with the evidence for it.
//
// A rule judges a profile and what is known of the machine. Its finding has the evidence, the
// threshold and the reason for it, what to change in the framework in use, and an estimate of the
// gain. A job without problems gets no findings. To add a rule, add a file in rules/ and a line in
// the table of advise.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "advise/machine.h"
#include "analyze/profile/profile.h"

namespace millrace::advise {

struct Case;

enum class Severity : uint8_t {
  kNote,     // worth knowing; costs little or nothing now
  kWarning,  // costs time, or will at a larger scale
  kProblem,  // the job waits because of this
};
inline constexpr std::string_view kSeverityNames[] = {"note", "warning", "problem"};

// A fact from the profile. `where` names the part of the report that shows it, as a path in the
// JSON: "functions", "files:/data/x.h5", "time.mean", "epochs:3", "heat", "steps".
struct Evidence {
  std::string text;  // "97 % of 12,000 reads are under 4 KiB"
  std::string where;
};

struct Change {
  std::string framework;  // "pytorch", "tf.data", "hdf5", "lustre", "store", "loader", "any"
  std::string text;       // what to do, with the call or command
};

// An upper bound of what the change saves, and how it was calculated.
struct Gain {
  uint64_t saved_ns = 0;     // of the wall time; 0: not estimated
  double share = 0;          // of training time, or of the wall time
  bool of_training = false;  // which of them
  std::string how = {};
};

struct Finding {
  std::string rule = {};  // "small-reads"; advise() fills it in
  Severity severity{};
  std::string kind = {};        // what is wrong, in a few words: "small reads"
  std::string details = {};     // "16 KiB on average"; empty if the kind says all
  std::string mostly_for = {};  // "decoding": what most of the waiting is for, if the rule knows
  std::vector<Evidence> evidence = {};
  std::string threshold = {};        // "most reads under 64 KiB", and the reason
  std::vector<Change> changes = {};  // advise() removes those for another framework
  Gain gain = {};
  std::optional<Gain> tried = {};  // what `millrace store` gained when it was tried (trial.h)
  // Other findings about the same seconds, largest gain first: each is another way to save them.
  std::vector<Finding> also = {};

  // "small reads: 16 KiB on average"
  std::string title() const { return details.empty() ? kind : kind + ": " + details; }
};

// Which time a problem costs. Findings about the same time are one finding with several cures.
using Seconds = uint8_t;
inline constexpr Seconds kOfNothing = 0;   // costs no time, or it is not known which
inline constexpr Seconds kOfReads = 1;     // loading: calls that read
inline constexpr Seconds kOfMetadata = 2;  // loading: calls that find and open files
inline constexpr Seconds kOfLibrary = 4;   // loading: code of HDF5
inline constexpr Seconds kOfCode = 8;      // loading: decoding, parsing, Python
inline constexpr Seconds kOfLoading = 15;
inline constexpr Seconds kOfCheckpoints = 16;
inline constexpr Seconds kOfEpochStarts = 64;
inline constexpr Seconds kOfLoop = 32;  // the training loop does other things than training

enum class Aim : uint8_t {
  kFault,     // is wrong in any case, and may explain the others
  kCause,     // removes the work
  kSymptom,   // does the same work at another time or place: prefetch, more reads at once
  kPlace,     // the data is in the wrong place or order for such reads
  kAccuracy,  // costs no time
};

struct Rule {
  std::string_view name;
  std::string_view summary;  // what it looks for, for `advise --rules`
  std::optional<Finding> (*judge)(const Case& given);
  Seconds seconds = kOfLoading;
  Aim aim = Aim::kCause;
};

std::span<const Rule> rules();

// The findings of all rules: the job's failure, problems that cost a quarter of the time, what
// costs accuracy, other problems, then the rest; each by gain. Findings about the same seconds are
// one: the cause comes before what only hides it, unless that saves much more; the others are in
// its `also`.
std::vector<Finding> advise(const analyze::Profile& profile, const Machine& machine);

}  // namespace millrace::advise
