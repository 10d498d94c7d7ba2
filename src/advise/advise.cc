#include "advise/advise.h"

#include <algorithm>

#include "advise/rules/rules.h"

namespace millrace::advise {
namespace {

constexpr std::string_view kOverlapped = "io-overlapped";
constexpr std::string_view kFailed = "job-failed";

// In the order of docs/guide/advise.md: how data is read, which files, ranks, order, decoding,
// checkpoints.
constexpr Rule kRules[] = {
    {"small-reads", "reads too small for the file system", judge_small_reads},
    {"few-reads-in-flight", "low read concurrency on storage that serves many reads",
     judge_few_reads_in_flight},
    {"little-prefetch", "batches that are not prefetched", judge_little_prefetch},
    {"random-access", "small random reads from rotating or shared storage", judge_random_access},
    {"read-amplification", "an epoch that reads more bytes than the dataset has",
     judge_read_amplification},
    {"partial-use", "whole files read although only parts are used", judge_partial_use},
    {"line-reads", "data read line by line", judge_line_reads},
    {"unaligned-direct", "unaligned O_DIRECT transfers", judge_unaligned_direct},
    {"many-small-files", "many small files that take long to open", judge_many_small_files},
    {"metadata-storm", "bursts of open, stat and listing at the start of epochs",
     judge_metadata_storm},
    {"repeated-opens", "a file opened many times per epoch", judge_repeated_opens},
    {"hot-small-file", "a small file reread many times per epoch", judge_hot_small_file},
    {"stats-file-pieces", "a statistics or index file read in small pieces",
     judge_stats_file_pieces},
    {"large-shared-file", "one large file on shared storage, read by many ranks",
     judge_large_shared_file},
    {"fits-memory", "a dataset that is not cached although it fits in memory", judge_fits_memory},
    {"fits-local-disk", "network reads of a dataset that fits on local disks",
     judge_fits_local_disk},
    {"same-bytes", "an unsharded dataset: every rank reads the same bytes", judge_same_bytes},
    {"uneven-shards", "load imbalance: some ranks read more than others", judge_uneven_shards},
    {"no-shuffle", "the same order of samples every epoch", judge_no_shuffle, Cost::kAccuracy},
    {"file-shuffle", "a shuffle of files only, not of samples", judge_file_shuffle,
     Cost::kAccuracy},
    {"text-parsing", "text such as CSV or JSON parsed every epoch", judge_text_parsing},
    {"decode-bound", "waiting for decoding on the CPU, not for I/O", judge_decode_bound,
     Cost::kDecoding},
    {"checkpoint-stall", "training that stops while a checkpoint is written",
     judge_checkpoint_stall, Cost::kWriting},
    {"checkpoint-small-writes", "checkpoints in many small writes", judge_checkpoint_small_writes,
     Cost::kWriting},
    {"checkpoint-shared", "checkpoints on shared storage despite a free local disk",
     judge_checkpoint_shared, Cost::kWriting},
    {kFailed, "a job that ended with an error", judge_job_failed, Cost::kNone},
    {kOverlapped, "I/O that already overlaps with compute: nothing to gain", judge_io_overlapped,
     Cost::kNone},
};

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
    {"repeated-opens", "partial-use", true},
    {"repeated-opens", "hot-small-file", true},
    {"fits-local-disk", "fits-memory"},
    {"line-reads", "text-parsing"},
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
    std::erase_if(findings, [&](const Finding& finding) {
      return finding.rule == entry.what &&
             (!entry.same_place || finding.evidence.front().where == place);
    });
  }
}

// Reading costs nothing while it overlaps with compute.
void demote_overlapped(std::vector<Finding>& findings) {
  if (find(findings, kOverlapped) == nullptr) return;
  for (Finding& finding : findings) {
    const auto rule = std::find_if(std::begin(kRules), std::end(kRules),
                                   [&](const Rule& each) { return each.name == finding.rule; });
    if (rule->cost != Cost::kReading) continue;
    finding.severity = Severity::kNote;
    finding.gain = {.how = "none now: this I/O overlaps with compute"};
  }
}

}  // namespace

std::span<const Rule> rules() { return kRules; }

std::vector<Finding> advise(const analyze::Profile& profile, const Machine& machine) {
  std::vector<Finding> findings;
  for (const Rule& rule : kRules) {
    auto finding = rule.judge(profile, machine);
    if (!finding) continue;
    finding->rule = rule.name;
    findings.push_back(*std::move(finding));
  }
  drop_explained(findings);
  demote_overlapped(findings);
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    if ((a.rule == kFailed) != (b.rule == kFailed)) return a.rule == kFailed;
    if (a.gain.saved_ns != b.gain.saved_ns) return a.gain.saved_ns > b.gain.saved_ns;
    return a.severity > b.severity;
  });
  return findings;
}

}  // namespace millrace::advise
