#include "advise/advise.h"

#include <algorithm>

#include "advise/rules/rules.h"

namespace millrace::advise {
namespace {

constexpr std::string_view kHidden = "io-hidden";
constexpr std::string_view kFailed = "job-failed";

// The order is that of the guide: how data are read, which files, by whom, in which order, what is
// done with them, checkpoints.
constexpr Rule kRules[] = {
    {"small-reads", "transfers too small for the file system", judge_small_reads},
    {"few-reads-in-flight", "one read at a time from storage that serves many",
     judge_few_reads_in_flight},
    {"little-prefetch", "data that is fetched only when training waits for it",
     judge_little_prefetch},
    {"random-access", "random reads from rotating or parallel storage", judge_random_access},
    {"read-amplification", "more bytes read in an epoch than there are", judge_read_amplification},
    {"partial-use", "whole files read where parts of them are used", judge_partial_use},
    {"line-reads", "data read line by line", judge_line_reads},
    {"unaligned-direct", "O_DIRECT with transfers that are not aligned", judge_unaligned_direct},
    {"many-small-files", "many small files, whose opening costs much", judge_many_small_files},
    {"metadata-storm", "listing, stat and open at the start of every epoch", judge_metadata_storm},
    {"repeated-opens", "one file opened again and again", judge_repeated_opens},
    {"hot-small-file", "a small file read again and again", judge_hot_small_file},
    {"stats-file-pieces", "a statistics or index file read in small pieces",
     judge_stats_file_pieces},
    {"large-shared-file", "one large file that many ranks read", judge_large_shared_file},
    {"fits-memory", "a dataset that would fit into the nodes' memory", judge_fits_memory},
    {"fits-local-disk", "a dataset that would fit onto the nodes' own disks",
     judge_fits_local_disk},
    {"same-bytes", "every rank reads the same bytes", judge_same_bytes},
    {"uneven-shards", "some ranks have more data than others", judge_uneven_shards},
    {"no-shuffle", "the same order of samples every epoch", judge_no_shuffle, Cost::kAccuracy},
    {"file-shuffle", "a shuffle of files, not of samples", judge_file_shuffle, Cost::kAccuracy},
    {"text-parsing", "CSV or JSON parsed every time", judge_text_parsing},
    {"decode-bound", "waiting for decoding on the CPU, not for I/O", judge_decode_bound,
     Cost::kDecoding},
    {"checkpoint-stall", "training stands still while a checkpoint is written",
     judge_checkpoint_stall, Cost::kWriting},
    {"checkpoint-small-writes", "checkpoints in many small writes", judge_checkpoint_small_writes,
     Cost::kWriting},
    {"checkpoint-shared", "checkpoints on shared storage beside a local disk",
     judge_checkpoint_shared, Cost::kWriting},
    {kFailed, "a job that ended with an error", judge_job_failed, Cost::kNone},
    {kHidden, "I/O that compute hides already: nothing to gain", judge_io_hidden, Cost::kNone},
};

// What need not be said where another rule says it better.
struct Explained {
  std::string_view what;
  std::string_view by;
  bool same_place = false;  // only where the first evidence of both is the same
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

// Reading that compute hides costs nothing, however it is done.
void quieten_hidden(std::vector<Finding>& findings) {
  if (find(findings, kHidden) == nullptr) return;
  for (Finding& finding : findings) {
    const auto rule = std::find_if(std::begin(kRules), std::end(kRules),
                                   [&](const Rule& each) { return each.name == finding.rule; });
    if (rule->cost != Cost::kReading) continue;
    finding.severity = Severity::kNote;
    finding.gain = {.how = "nothing now: compute hides this I/O"};
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
  quieten_hidden(findings);
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    if ((a.rule == kFailed) != (b.rule == kFailed)) return a.rule == kFailed;
    if (a.gain.saved_ns != b.gain.saved_ns) return a.gain.saved_ns > b.gain.saved_ns;
    return a.severity > b.severity;
  });
  return findings;
}

}  // namespace millrace::advise
