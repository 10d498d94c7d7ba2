// Schema: the tables a query sees, their columns and what these mean; as data, for all who show it.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace millrace::query {

struct ColumnSchema {
  std::string_view name;
  std::string_view type;  // TEXT or INTEGER
  std::string_view meaning;
};

struct TableSchema {
  std::string_view name;
  std::string_view meaning;
  std::span<const ColumnSchema> columns;
};

std::span<const TableSchema> tables();

// REQUIRES: it is one of them.
const TableSchema& table_schema(std::string_view name);

// "CREATE TABLE events(...)", as SQLite wants to hear of a virtual table.
std::string declaration(const TableSchema& table);

}  // namespace millrace::query
