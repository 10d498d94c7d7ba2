// report: how profiles and findings are shown to people, one by one and against each other.
//
// What is shown is worked out elsewhere (analyze, advise); this only writes it. The functions
// return text and touch no file and no terminal.
#pragma once

#include "report/compare.h"  // IWYU pragma: export
#include "report/html.h"     // IWYU pragma: export
#include "report/scaling.h"  // IWYU pragma: export
#include "report/tables.h"   // IWYU pragma: export
#include "report/text.h"     // IWYU pragma: export
