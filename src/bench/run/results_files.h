// results_files: the results as files and text.
//
// In the output folder: summary.json, {rank}_per_epoch_stats.json and {rank}_output.json with the
// fields of DLIO (its MB and GB are MiB and GiB), and millrace.json with ours (units in the names).
// They replace those of an earlier run, but no files of others.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "base/system/terminal.h"
#include "bench/run/results.h"

namespace millrace::bench {

// Fails if the folder has files of these names that no run wrote, or that changed since; of the
// log, to which runs append, only its name is known. To be asked before a long run, on rank 0.
Status check_results_folder(const std::filesystem::path& folder, uint32_t rank_count,
                            const std::string& log_file);

// Before the log is created, so that it is known to be ours even if the run is killed.
Status list_log(const std::filesystem::path& folder, const std::string& log_file);

// What this rank has to write: its steps and epochs.
Status write_rank_files(const std::filesystem::path& folder, uint32_t rank, const RankRun& run,
                        const Workload& workload);

// summary.json, millrace.json, and a list of all results. On rank 0, after the others.
Status write_summary(const std::filesystem::path& folder, const RunFigures& run,
                     const Workload& workload);

std::string figures_json(const RunFigures& run, const Workload& workload);
std::string figures_text(const RunFigures& run, const Workload& workload, const Terminal& terminal);

}  // namespace millrace::bench
