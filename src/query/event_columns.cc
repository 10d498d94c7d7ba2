#include "query/event_columns.h"

namespace millrace::query {

std::vector<EventColumn> event_columns_of(const TableSchema& table) {
  const TableSchema& events = table_schema("events");
  std::vector<EventColumn> columns;
  for (const ColumnSchema& column : table.columns) {
    for (size_t i = 0; i < events.columns.size(); ++i) {
      if (events.columns[i].name == column.name) columns.push_back(static_cast<EventColumn>(i));
    }
  }
  return columns;
}

}  // namespace millrace::query
