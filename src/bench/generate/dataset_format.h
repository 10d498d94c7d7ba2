// dataset_format: what a workload's dataset keys mean to src/format: the format, and the names and
// arrays of a sample.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/generate/content.h"
#include "bench/generate/layout.h"
#include "bench/workload/workload.h"
#include "format/format.h"

namespace millrace::bench {

// The format that reads and writes the dataset's files. Fails if this build does not have it, or
// cannot compress it in this way. Not for images and `synthetic`, which are plain files.
Result<std::unique_ptr<format::Format>> open_dataset_format(const DatasetConfig& dataset);

// An array of a sample as its format stores it.
struct SampleArray {
  std::string name;
  ContentArray content;
};

// The arrays of a sample that have generated content: the record first (or its parts, or the
// columns of Parquet), then dataset.fields. npz and npy files with several samples have them in one
// array with a last axis more.
Result<std::vector<SampleArray>> sample_arrays(const DatasetConfig& dataset, const Layout& layout,
                                               const SampleRef& sample);

// The label beside the record, unless a field of the workload takes its place.
LabelField label_of(const DatasetConfig& dataset);

}  // namespace millrace::bench
