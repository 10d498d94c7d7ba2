// repeated-opens: a file is opened many times per epoch.
#include <fmt/core.h>

#include <algorithm>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

// Sixteen workers that each open a file twice per epoch are normal.
constexpr double kOpensMin = 32;

// An archive or an index that is searched anew at each open: more reads than a sample needs, but
// not the whole file.
bool is_searched(const analyze::FileStats& file) {
  constexpr uint64_t kReadsToSearch = 16;
  return file.io.reads >= kReadsToSearch * file.io.opens &&
         4 * (file.io.bytes_read / std::max<uint64_t>(file.io.opens, 1)) <= 3 * file.size_bytes;
}

// Part of the code of a sample that reads the contents of its archive.
constexpr double kOfArchive = 0.75;

// Each open reads the same few bytes: a header, of a file that is then mapped or read elsewhere.
bool rereads_header(const analyze::FileStats& file) {
  const uint64_t bytes = file.io.bytes_read / std::max<uint64_t>(file.io.opens, 1);
  return bytes > 0 && bytes <= 4 * kKiB && 10 * file.unique_bytes_read <= file.io.bytes_read &&
         10 * file.unique_bytes_read <= file.size_bytes;
}

double opens_per_rank_and_epoch(const Case& given, const analyze::FileStats& file) {
  return ratio(file.io.opens, std::max<uint64_t>(file.ranks, 1) * given.epochs);
}

// Without marked epochs, an open that reads the whole file may be a new epoch.
bool may_be_an_epoch(const Case& given, const analyze::FileStats& file) {
  return given.job.epochs == 0 && 2 * (file.io.bytes_read / file.io.opens) >= file.size_bytes;
}

// Opening from Python takes longer than the calls. A file of HDF5 is read anew at each open.
uint64_t code_around_opens(const Case& given, uint64_t opens, bool searches) {
  const uint64_t in_loading = std::min(opens, given.loading.opens);
  const uint64_t calls = 2 * in_loading + std::min(given.loading.stats, 2 * in_loading);
  if (searches) return given.loading.other_ns;  // code that reads headers until it finds the sample
  // The table of contents of an archive is read at each open, and takes longer than the sample.
  const bool has_contents = given.format.format == Format::kCompressed;
  const uint64_t plain_ns = has_contents && opens_archive(given)
                                ? scaled(given.loading.other_ns, kOfArchive)
                                : code_of_calls(given, calls, calls + given.loading.reads);
  uint64_t library_ns = 0;
  for (const analyze::FunctionStats& function : given.profile.functions) {
    const bool opens_hdf5 = function.name == "H5Fopen" || function.name == "H5Fclose" ||
                            function.name == "H5Dopen2" || function.name == "H5Dclose";
    if (opens_hdf5) library_ns += function.time_ns;
  }
  if (library_ns > 0 && given.loading.library_ns > 0) {
    // h5py takes 140 us to open a file and a dataset, 7 us to read a row
    // (benchmarks/sample_costs.py).
    return library_ns +
           scaled(given.loading.other_ns,
                  ratio(20 * in_loading, 20 * in_loading + given.loading.library_reads));
  }
  return plain_ns;
}

struct Opens {
  const analyze::FileStats* worst = nullptr;
  uint64_t files = 0;
  uint64_t opens = 0;
};

Finding repeated_opens_text(const Case& given, const Opens& seen) {
  return {
      .kind = "repeated opens",
      .details =
          seen.files == 1
              ? fmt::format("one file is opened {} times", format_exact(seen.opens))
              : fmt::format("{} files are opened {} times", seen.files, format_exact(seen.opens)),
      .evidence = {at("files:" + seen.worst->path, "a rank opens {} {:.0f} times per epoch",
                      seen.worst->path, opens_per_rank_and_epoch(given, *seen.worst)),
                   at("files:" + seen.worst->path, "open, close and stat took {}, reads {}",
                      duration(seen.worst->io.metadata_ns), duration(seen.worst->io.read_ns))},
      .threshold =
          "32 opens per rank and epoch, which is more than once or twice per worker; each open "
          "asks the metadata server, and format libraries read the header again",
      .changes =
          {{"pytorch",
            "open it once per worker: keep the handle in the Dataset, and open it in the first "
            "__getitem__ (not in __init__: workers would share the handle)"},
           {"tf.data",
            "open it outside map(): use a generator or reader that keeps the file open for all of "
            "its samples"},
           {"hdf5",
            "keep the file and the dataset open (one H5Fopen and one H5Dopen per worker): each "
            "open reads the superblock and the B-trees again"}},
      .gain = {.how = "the waiting caused by opening and closing these files, with the code around "
                      "the calls"}};
}

}  // namespace

bool opens_archive(const Case& given) {
  if (given.loading.samples == 0 || 2 * given.loading.opens < given.loading.samples) return false;
  return 32 * given.profile.data.files_read * given.epochs <= given.loading.samples;
}

Judged judge_repeated_opens(const Case& given) {
  Opens seen;
  uint64_t searched = 0;  // of these opens
  uint64_t time_ns = 0;
  for (const analyze::FileStats& file : given.profile.files) {
    if (file.kind != analyze::FileKind::kData) continue;
    if (opens_per_rank_and_epoch(given, file) < kOpensMin) continue;
    if (may_be_an_epoch(given, file)) continue;
    if (is_loaded_again(given, file)) continue;  // hot-small-file
    ++seen.files;
    seen.opens += file.io.opens;
    time_ns += file.io.metadata_ns;
    if (rereads_header(file)) time_ns += file.io.read_ns;
    if (is_searched(file)) {
      time_ns += file.io.read_ns;
      searched += file.io.opens;
    }
    if (seen.worst == nullptr || file.io.metadata_ns > seen.worst->io.metadata_ns)
      seen.worst = &file;
  }
  if (seen.opens < kCallsMin) return {};
  const uint64_t around_ns = code_around_opens(given, seen.opens, 2 * searched > seen.opens);
  const uint64_t saved_ns = given.waiting.due_to(time_ns + around_ns);
  if (!given.waiting.matters(saved_ns)) return {};
  return less_waiting(given.waiting, saved_ns, repeated_opens_text(given, seen));
}

}  // namespace millrace::advise
