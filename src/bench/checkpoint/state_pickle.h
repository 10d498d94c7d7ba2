// state_pickle: the pickled state dict of a torch file, which names its tensors and their types.
//
// Python's pickle protocol 2, with only what torch.load(weights_only=True) accepts.
#pragma once

#include <span>
#include <string>

#include "bench/checkpoint/plan.h"

namespace millrace::bench {

// The tensor at index i is the member `data/i` of the file. Tensors of one group follow each other.
std::string pickle_state(std::span<const PlannedTensor> tensors);

}  // namespace millrace::bench
