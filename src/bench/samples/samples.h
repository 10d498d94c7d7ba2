// samples: the samples of a generated dataset, opened as the workload's loader would.
//
// Nothing is listed: names come from the Layout, and the places of samples from the first file if
// all its samples are equally long. So a run over millions of files starts at once, and a file that
// differs fails when it is read (sample_check.h). Files of other formats are opened here, and must
// have as many samples as the workload says.
#pragma once

#include <memory>

#include "base/result.h"
#include "bench/generate/layout.h"
#include "bench/samples/measured_engine.h"
#include "bench/samples/measured_source.h"
#include "bench/samples/page_cache.h"
#include "bench/samples/sample_check.h"
#include "bench/workload/workload.h"
#include "data/decoder.h"
#include "data/source.h"

namespace millrace::bench {

struct OpenedDataset {
  std::shared_ptr<const data::SampleSource> source;
  std::shared_ptr<const data::Decoder> decoder;
  std::shared_ptr<ReadCounts> counts;
  std::shared_ptr<LatencyRecorder> latencies;
  std::shared_ptr<CheckCost> checks;
  // With reader.on_error=skip: the samples of files that cannot be opened, and why the first.
  uint64_t left_out_count = 0;
  std::string first_left_out;
};

// REQUIRES: the split has files.
Result<OpenedDataset> open_dataset(const Workload& workload, const Layout& layout, Split split);

// With reader.read_type=memory, reads all samples. Apart from open_dataset(), which may read files
// for their index, so that a run can drop them from the page cache in between.
Status read_if_in_memory(const Workload& workload, OpenedDataset& dataset);

FileList files_of(const Layout& layout, Split split);

}  // namespace millrace::bench
