// report: profiles, findings, comparisons and scaling as text, JSON and HTML.
//
// analyze and advise compute the content; this module only formats it. Its functions return
// strings, and access neither files nor terminals.
#pragma once

#include "report/compare.h"  // IWYU pragma: export
#include "report/html.h"     // IWYU pragma: export
#include "report/scaling.h"  // IWYU pragma: export
#include "report/tables.h"   // IWYU pragma: export
#include "report/text.h"     // IWYU pragma: export
