// Judging: what rules share: what the job's waiting is made of, and how a finding is put together.
//
// A fault is worth a word when it is large in itself and large for the job: a share of the calls
// (each rule has its own), and a cost in time (matters()). What it costs is never more than the
// time the job stood still, shared out over the calls by the time they took.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "advise/advise.h"

namespace millrace::advise {

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;
inline constexpr uint64_t kGiB = 1024 * kMiB;
inline constexpr uint64_t kSecond = 1'000'000'000;  // in ns

// Fewer calls than this say nothing of a habit.
inline constexpr uint64_t kCallsMin = 1000;
// Of the wall time. Under it, what waits costs less than runs differ from one another.
inline constexpr double kWaitShareMin = 0.05;
// Of the wall time of all ranks. A fault in less of it may be mended, and nobody would notice.
inline constexpr double kTimeShareMin = 0.02;

// Of the wall time: what calls must cost that are not many.
inline constexpr double kCostShareMin = 0.01;
// Of the wall time of all ranks: what is told also where compute hides it.
inline constexpr double kMuchTimeShare = 0.1;

// One copy out of the page cache by one thread runs at 2 GB/s and more on any current machine: what
// is slower waited for a device or a server.
inline constexpr uint64_t kCacheBytesPerSecond = 2'000'000'000;

// What stands still for data, and what for.
struct Waiting {
  uint64_t wall_ns = 0;
  uint64_t rank_ns = 0;       // wall time of all ranks together
  uint64_t data_ns = 0;       // a mean rank stood still for data
  uint64_t io_ns = 0;         // at most so much of it for I/O on data files
  uint64_t decode_ns = 0;     // in making samples of bytes, I/O aside, summed over threads
  uint64_t calls_ns = 0;      // in calls on data files, summed over threads
  uint64_t all_calls_ns = 0;  // in calls on files of any kind
  uint64_t unhidden_ns = 0;   // a mean rank was in I/O of any kind and did not compute

  // The part of io_ns that calls on data files account for which took so long together.
  uint64_t due_to(uint64_t time_ns) const;
  // The same of unhidden_ns: also for what happens before training and after it.
  uint64_t unhidden_due_to(uint64_t time_ns) const;
  // Of the wall time.
  double share(uint64_t time_ns) const;
  // Whether calls that took so long together, over all threads, are worth a word: a second at
  // least, and either kTimeShareMin of the ranks' time of which a part of kCostShareMin costs wall
  // time, or so much of it that it will cost some as soon as computing becomes faster.
  bool matters(uint64_t time_ns) const;
};

Waiting waiting_of(const analyze::Profile& profile);

// All data files together; of zeros where there are none.
analyze::IoTotals data_totals(const analyze::Profile& profile);

// Time of all calls of these totals.
uint64_t time_of(const analyze::IoTotals& io);

// The directory of the data file of most bytes, for commands that name one: "DATA" where none.
std::string data_directory(const analyze::Profile& profile);

// Epochs, or 1 where none were marked.
uint64_t epochs_of(const analyze::Profile& profile);

bool uses_hdf5(const analyze::Profile& profile);

// Neither memory nor a disk of the node; not known counts where several nodes read the same files.
bool is_shared_storage(const analyze::Profile& profile, const Machine& machine);

// "12.5 s"
std::string duration(uint64_t time_ns);

// a / b; 0 where b is.
double ratio(uint64_t a, uint64_t b);

// How long so many bytes take at a rate, in ns.
uint64_t time_at(uint64_t bytes, uint64_t bytes_per_second);

// whole * share, rounded down; the share is cut to 0 and 1.
uint64_t scaled(uint64_t whole, double share);

// The changes of a finding, of which only those are kept that fit the job.
class Changes {
 public:
  Changes(const analyze::Profile& profile, const Machine& machine)
      : profile_(profile), machine_(machine) {}

  Changes& pytorch(std::string text);  // unless the framework is another
  Changes& tf_data(std::string text);  // unless the framework is another
  Changes& hdf5(std::string text);     // where HDF5 is used
  Changes& lustre(std::string text);   // where the data lie on Lustre, or on what may be
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

// "lfs setstripe -S 4M -c 8 DIR": stripes that hold one transfer, on so many servers that a file
// has at least `file_bytes` / 1 GiB of them, within 1 and 16.
std::string stripe_command(const analyze::Profile& profile, uint64_t transfer_bytes,
                           uint64_t file_bytes);

// `saved_ns` cut to the wall time.
Gain gain_of(const Waiting& waiting, uint64_t saved_ns, std::string how);

// A problem where more than a tenth of the wall time is to be gained, else `otherwise`.
Severity severity_of(const Gain& gain, Severity otherwise);

}  // namespace millrace::advise
