// Virtual tables: how SQLite sees a QueriedTrace. Only for files that include SQLite's header.
//
// Both kinds are eponymous: a query names them and nothing is created. Functions that SQLite calls
// are noexcept, because an exception must not pass through its C frames. Out of memory ends the
// program, as it does elsewhere.
#pragma once

#include <sqlite3.h>

#include <string>

#include "query/queried_trace.h"
#include "query/schema.h"

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

// A module whose tables and cursors are made and deleted here. Its other functions are the
// caller's. Each table has a Kind, which points to its `schema`; a Table is made of its Kind, a
// Cursor of its Table.
template <typename Kind, typename Table, typename Cursor>
sqlite3_module module_of() {
  sqlite3_module module{};
  // No xCreate: the table exists without CREATE.
  module.xConnect = [](sqlite3* connection, void* kind, int, const char* const*,
                       sqlite3_vtab** table, char** error) noexcept {
    const Kind& of = *static_cast<const Kind*>(kind);
    const int code = sqlite3_declare_vtab(connection, declaration(*of.schema).c_str());
    if (code != SQLITE_OK) {
      *error = sqlite3_mprintf("%s", sqlite3_errmsg(connection));
      return code;
    }
    *table = new Table(of);
    return SQLITE_OK;
  };
  module.xDisconnect = [](sqlite3_vtab* table) noexcept {
    delete static_cast<Table*>(table);
    return SQLITE_OK;
  };
  module.xOpen = [](sqlite3_vtab* table, sqlite3_vtab_cursor** cursor) noexcept {
    *cursor = new Cursor(*static_cast<Table*>(table));
    return SQLITE_OK;
  };
  module.xClose = [](sqlite3_vtab_cursor* cursor) noexcept {
    delete static_cast<Cursor*>(cursor);
    return SQLITE_OK;
  };
  return module;
}

// `module` must live as long as the connection.
template <typename Kind>
int register_kind(sqlite3* connection, const sqlite3_module& module, const Kind& kind) {
  return sqlite3_create_module_v2(connection, std::string(kind.schema->name).c_str(), &module,
                                  new Kind(kind), [](void* of) { delete static_cast<Kind*>(of); });
}

}  // namespace millrace::query
