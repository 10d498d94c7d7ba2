// Asking: returns the rows of a query as text, for tests: "open|3|NULL".
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "query/query.h"

namespace millrace::query {

class TextRows : public RowSink {
 public:
  Status begin(const std::vector<std::string>& columns) override {
    titles = columns;
    return {};
  }
  Status row(std::span<const Value> values) override {
    std::string& line = rows.emplace_back();
    for (const Value& value : values) {
      if (&value != values.data()) line += '|';
      switch (value.kind) {
        case ValueKind::kNull:
          line += "NULL";
          break;
        case ValueKind::kInteger:
          line += std::to_string(value.integer);
          break;
        case ValueKind::kReal:
          line += fmt::format("{}", value.real);
          break;
        case ValueKind::kText:
        case ValueKind::kBlob:
          line += value.bytes;
          break;
      }
    }
    return {};
  }

  std::vector<std::string> titles;
  std::vector<std::string> rows;
};

// The rows. An error fails the test.
inline std::vector<std::string> ask(Database& database, std::string_view sql) {
  TextRows sink;
  const Status status = database.run(sql, sink);
  EXPECT_TRUE(status.ok()) << status.error().message();
  return std::move(sink.rows);
}

// The error message. Empty if the query succeeded.
inline std::string ask_for_error(Database& database, std::string_view sql) {
  TextRows sink;
  const Status status = database.run(sql, sink);
  return status.ok() ? "" : status.error().message();
}

}  // namespace millrace::query
