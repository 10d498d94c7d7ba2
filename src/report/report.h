// report: how a profile and its findings are shown to people.
//
// What is shown is worked out elsewhere (analyze, advise); this only writes it. The functions
// return text and touch no file and no terminal.
#pragma once

#include "report/html.h"    // IWYU pragma: export
#include "report/tables.h"  // IWYU pragma: export
#include "report/text.h"    // IWYU pragma: export
