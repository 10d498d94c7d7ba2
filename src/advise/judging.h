// Judging: what rules share: the waiting of the job, and helpers to build a finding.
//
// A problem is reported if it is large in itself, as a share of the calls (each rule has its own
// limit), and large for the job, as a cost in time (matters()). Its cost is at most the time that
// the job waited, divided among the calls in proportion to their time.
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

// Fewer calls than this are not a pattern.
inline constexpr uint64_t kCallsMin = 1000;
// Of the wall time. Less waiting is within the variation between runs.
inline constexpr double kWaitShareMin = 0.05;
// Of the wall time of all ranks. Nobody would notice the fix of a smaller problem.
inline constexpr double kTimeShareMin = 0.02;

// Of the wall time: the least cost of calls that take less than kMuchTimeShare.
inline constexpr double kCostShareMin = 0.01;
// Of the wall time of all ranks: calls that take more are reported even if they are overlapped.
inline constexpr double kMuchTimeShare = 0.1;

// One thread copies from the page cache at 2 GB/s or more on any current machine. Slower reads
// waited for a device or a server.
inline constexpr uint64_t kCacheBytesPerSecond = 2'000'000'000;

// How long the job waits for data, and for what.
struct Waiting {
  uint64_t wall_ns = 0;
  uint64_t rank_ns = 0;       // wall time of all ranks together
  uint64_t data_ns = 0;       // a mean rank waited for data
  uint64_t io_ns = 0;         // of it for I/O on data files, an upper bound
  uint64_t decode_ns = 0;     // in decoding, without I/O, summed over threads
  uint64_t calls_ns = 0;      // in calls on data files, summed over threads
  uint64_t all_calls_ns = 0;  // in calls on files of any kind
  uint64_t exposed_ns = 0;    // a mean rank did any I/O and did not compute

  // The part of io_ns caused by calls on data files that took `time_ns` in total.
  uint64_t due_to(uint64_t time_ns) const;
  // The same for exposed_ns, which includes I/O before and after training.
  uint64_t exposed_due_to(uint64_t time_ns) const;
  // Of the wall time.
  double share(uint64_t time_ns) const;
  // Whether calls that took `time_ns` in total, over all threads, are worth reporting. They must
  // take a second and kTimeShareMin of the ranks' time, and either cost kCostShareMin of the wall
  // time or take kMuchTimeShare of the ranks' time: then they will cost time once compute becomes
  // faster.
  bool matters(uint64_t time_ns) const;
};

Waiting waiting_of(const analyze::Profile& profile);

// All data files together; zeros if there are none.
analyze::IoTotals data_totals(const analyze::Profile& profile);

// Total time of reads, writes and metadata calls.
uint64_t time_of(const analyze::IoTotals& io);

// The directory of the most read data file, for example commands; "DATA" if there is none.
std::string data_directory(const analyze::Profile& profile);

// Number of epochs, 1 if none were marked.
uint64_t epochs_of(const analyze::Profile& profile);

bool uses_hdf5(const analyze::Profile& profile);

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

// `saved_ns` is limited to the wall time.
Gain gain_of(const Waiting& waiting, uint64_t saved_ns, std::string how);

// kProblem if the gain is more than a tenth of the wall time, else `otherwise`.
Severity severity_of(const Gain& gain, Severity otherwise);

}  // namespace millrace::advise
