// Judging: what rules share: the waiting of the job, and helpers to build a finding.
//
// The cost of a problem is the time that training would save without it. Loading is work of
// several threads; training waits for what is left of it after compute. A rule says how much of the
// work its change removes, Waiting::due_to() how much waiting that saves. A problem is reported if
// it is large in itself, as a share of the calls (each rule has its own limit), and if it costs
// enough of the job's time (Waiting::matters()).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "advise/advise.h"

namespace millrace::advise {

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;
inline constexpr uint64_t kGiB = 1024 * kMiB;

// Fewer calls than this are not a pattern.
inline constexpr uint64_t kCallsMin = 200;
// A share of training time (Waiting::training_ns). Less waiting varies between runs anyway.
inline constexpr double kWaitShareMin = 0.05;
// A share of training time. Nobody would notice the fix of a smaller problem.
inline constexpr double kCostShareMin = 0.03;

// A read that takes longer waited for a device or a server: one from the page cache only copies.
inline constexpr uint64_t kCachedReadNs = 20'000;
// The share of the waiting for code that a change saves: it may make the code twice as fast, or run
// it ahead of time. Most cures of the clinic do the latter.
inline constexpr double kSavedOfCode = 0.8;

// What one sample costs in Python, even if it only slices an array in memory.
inline constexpr uint64_t kSampleNs = 5'000;

// One thread copies from the page cache at 2 GB/s or more on any current machine. Slower reads
// waited for a device or a server.
inline constexpr uint64_t kCacheBytesPerSecond = 2'000'000'000;

// How long the job waits for data, and for what.
struct Waiting {
  uint64_t wall_ns = 0;
  // Part of it that training takes, and what shares are of: a start of a minute says nothing about
  // the training of a week that it precedes. All of it if training is not known.
  uint64_t training_ns = 0;
  uint64_t ranks = 1;
  uint64_t data_ns = 0;  // a mean rank waited for data
  uint64_t io_ns = 0;    // of it for I/O on data files, an upper bound
  uint64_t work_ns = 0;  // in loading, summed over threads and ranks; 0: no region marks it
  uint64_t busy_ns = 0;  // a mean rank was loading, on at least one thread
  // Part of data_ns in which loading sets the pace: not the start of an epoch, when workers begin,
  // and only what they load meanwhile if the workers are idle half of the time.
  uint64_t steady_ns = 0;
  // Part of compute that a mean rank would save if workers did not take the cores from it.
  uint64_t contended_ns = 0;
  uint64_t calls_ns = 0;      // in calls on data files, summed over threads
  uint64_t all_calls_ns = 0;  // in calls on files of any kind
  uint64_t exposed_ns = 0;    // a mean rank did any I/O and did not compute

