// Case: what all rules ask of a job, computed once.
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

#include "advise/judging.h"
#include "advise/machine.h"
#include "analyze/profile/profile.h"

namespace millrace::advise {

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

// What most of the data is stored as, by the extension of its files, or by their bytes. Images
// include video and compressed sound: what has to be decoded.
enum class Format : uint8_t { kUnknown, kArrays, kImages, kText, kCompressed, kHdf5 };
struct DataFormat {
  Format format = Format::kUnknown;
  std::string extension;  // ".jpg"; empty: none
};

struct Case {
  // `recorded` is judged with the loading of loop_loading.h.
  Case(const analyze::Profile& recorded, const Machine& machine);
  Case(const Case&) = delete;  // its members refer to each other
  Case& operator=(const Case&) = delete;

  const analyze::Profile profile;
  const Machine& machine;
  const analyze::Job& job = profile.job;
  const analyze::Loading& loading = profile.loading;
  const Waiting waiting = waiting_of(profile);
  const analyze::IoTotals io;  // on all data files together
  const uint64_t ranks;        // at least 1, as the next two
  const uint64_t hosts;
  const uint64_t epochs;                      // 1 if none were marked
  const uint64_t mean_file_bytes;             // of the dataset
  const uint64_t dataset_bytes;               // of its files, or of what was read of them
  const analyze::FileStats* const most_read;  // the data file with most bytes read; may be null
  const DataFormat format;
  const std::optional<uint64_t> cores;  // for one rank; empty if unknown
  // Time of loading in reads that wait for storage, summed over threads and ranks: what they take
  // beyond copying from the page cache. They need no core.
  const uint64_t stored_reads_ns;
  // Workers load only while training waits, although they could keep up with it: the loop takes
  // many batches before it trains on them, as with sorted(loader).
  const bool loads_between_steps;
  // The storage may serve one read at a time: a disk with one head, or a volume with a limit of
  // operations per second. Servers of shared storage serve many.
  const bool may_serve_one;
  // Parallel or network storage. Unknown storage counts if several hosts read the same files.
  const bool is_on_shared_storage;
};

// The most time that parsing the text files of the format can have taken in Python: more belongs to
// something else, whatever the code does.
uint64_t parsing_ns_max(const Case& given);

// Loading::other_ns without what libraries are seen to do in it: decode, decompress, parse.
uint64_t own_code_ns(const analyze::Loading& loading);

// The part of Loading::other_ns that comes with `calls` of its calls: a call from Python takes
// longer than the call itself.
uint64_t around_calls(const Case& given, uint64_t calls);

// The same for calls that make up most of the work, `all` being those of the sample. Unless the
// format takes code to read, all code belongs to the calls.
uint64_t code_of_calls(const Case& given, uint64_t calls, uint64_t all);

}  // namespace millrace::advise
