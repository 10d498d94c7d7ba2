// model: the workload whose I/O is that of a trace, and how close it comes.
//
// model_of() turns the profile of a job into a bench::Workload: which files, how large, in which
// order, by how many readers, with how much compute between the batches. Every key says what it was
// derived from. What the trace does not show is assumed, and what a workload cannot express is
// listed: the result never pretends to know more than the trace. docs/guide/model.md has the rules.
//
// Pure functions of profiles: nothing is read, written or run here.
//
//   counts.h         how many epochs, steps, samples and evaluations
//   format_names.h   the format of a file, by its name
//   step_times.h     the time of the training loop for a batch
//   sheet.h          the workload while it is filled in, key by key
//   modelled_text.h  the workload as YAML with comments, and as JSON
//   fidelity.h       compares the job with a run of its model
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyze/profile/profile.h"
#include "base/result.h"
#include "bench/workload/workload.h"

namespace millrace::model {

// A key of the workload that was set.
struct DerivedKey {
  std::string key;    // "reader.batch_size"
  std::string value;  // as in YAML: "16", "jpeg", "{type: normal, mean: 0.1, stdev: 0.01}"
  std::string why;    // "960 samples in 60 steps"
  bool assumed = false;
};

struct Modelled {
  bench::Workload workload;
  uint64_t ranks = 1;  // to run it with; no key of a workload says that
  std::vector<DerivedKey> keys;
  std::vector<std::string> assumptions;  // sentences
  std::vector<std::string> missing;      // sentences: what is not modelled
};

struct ModelOptions {
  std::string name;  // of the workload; empty: from the command of the job
};

// The more of its lists the profile has (Limits::files, Limits::all_steps), the closer the sizes
// and times. Fails if the job neither read data nor wrote checkpoints nor made steps.
Result<Modelled> model_of(const analyze::Profile& profile, const ModelOptions& options = {});

}  // namespace millrace::model
