#include "cli/query_output.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "base/text/table.h"
#include "base/text/text.h"
#include "interop/encode_text.h"

namespace millrace::cli {
namespace {

using query::Value;

constexpr size_t kBufferBytes = 1 << 16;

// x'00FF', as in SQL.
std::string blob_text(std::string_view bytes) {
  std::string text = "x'";
  for (const char byte : bytes) text += fmt::format("{:02X}", static_cast<uint8_t>(byte));
  return text + "'";
}

std::string number_text(double number) {
  std::string text;
  interop::append_number(text, number);
  return text;
}

class TablePrinter : public ResultPrinter {
 public:
  explicit TablePrinter(Output& output) : output_(output) {}

  Status begin(const std::vector<std::string>& columns) override {
    for (const std::string& name : columns) {
      columns_.push_back({.title = printable(name), .align = Table::Align::kRight});
    }
    return {};
  }

  Status row(std::span<const Value> values) override {
    std::vector<Table::Cell>& cells = rows_.emplace_back();
    for (size_t i = 0; i < values.size(); ++i) {
      const bool text =
          values[i].kind == query::ValueKind::kText || values[i].kind == query::ValueKind::kBlob;
      if (text) {
        columns_[i].align = Table::Align::kLeft;
        columns_[i].may_shrink = true;
      }
      cells.push_back(cell_of(values[i]));
    }
    return {};
  }

  void finish() override {
    Table table(std::move(columns_));
    for (auto& cells : rows_) table.add_row(std::move(cells));
    Terminal terminal = output_.terminal();
    // A file has no width.
    if (!terminal.is_terminal) terminal.columns = std::numeric_limits<size_t>::max();
    output_.print(table.render(terminal));
  }

 private:
  static Table::Cell cell_of(const Value& value) {
    switch (value.kind) {
      case query::ValueKind::kInteger:
        return std::to_string(value.integer);
      case query::ValueKind::kReal:
        return number_text(value.real);
      case query::ValueKind::kText:
        return printable(value.bytes);
      case query::ValueKind::kBlob:
        return blob_text(value.bytes);
      case query::ValueKind::kNull:
        break;
    }
    return {"NULL", Style::kDim};
  }

  Output& output_;
  std::vector<Table::Column> columns_;
  std::vector<std::vector<Table::Cell>> rows_;
};

// Buffers text.
class StreamPrinter : public ResultPrinter {
 public:
  explicit StreamPrinter(Output& output) : output_(output) {}

 protected:
  void flush_if_full() {
    if (text_.size() >= kBufferBytes) flush();
  }
  void flush() {
    output_.print(text_);
    text_.clear();
  }

  std::string text_;

 private:
  Output& output_;
};

class CsvPrinter : public StreamPrinter {
 public:
  using StreamPrinter::StreamPrinter;

  Status begin(const std::vector<std::string>& columns) override {
    for (size_t i = 0; i < columns.size(); ++i) {
      if (i > 0) text_ += ',';
      interop::append_csv_text(text_, columns[i]);
    }
    text_ += '\n';
    return {};
  }

  Status row(std::span<const Value> values) override {
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0) text_ += ',';
      append(values[i]);
    }
    text_ += '\n';
    flush_if_full();
    return {};
  }

  void finish() override { flush(); }

 private:
  // NULL is an empty field; an empty text is "".
  void append(const Value& value) {
    switch (value.kind) {
      case query::ValueKind::kInteger:
        return interop::append_integer(text_, value.integer);
      case query::ValueKind::kReal:
        return interop::append_number(text_, value.real);
      case query::ValueKind::kText:
        if (value.bytes.empty()) text_ += "\"\"";
        return interop::append_csv_text(text_, value.bytes);
      case query::ValueKind::kBlob:
        text_ += blob_text(value.bytes);
        return;
      case query::ValueKind::kNull:
        return;
    }
  }
};

class JsonPrinter : public StreamPrinter {
 public:
  using StreamPrinter::StreamPrinter;

  Status begin(const std::vector<std::string>& columns) override {
    std::set<std::string> taken;
    for (const std::string& name : columns) {
      // Keys must be unique; a join may have two columns of the same name.
      std::string key = name;
      for (int i = 2; !taken.insert(key).second; ++i) key = fmt::format("{}_{}", name, i);
      interop::append_json_text(keys_.emplace_back(), key);
    }
    text_ += '[';
    return {};
  }

  Status row(std::span<const Value> values) override {
    text_ += first_ ? "\n  {" : ",\n  {";
    first_ = false;
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0) text_ += ", ";
      text_ += keys_[i];
      text_ += ": ";
      append(values[i]);
    }
    text_ += '}';
    flush_if_full();
    return {};
  }

  void finish() override {
    text_ += first_ ? "]\n" : "\n]\n";
    flush();
  }

 private:
  void append(const Value& value) {
    switch (value.kind) {
      case query::ValueKind::kInteger:
        return interop::append_integer(text_, value.integer);
      case query::ValueKind::kReal:
        return interop::append_number(text_, value.real);
      case query::ValueKind::kText:
        return interop::append_json_text(text_, value.bytes);
      case query::ValueKind::kBlob:
        return interop::append_json_text(text_, blob_text(value.bytes));
      case query::ValueKind::kNull:
        text_ += "null";
        return;
    }
  }

  std::vector<std::string> keys_;
  bool first_ = true;
};

}  // namespace

std::unique_ptr<ResultPrinter> make_printer(ResultFormat format, Output& output) {
  switch (format) {
    case ResultFormat::kCsv:
      return std::make_unique<CsvPrinter>(output);
    case ResultFormat::kJson:
      return std::make_unique<JsonPrinter>(output);
    case ResultFormat::kTable:
      break;
  }
  return std::make_unique<TablePrinter>(output);
}

}  // namespace millrace::cli
