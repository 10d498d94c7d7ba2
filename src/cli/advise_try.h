// advise_try: measures what `millrace store` gains for a job, for `advise --try`.
//
// Packs a random sample of the files that the job read, and makes the job's calls on them again: on
// the files themselves, and through a store. The dataset is only read.
#pragma once

#include <optional>
#include <string>

#include "advise/trial.h"
#include "base/result.h"

namespace millrace::cli {

struct TryOptions {
  std::string trace;
  std::optional<std::string> parent;  // where the sample goes; a folder in it is made and removed
};

// Fails if the trace is only a profile, or if its dataset is not there any more.
Result<advise::Trial> try_store(const TryOptions& options);

}  // namespace millrace::cli