  // The waiting, and the slower compute, that a mean rank saves if loading takes `time_ns` less,
  // over all threads and ranks.
  uint64_t due_to(uint64_t time_ns) const;
  // The part of exposed_ns, which includes I/O before and after training, in calls on files of any
  // kind that took `time_ns` in total.
  uint64_t exposed_due_to(uint64_t time_ns) const;
  // The same waiting as a part of the whole job: for time that may also be saved before training.
  Waiting with_startup() const;
  // The share of training_ns.
  double share(uint64_t time_ns) const;
  // "75.0 % of training time"
  std::string part(uint64_t time_ns) const;
  // Whether a change that saves `saved_ns` is worth reporting.
  bool matters(uint64_t saved_ns) const { return share(saved_ns) >= kCostShareMin; }
};

Waiting waiting_of(const analyze::Profile& profile);

// Whether workers load only while training waits, although they could keep up with it: the loop
// takes many batches before it trains on them, as with sorted(loader).
bool loads_between_steps(const analyze::Profile& profile);

// All data files together; zeros if there are none.
analyze::IoTotals data_totals(const analyze::Profile& profile);

// Total time of reads, writes and metadata calls.
uint64_t time_of(const analyze::IoTotals& io);

// The data file that most bytes were read from; null if there is none.
const analyze::FileStats* most_read_file(const analyze::Profile& profile);

// The directory of the most read data file, for example commands; "DATA" if there is none.
std::string data_directory(const analyze::Profile& profile);

// "millrace store pack DIR -o PACKS, then millrace store run --pack PACKS --at DIR -- COMMAND".
std::string store_commands(const analyze::Profile& profile);

// Number of epochs, 1 if none were marked.
uint64_t epochs_of(const analyze::Profile& profile);

// What most of the data is stored as, by the extension of its files, or by their bytes. Images
// include video and compressed sound: what has to be decoded.
enum class Format : uint8_t { kUnknown, kArrays, kImages, kText, kCompressed, kHdf5 };
struct DataFormat {
  Format format = Format::kUnknown;
  std::string extension;  // ".jpg"; empty: none
};
DataFormat format_of(const analyze::Profile& profile);

// The most time that parsing the text files of the format can have taken in Python: more belongs to
// something else, whatever the code does.
uint64_t parsing_ns_max(const analyze::Profile& profile, const DataFormat& format);

// Whether the storage may serve one read at a time: a disk with one head, or a volume with a limit
// of operations per second. Servers of shared storage serve many.
bool may_serve_one(const analyze::Profile& profile, const Machine& machine);

// Cores for one rank; empty if unknown.
std::optional<uint64_t> cores_per_rank(const analyze::Profile& profile, const Machine& machine);

// Time of loading in reads that wait for storage, summed over threads and ranks: what they take
// beyond copying from the page cache. They need no core.
uint64_t stored_reads_ns(const analyze::Profile& profile);

// Loading::other_ns without what libraries are seen to do in it: decode, decompress, parse.
uint64_t own_code_ns(const analyze::Loading& loading);

// The part of Loading::other_ns that comes with `calls` of its calls: a call from Python takes
// longer than the call itself.
uint64_t around_calls(const analyze::Loading& loading, uint64_t calls);

// The same for calls that make up most of the work, `all` being those of the sample. Unless the
// format takes code to read, all code belongs to the calls.
uint64_t code_of_calls(const analyze::Profile& profile, uint64_t calls, uint64_t all);

// Stall::phase of gaps between the first step and the last.
inline constexpr std::string_view kInTraining = "in training";

// Whether the gap is spent in writing files, most of them checkpoints. The functions that saved
// them had no region, and made so many calls that only parts of them were recognised as
// checkpoints.
bool writes_checkpoint(const analyze::Profile& profile, const analyze::Stall& stall);
// A mean rank stopped for them between the first step and the last.
uint64_t unmarked_checkpoints_ns(const analyze::Profile& profile);

// What a call does, by its name in the profile; kOther if there is none.
wire::CallKind kind_of(const analyze::Profile& profile, std::string_view name);
// Calls that find files, those that name, remove or cut them as writers do, and calls that get
// their bytes.
bool changes_names(std::string_view name);
bool is_metadata(const analyze::Profile& profile, std::string_view name);
bool is_reading(const analyze::Profile& profile, std::string_view name);

bool uses_hdf5(const analyze::Profile& profile);
// Whether a path, or an extension, is that of an HDF5 file.
bool is_hdf5_name(std::string_view path);

// Parallel or network storage. Unknown storage counts if several hosts read the same files.
bool is_shared_storage(const analyze::Profile& profile, const Machine& machine);

// "12.5 s"
std::string duration(uint64_t time_ns);

// a / b; 0 if b is 0.
double ratio(uint64_t a, uint64_t b);

// Time to transfer `bytes`, in ns.
uint64_t time_at(uint64_t bytes, uint64_t bytes_per_second);

// whole * share, rounded down; the share is clamped to [0, 1].
uint64_t scaled(uint64_t whole, double share);

// Builds the changes of a finding. Keeps only those that fit the job.
class Changes {
 public:
  Changes(const analyze::Profile& profile, const Machine& machine)
      : profile_(profile), machine_(machine) {}

  Changes& pytorch(std::string text);  // unless the job uses TensorFlow
  Changes& tf_data(std::string text);  // unless the job uses PyTorch
  Changes& hdf5(std::string text);     // if the job uses HDF5
  Changes& lustre(std::string text);   // if the data may be on Lustre
  Changes& store(std::string text);
  Changes& loader(std::string text);
  Changes& any(std::string text);

  std::vector<Change> take() { return std::move(list_); }

 private:
  Changes& add(std::string_view framework, std::string text);

  const analyze::Profile& profile_;
  const Machine& machine_;
  std::vector<Change> list_;
};

// "lfs setstripe -S 4M -c 8 DIR". A stripe holds one transfer (1 to 16 MiB, a power of two). One
// server per GiB of the file, 1 to 16.
std::string stripe_command(const analyze::Profile& profile, uint64_t transfer_bytes,
                           uint64_t file_bytes);

// "75.0 % of training time", or "of the wall time".
std::string part_text(double share, bool of_training);

// `saved_ns` is limited to the time of training.
Gain gain_of(const Waiting& waiting, uint64_t saved_ns, std::string how);

// For a change that saves time, but it is not known how much.
Gain unknown_gain(std::string why);

// kProblem if the gain is more than a tenth of training time, else `otherwise`.
Severity severity_of(const Gain& gain, Severity otherwise);

}  // namespace millrace::advise
