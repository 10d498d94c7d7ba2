#include "advise/advise.h"

#include <algorithm>

#include "advise/rules/rules.h"

namespace millrace::advise {
namespace {

constexpr std::string_view kFailed = "job-failed";
constexpr Seconds kOfIo = kOfReads | kOfMetadata;

// In the order of docs/guide/advise.md: how data is read, which files, ranks, order, code,
// checkpoints, the training loop.
constexpr Rule kRules[] = {
    {"small-reads", "reads too small for the file system", judge_small_reads, kOfReads | kOfCode},
    {"few-reads-in-flight", "low read concurrency on storage that serves many reads",
     judge_few_reads_in_flight, kOfReads, Aim::kSymptom},
    {"little-prefetch", "batches that are not prefetched, or too few workers",
     judge_little_prefetch, kOfLoading, Aim::kSymptom},
    {"random-access", "small random reads from rotating or shared storage", judge_random_access,
     kOfReads, Aim::kPlace},
    {"read-amplification", "an epoch that reads more bytes than the dataset has",
     judge_read_amplification, kOfReads},
    {"partial-use", "whole files read although only parts are used", judge_partial_use,
     kOfIo | kOfCode},
    {"line-reads", "data read line by line", judge_line_reads, kOfReads | kOfCode},
    {"unaligned-direct", "unaligned O_DIRECT transfers", judge_unaligned_direct, kOfReads,
     Aim::kFault},
    {"many-small-files", "many small files that take long to open", judge_many_small_files,
     kOfIo | kOfCode},
    {"metadata-storm", "files listed and examined again and again", judge_metadata_storm,
     kOfMetadata | kOfLoop},
    {"repeated-opens", "a file opened many times per epoch", judge_repeated_opens,
     kOfMetadata | kOfLibrary | kOfCode},
    {"hot-small-file", "a small file reread many times per epoch", judge_hot_small_file,
     kOfIo | kOfCode},
    {"stats-file-pieces", "a statistics or index file read in small pieces",
     judge_stats_file_pieces, kOfReads},
    {"large-shared-file", "one large file on shared storage, read by many ranks",
     judge_large_shared_file, kOfReads},
    {"fits-memory", "a dataset that is not cached although it fits in memory", judge_fits_memory,
     kOfIo},
    {"fits-local-disk", "network reads of a dataset that fits on local disks",
     judge_fits_local_disk, kOfIo},
    {"same-bytes", "every rank or worker reads all of the dataset", judge_same_bytes, kOfLoading,
     Aim::kFault},
    {"uneven-shards", "load imbalance: some ranks load more than others", judge_uneven_shards,
     kOfLoading},
    {"no-shuffle", "the same order of samples every epoch", judge_no_shuffle, kOfNothing,
     Aim::kAccuracy},
    {"file-shuffle", "a shuffle of files only, not of samples", judge_file_shuffle, kOfNothing,
     Aim::kAccuracy},
    {"text-parsing", "text such as CSV or JSON parsed every epoch", judge_text_parsing,
     kOfIo | kOfCode},
    {"hdf5-chunks", "HDF5 chunks that are decompressed for a few rows", judge_hdf5_chunks,
     kOfReads | kOfLibrary},
    {"compressed-samples", "samples decompressed every epoch", judge_compressed_samples, kOfCode},
    {"decode-bound", "waiting for decoding on the CPU", judge_decode_bound, kOfCode},
    {"slow-transform", "waiting for transforms or other code on the CPU", judge_slow_transform,
     kOfCode},
    {"too-many-workers", "more workers than cores", judge_too_many_workers,
     kOfLoading | kOfEpochStarts, Aim::kFault},
    {"worker-restart", "workers started anew at each epoch", judge_worker_restart, kOfEpochStarts},
    {"checkpoint-stall", "training that stops while a checkpoint is written",
     judge_checkpoint_stall, kOfCheckpoints},
    {"checkpoint-small-writes", "checkpoints in many small writes", judge_checkpoint_small_writes,
     kOfCheckpoints},
    {"checkpoint-shared", "checkpoints on shared storage despite a free local disk",
     judge_checkpoint_shared, kOfCheckpoints, Aim::kSymptom},
    {"loop-stall", "a training loop that reads or writes files itself", judge_loop_stall, kOfLoop,
     Aim::kSymptom},
    {kFailed, "a job that ended with an error", judge_job_failed, kOfNothing},
};

// Whether the job can use the change.
bool fits(const Case& given, const Change& change) {
  const Machine& machine = given.machine;
  if (change.framework == "pytorch") return given.job.framework != "tensorflow";
  if (change.framework == "tf.data") return given.job.framework != "pytorch";
  if (change.framework == "hdf5") return uses_hdf5(given.profile);
  if (change.framework != "lustre") return true;
  return machine.data_file_system.empty() ? machine.data_storage == Storage::kParallel
                                          : machine.data_file_system == "lustre";
}

const Rule& rule_of(const Finding& finding) {
  return *std::find_if(std::begin(kRules), std::end(kRules),
                       [&](const Rule& each) { return each.name == finding.rule; });
}

// Drop `what` if `by` was found: it explains the same problem better.
struct Explained {
  std::string_view what;
  std::string_view by;
  bool same_place = false;  // only if the first evidence of both is in the same place
};
constexpr Explained kExplained[] = {
    {"read-amplification", "same-bytes"},
    {"read-amplification", "partial-use"},
    {"read-amplification", "hot-small-file"},
    {"small-reads", "hot-small-file"},
    {"read-amplification", "repeated-opens"},
    {"repeated-opens", "partial-use", true},
    {"hot-small-file", "partial-use"},
    {"hot-small-file", "stats-file-pieces", true},
    {"repeated-opens", "stats-file-pieces", true},
    {"hot-small-file", "repeated-opens", true},
    {"fits-local-disk", "fits-memory"},
    {"line-reads", "text-parsing"},
    {"hot-small-file", "text-parsing"},
    {"partial-use", "text-parsing"},
    {"repeated-opens", "text-parsing"},
    {"loop-stall", "text-parsing"},
    {"small-reads", "hdf5-chunks"},
    {"small-reads", "unaligned-direct"},
    {"few-reads-in-flight", "unaligned-direct"},
    {"partial-use", "hdf5-chunks"},
    {"read-amplification", "hdf5-chunks"},
    {"repeated-opens", "metadata-storm"},
};

const Finding* find(const std::vector<Finding>& findings, std::string_view rule) {
  for (const Finding& finding : findings) {
    if (finding.rule == rule) return &finding;
  }
  return nullptr;
}

void drop_explained(std::vector<Finding>& findings) {
  for (const Explained& entry : kExplained) {
    const Finding* by = find(findings, entry.by);
    if (by == nullptr) continue;
    const std::string place = by->evidence.front().where;
    const uint64_t saved_ns = by->gain.saved_ns;
    std::erase_if(findings, [&](const Finding& finding) {
      // What saves much less is not the reason.
      return finding.rule == entry.what && 2 * saved_ns >= finding.gain.saved_ns &&
             (!entry.same_place || finding.evidence.front().where == place);
    });
  }
}

uint64_t most_saved(const Finding& finding) {
  uint64_t saved_ns = finding.gain.saved_ns;
  for (const Finding& other : finding.also) saved_ns = std::max(saved_ns, other.gain.saved_ns);
  return saved_ns;
}

bool saves_more(const Finding& a, const Finding& b) { return most_saved(a) > most_saved(b); }

// A cause comes before what only hides it, unless that saves more than twice as much. Data in the
// wrong place is a weaker cause: what else is found is easier to change, and a cache saves more in
// a job of more epochs.
bool is_better_head(const Finding& a, const Finding& b) {
  const auto weight = [](const Finding& finding) {
    const uint64_t saved_ns = finding.gain.saved_ns;
    switch (rule_of(finding).aim) {
      case Aim::kFault:
        return ~uint64_t{0};
      case Aim::kSymptom:
        return saved_ns / 2;
      case Aim::kPlace:
        return saved_ns / 3 * 2;
      default:
        return saved_ns;
    }
  };
  return weight(a) > weight(b);
}

// Joins findings about the same seconds.
std::vector<Finding> join(std::vector<Finding> findings) {
  constexpr uint64_t kSmallPart = 10;  // a cure that saves less than a tenth of another is no cure
  std::stable_sort(findings.begin(), findings.end(), is_better_head);
  std::vector<Finding> heads;
  for (Finding& finding : findings) {
    const auto same = std::find_if(heads.begin(), heads.end(), [&](const Finding& head) {
      return (rule_of(head).seconds & rule_of(finding).seconds) != 0;
    });
    if (same == heads.end()) {
      heads.push_back(std::move(finding));
    } else if (kSmallPart * finding.gain.saved_ns >= same->gain.saved_ns) {
      same->also.push_back(std::move(finding));
    }
  }
  for (Finding& head : heads) {
    std::stable_sort(head.also.begin(), head.also.end(), saves_more);
    for (const Finding& other : head.also) head.severity = std::max(head.severity, other.severity);
  }
  return heads;
}

// The smaller comes first.
int place_of(const Finding& finding) {
  // A model that learns worse is worse than one that learns a little later.
  constexpr double kMuchShare = 0.25;
  if (finding.rule == kFailed) return 0;
  if (finding.severity == Severity::kNote) return 5;
  if (rule_of(finding).aim == Aim::kAccuracy) return 2;
  if (finding.severity != Severity::kProblem) return 4;
  return finding.gain.share >= kMuchShare ? 1 : 3;
}

}  // namespace

std::span<const Rule> rules() { return kRules; }

std::vector<Finding> advise(const analyze::Profile& profile, const Machine& machine) {
  const Case given(profile, machine);
  std::vector<Finding> findings;
  for (const Rule& rule : kRules) {
    auto finding = rule.judge(given);
    if (!finding) continue;
    finding->rule = rule.name;
    std::erase_if(finding->changes, [&](const Change& change) { return !fits(given, change); });
    findings.push_back(*std::move(finding));
  }
  drop_explained(findings);
  findings = join(std::move(findings));
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    if (place_of(a) != place_of(b)) return place_of(a) < place_of(b);
    return saves_more(a, b);
  });
  return findings;
}

}  // namespace millrace::advise
