// samples: the samples of a generated dataset, opened as the workload's loader would.
//
// Nothing is listed: names come from the Layout, and the places of samples from the first file if
// all its samples are equally long. So a run over millions of files starts at once, and a file that
// differs fails when it is read.
#pragma once

#include <memory>

#include "base/result.h"
#include "bench/layout.h"
#include "bench/measured_engine.h"
#include "bench/measured_source.h"
#include "bench/page_cache.h"
#include "bench/workload.h"
#include "data/decoder.h"
#include "data/source.h"

namespace millrace::bench {

struct OpenedDataset {
  std::shared_ptr<const data::SampleSource> source;
  std::shared_ptr<const data::Decoder> decoder;
  std::shared_ptr<ReadCounts> counts;
  std::shared_ptr<LatencyRecorder> latencies;
};

// REQUIRES: the split has files.
Result<OpenedDataset> open_dataset(const Workload& workload, const Layout& layout, Split split);

FileList files_of(const Layout& layout, Split split);

}  // namespace millrace::bench
