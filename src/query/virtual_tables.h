// Virtual tables: how SQLite sees a QueriedTrace. For files that include SQLite's header.
//
// Both kinds are eponymous: a query names them, and nothing is created. Functions that SQLite calls
// are noexcept: an exception must not go through its C frames, and memory that has run out ends the
// program as it would elsewhere.
#pragma once

#include <sqlite3.h>

#include "query/queried_trace.h"

namespace millrace::query {

// Each makes its tables known to a connection, and gives SQLite's code. `source` must live as long.
int register_events(sqlite3* connection, QueriedTrace& source);  // events, regions
int register_rows(sqlite3* connection, QueriedTrace& source);    // files, processes

// percentile(X, P).
int register_functions(sqlite3* connection);

// A message for the error that a virtual table's function is about to return.
inline void set_error(sqlite3_vtab& table, const char* message) {
  sqlite3_free(table.zErrMsg);
  table.zErrMsg = sqlite3_mprintf("%s", message);
}

}  // namespace millrace::query
