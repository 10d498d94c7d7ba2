// Rows: a table that is complete before it is read: files, processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "query/queried_trace.h"
#include "query/query.h"

namespace millrace::query {

class Rows {
 public:
  virtual ~Rows() = default;
  virtual size_t count() const = 0;
  // Texts live as long as this object. REQUIRES: row and column exist.
  virtual Value cell(size_t row, size_t column) const = 0;
};

// Columns are in the order of schema.h. make_files() reads the whole trace.
Result<std::unique_ptr<Rows>> make_files(QueriedTrace& source);
Result<std::unique_ptr<Rows>> make_processes(QueriedTrace& source);

// Finds the rows whose column equals a value, by binary search.
class RowIndex {
 public:
  RowIndex(const Rows& rows, size_t column);

  // Finds nothing for values other than texts and integers.
  std::vector<uint32_t> find(const Value& value) const;

 private:
  const Rows& rows_;
  size_t column_;
  std::vector<uint32_t> order_;  // rows sorted by value, without NULLs
};

}  // namespace millrace::query
