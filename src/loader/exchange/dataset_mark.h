// dataset_mark: a number by which a dataset is told from another one with as many samples.
//
// From the number of samples, and of up to 4096 of them, evenly spread, the last part of the name
// and the label: quick for millions of samples, and the same wherever the dataset lies. What is in
// the samples is not looked at. Never 0. docs/formats/local-storage.md.
#pragma once

#include <cstdint>

#include "data/source.h"

namespace millrace::loader {

uint64_t dataset_mark(const data::SampleSource& dataset);

}  // namespace millrace::loader
