// Query output: the rows of a query as a table, as CSV or as JSON.
//
// CSV and JSON are printed row by row; a table waits for the last row, to know its widths. Texts
// are untrusted: ill-formed bytes are shown as \xNN.
#pragma once

#include <memory>

#include "cli/output.h"
#include "query/query.h"

namespace millrace::cli {

class ResultPrinter : public query::RowSink {
 public:
  // After the last row.
  virtual void finish() = 0;
};

enum class ResultFormat { kTable, kCsv, kJson };

std::unique_ptr<ResultPrinter> make_printer(ResultFormat format, Output& output);

}  // namespace millrace::cli
