// Virtual tables: how SQLite sees a QueriedTrace. Only for files that include SQLite's header.
//
// Both kinds are eponymous: a query names them and nothing is created. Functions that SQLite calls
// are noexcept, because an exception must not pass through its C frames. Out of memory ends the
// program, as it does elsewhere.
#pragma once

#include <sqlite3.h>

#include "query/queried_trace.h"

namespace millrace::query {

// Each registers its tables with a connection and returns an SQLite code. `source` must outlive the
// connection.
int register_events(sqlite3* connection, QueriedTrace& source);  // events, regions
int register_rows(sqlite3* connection, QueriedTrace& source);    // files, processes

// percentile(X, P).
int register_functions(sqlite3* connection);

// Sets the message for an error that a function of a virtual table is about to return.
inline void set_error(sqlite3_vtab& table, const char* message) {
  sqlite3_free(table.zErrMsg);
  table.zErrMsg = sqlite3_mprintf("%s", message);
}

}  // namespace millrace::query
