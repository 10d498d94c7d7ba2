// results_files: the results as files and text.
//
// In the output folder: summary.json, {rank}_per_epoch_stats.json and {rank}_output.json with the
// fields of DLIO (its MB and GB are MiB and GiB), and millrace.json with ours (units in the names).
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "base/terminal.h"
#include "bench/results.h"

namespace millrace::bench {

// What this rank has to write: its steps and epochs.
Status write_rank_files(const std::filesystem::path& folder, uint32_t rank, const RankRun& run,
                        const Workload& workload);

// summary.json and millrace.json, on rank 0.
Status write_summary(const std::filesystem::path& folder, const RunFigures& run,
                     const Workload& workload);

std::string figures_json(const RunFigures& run, const Workload& workload);
std::string figures_text(const RunFigures& run, const Workload& workload, const Terminal& terminal);

}  // namespace millrace::bench
