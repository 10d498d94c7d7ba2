// fingerprint: a number that tells one dataset from another with as many samples.
//
// Of the names and labels of the samples, in their order, without the directory they all lie in: a
// dataset that was moved keeps it, and one in which a file was added, removed or renamed does not.
// It does not look at the bytes. Of more than a million samples it asks evenly spread ones: a
// million names take about half a second.
#pragma once

#include <cstdint>

#include "data/source.h"

namespace millrace::data {

uint32_t fingerprint(const SampleSource& source);

}  // namespace millrace::data
