// io: how bytes move between memory and files, by engines under one contract.
//
// Promises: errors are values that name what was attempted; no engine prints or starts a thread; an
// engine that the build or the kernel lacks says so when it is opened. docs/design/engines.md has
// what each is for and what it costs.
#pragma once

#include "io/engine.h"
#include "io/memory.h"
