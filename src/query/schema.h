// Schema: the tables and columns that a query can use and their meaning, as data for documentation.
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

// REQUIRES: the table exists.
const TableSchema& table_schema(std::string_view name);

// "CREATE TABLE events(...)", as SQLite expects for a virtual table.
std::string declaration(const TableSchema& table);

}  // namespace millrace::query
