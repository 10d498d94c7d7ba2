// io: engines that move bytes between memory and files. All of them fulfil one contract.
//
// Promises: errors are values that name what was attempted. No engine prints or starts a thread. An
// engine that the build or the kernel lacks fails to open and says why. docs/design/engines.md
// describes what each engine is for and what it costs.
#pragma once

#include "io/engine.h"
