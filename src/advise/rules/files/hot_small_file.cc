// hot-small-file: a small file is reread many times per epoch.
#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

constexpr uint64_t kSizeMax = 64 * kMiB;
constexpr double kPassesMin = 5;

// How often a rank reads the whole file per epoch.
double passes(const Case& given, const analyze::FileStats& file) {
  const uint64_t size = std::max(file.size_bytes, file.unique_bytes_read);
  const uint64_t once = size * std::max<uint64_t>(file.readers, 1) * given.epochs;
  return ratio(file.io.bytes_read, once);
}

bool is_hot(const Case& given, const analyze::FileStats& file, double usual) {
  if (file.kind != analyze::FileKind::kData || file.io.bytes_read == 0) return false;
  if (std::max(file.size_bytes, file.unique_bytes_read) > kSizeMax) return false;
  if (is_hdf5_name(file.path) && wastes_hdf5_reads(given)) return false;
  return passes(given, file) >= kPassesMin * std::max(1.0, usual);
}

// A file whose lines are samples is the dataset.
bool is_table(const analyze::FileStats& file) {
  constexpr std::string_view kTables[] = {".csv", ".tsv", ".jsonl", ".ndjson", ".txt", ".svm"};
  return std::any_of(std::begin(kTables), std::end(kTables),
                     [&](std::string_view end) { return file.path.ends_with(end); });
}

struct HotBytes {
  uint64_t bytes = 0;   // that were read from files which may be hot
  uint64_t unique = 0;  // distinct ones
};

HotBytes hot_bytes_of(const Case& given) {
  HotBytes hot;
  for (const analyze::FileStats& file : given.profile.files) {
    if (!is_hot(given, file, 1)) continue;
    hot.bytes += file.io.bytes_read;
    hot.unique += file.unique_bytes_read;
  }
  return hot;
}

// The files that are read more often than the others, and what was done with them.
struct HotFiles {
  const analyze::FileStats* worst = nullptr;
  uint64_t count = 0;
  uint64_t time_ns = 0;
  uint64_t calls = 0;
  uint64_t loaded_bytes = 0;  // by loading whole files again
  uint64_t loads = 0;
  double again = 0;  // the most passes of a rank in an epoch
};

HotFiles hot_files_of(const Case& given, double usual) {
  HotFiles hot;
  for (const analyze::FileStats& file : given.profile.files) {
    if (!is_hot(given, file, usual)) continue;
    ++hot.count;
    hot.time_ns += time_of(file.io);
    hot.calls += file.io.reads + 2 * file.io.opens;
    if (is_loaded_again(given, file)) {
      hot.loaded_bytes += file.io.bytes_read;
      hot.loads += file.io.opens;
    }
    hot.again = std::max(hot.again, passes(given, file));
    if (hot.worst == nullptr || time_of(file.io) > time_of(hot.worst->io)) hot.worst = &file;
  }
  return hot;
}

// Then the code that loads is that of collating a batch, not of reading a sample.
bool is_once_per_batch(const Case& given, uint64_t opens) {
  return given.loading.samples >= 4 * given.loading.batches &&
         10 * opens >= 9 * given.loading.batches && opens <= 3 * given.loading.batches;
}

Finding hot_small_file_text(const Case& given, const HotFiles& hot) {
  return {
      .kind = hot.count == 1
                  ? "a small file is reread many times per epoch"
                  : fmt::format("{} small files are reread many times per epoch", hot.count),
      .evidence = {at("files:" + hot.worst->path,
                      "{} ({}) was read {:.0f} times per rank and epoch: {} in {} reads",
                      hot.worst->path, format_bytes(hot.worst->size_bytes),
                      passes(given, *hot.worst), format_bytes(hot.worst->io.bytes_read),
                      format_exact(hot.worst->io.reads)),
                   at("files", "calls on {} took {}", hot.count == 1 ? "it" : "such files",
                      duration(hot.time_ns))},
      .threshold =
          "five times per epoch, five times as often as the other data, and at most 64 MiB: every "
          "process can keep that much in memory",
      .changes =
          {{"pytorch",
            "load the file once in Dataset.__init__ (or with functools.lru_cache) and keep the "
            "values; forked workers share the pages"},
           {"tf.data",
            "read the file once before the pipeline and capture the tensor, or .cache() the "
            "dataset made from it"},
           {"hdf5",
            "open the file with H5Pset_fapl_core(fapl, 1 << 20, 0) (h5py: driver='core', "
            "backing_store=False): it is read once and stays in memory"}},
      .gain = {.how = "the waiting caused by all reads after the first"}};
}

}  // namespace

bool is_loaded_again(const Case& given, const analyze::FileStats& file) {
  if (!is_hot(given, file, 1)) return false;
  const double opens =
      ratio(file.io.opens, std::max<uint64_t>(file.readers, 1)) / static_cast<double>(given.epochs);
  const double whole = passes(given, file);
  return 2 * opens >= whole && opens <= 2.2 * whole;  // some libraries open a file twice
}

const analyze::FileStats* reread_file(const Case& given) {
  constexpr uint64_t kSizeOfValues = 4 * kMiB;  // larger files hold samples: see partial-use
  for (const analyze::FileStats& file : given.profile.files) {
    if (file.kind != analyze::FileKind::kData || is_table(file)) continue;
    if (file.size_bytes > kSizeOfValues || !is_loaded_again(given, file)) continue;
    // Most of what is read.
    if (2 * file.io.bytes_read > given.job.dataset_bytes_read) return &file;
  }
  return nullptr;
}

Judged judge_hot_small_file(const Case& given) {
  // Unmarked epochs reread every file, so a hot file is one that is read more often than the rest.
  const auto [hot_bytes, hot_unique] = hot_bytes_of(given);
  const uint64_t rest_bytes = minus(given.job.dataset_bytes_read, hot_bytes);
  const uint64_t rest_unique = minus(given.job.dataset_unique_bytes, hot_unique);
  const uint64_t rank_epochs = given.epochs * given.ranks;
  const double usual = ratio(rest_bytes, rest_unique) / static_cast<double>(rank_epochs);
  const HotFiles hot = hot_files_of(given, usual);
  // Many such files are a dataset with unmarked epochs.
  const bool few = hot.count <= 8 || 10 * hot.count <= given.job.dataset_files;
  // Files that hold the samples themselves, unless they are searched for each one: small-reads and
  // read-amplification know better.
  constexpr double kSearchedMin = 32;
  const bool is_dataset = 10 * hot_unique >= 9 * given.job.dataset_unique_bytes &&
                          2 * hot.loaded_bytes < hot_bytes && hot.again < kSearchedMin;
  const uint64_t loading_ns =
      is_once_per_batch(given, hot.loads) ? given.loading.collate_ns : given.loading.other_ns;
  const uint64_t code_ns =
      std::max(code_of_calls(given, hot.calls,
                             2 * given.loading.opens + given.loading.stats + given.loading.reads),
               scaled(loading_ns, ratio(hot.loaded_bytes, given.job.dataset_bytes_read)));
  const uint64_t work_ns = hot.time_ns + code_ns;
  const uint64_t saved_ns = given.waiting.due_to(scaled(work_ns, 1 - 1 / hot.again));
  if (hot.worst == nullptr || !few || is_dataset || !given.waiting.matters(saved_ns)) return {};
  return less_waiting(given.waiting, saved_ns, hot_small_file_text(given, hot));
}

}  // namespace millrace::advise
