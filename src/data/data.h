// data: the vocabulary of training data: which sample, where its bytes lie, how they become arrays.
//
// Promises: interfaces and plain values; nothing here opens a file or starts a thread. A source
// gives encoded bytes by number, a decoder makes the elements of a batch of them, and the loader
// knows no more of either. Formats and stores implement sources; docs/design/dataset.md says how a
// million files are kept in few bytes.
#pragma once

#include "data/array.h"
#include "data/batch.h"
#include "data/dataset.h"
#include "data/decoder.h"
#include "data/reads.h"
#include "data/sample.h"
#include "data/source.h"
