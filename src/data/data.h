// data: the vocabulary of training data: which sample, where its bytes are, how they become arrays.
//
// Only interfaces and plain values: nothing here opens a file or starts a thread. A source returns
// the encoded bytes of a sample by index, and a decoder turns them into elements of a batch. The
// loader knows nothing else about either. Formats and stores implement sources.
// docs/design/dataset.md explains how a million files fit into few bytes.
#pragma once

#include "data/array.h"
#include "data/batch.h"
#include "data/dataset.h"
#include "data/decoder.h"
#include "data/reads.h"
#include "data/sample.h"
#include "data/source.h"
