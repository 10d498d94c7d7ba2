// Derive: the parts of model_of(), one for each section of the workload.
#pragma once

#include <cstdint>
#include <string>

#include "analyze/profile/profile.h"
#include "model/counts.h"
#include "model/format_names.h"
#include "model/sheet.h"

namespace millrace::model {

// The dataset that the job trained and evaluated on: the data files with one extension.
struct DataFiles {
  std::string extension;  // empty: the job read no data files
  FormatName format;
  uint64_t all_files = 0;  // with this extension
  uint64_t train_files = 0;
  uint64_t eval_files = 0;
  uint64_t size_bytes = 0;  // of all of them
  uint64_t samples_per_file = 1;
  uint64_t repeats = 1;         // how often each file was read in an epoch, as a stream
  double size_stdev_bytes = 0;  // of a file
  uint64_t train_folders = 0;   // that hold the files; 0: unknown
  uint64_t eval_folders = 0;
  bool listed = false;         // every file is in the profile
  bool split_by_name = false;  // the names tell which files are for evaluations
  bool mapped = false;         // the files were mapped, not read
  analyze::IoTotals io = {};

  bool empty() const { return extension.empty(); }
  uint64_t train_samples() const { return train_files * samples_per_file; }
};

DataFiles data_files_of(const analyze::Profile& profile, const Counts& counts);

// What the functions below share.
struct Evidence {
  const analyze::Profile& profile;
  const Counts& counts;
  const DataFiles& files;
};

void derive_dataset(const Evidence& evidence, Sheet& sheet);
void derive_reader(const Evidence& evidence, Sheet& sheet);
void derive_training(const Evidence& evidence, Sheet& sheet);
void derive_evaluation(const Evidence& evidence, Sheet& sheet);
// Returns how many there are.
size_t derive_checkpoints(const Evidence& evidence, Sheet& sheet);

}  // namespace millrace::model
