#include "query/rows.h"

#include <algorithm>
#include <limits>
#include <type_traits>

namespace millrace::query {
namespace {

Value integer(int64_t value) { return {.kind = ValueKind::kInteger, .integer = value}; }
Value unsigned_integer(uint64_t value) {
  return integer(
      static_cast<int64_t>(std::min<uint64_t>(value, std::numeric_limits<int64_t>::max())));
}
Value text(std::string_view value) { return {.kind = ValueKind::kText, .bytes = value}; }
Value integer_unless_negative(int64_t value) { return value < 0 ? Value() : integer(value); }

template <typename T, bool optional>
Value read_field(const std::byte* at) {
  const T& value = *reinterpret_cast<const T*>(at);
  if constexpr (std::is_enum_v<T>) {
    return text(analyze::name_of(value));
  } else if constexpr (std::is_unsigned_v<T>) {
    return is_missing(analyze::Field{.optional = optional}, value) ? Value()
                                                                   : unsigned_integer(value);
  } else {
    return text(value);
  }
}

// Where the columns of a file are in FileStats. To visit all fields for every cell would make joins
// several times slower.
class FileColumns {
 public:
  FileColumns() { visit_columns(*this, sample_); }

  template <typename T>
  void operator()(std::string_view, const analyze::Field& field, const T& value) {
    const auto* begin = reinterpret_cast<const std::byte*>(&sample_);
    columns_.push_back({.offset_bytes = reinterpret_cast<const std::byte*>(&value) - begin,
                        .read = field.optional ? read_field<T, true> : read_field<T, false>});
  }

  Value cell(const analyze::FileStats& file, size_t column) const {
    const Column& of = columns_[column];
    return of.read(reinterpret_cast<const std::byte*>(&file) + of.offset_bytes);
  }

 private:
  struct Column {
    ptrdiff_t offset_bytes = 0;
    Value (*read)(const std::byte* at) = nullptr;
  };

  analyze::FileStats sample_;
  std::vector<Column> columns_;
};

class FileRows : public Rows {
 public:
  explicit FileRows(const std::vector<analyze::FileStats>& files) : files_(files) {}

  size_t count() const override { return files_.size(); }

  Value cell(size_t row, size_t column) const override {
    return columns_.cell(files_[row], column);
  }

 private:
  const std::vector<analyze::FileStats>& files_;
  FileColumns columns_;
};

class ProcessRows : public Rows {
 public:
  explicit ProcessRows(QueriedTrace& source)
      : source_(source), events_(source.trace().processes().size()) {
    for (const trace::BlockInfo& block : source.trace().blocks()) {
      const auto process = static_cast<size_t>(block.process);
      if (process < events_.size()) events_[process] += block.event_count;
    }
  }

  size_t count() const override { return events_.size(); }

  Value cell(size_t row, size_t column) const override {
    const trace::Trace& trace = source_.trace();
    const trace::Process& process = trace.processes()[row];
    switch (column) {
      case 0:
        return unsigned_integer(row);
      case 1:
        return integer(process.pid);
      case 2:
        return integer(process.parent_pid);
      case 3:
        return integer_unless_negative(source_.rank_of(static_cast<trace::ProcessIndex>(row)));
      case 4:
        return text(source_.host_of(process));
      case 5:
        return text(trace.name(process.command_line));
      case 6:
        return integer(from_begin(process.start_ns));
      case 7:
        return integer(from_begin(process.end_ns));
      case 8:
        return process.exited ? integer(process.exit_code) : Value();
      case 9:
        return unsigned_integer(events_[row]);
      case 10:
        return text(trace.name(process.executable));
      case 11:
        return text(trace.name(process.working_directory));
      case 12:
        return integer_unless_negative(process.world_size);
      default:
        return {};
    }
  }

 private:
  // Negative if a process started before the first event of the job.
  int64_t from_begin(uint64_t time_ns) const {
    return static_cast<int64_t>(time_ns - source_.begin_ns());
  }

  QueriedTrace& source_;
  std::vector<uint64_t> events_;
};

// Integers before texts, as in SQLite.
bool is_less(const Value& a, const Value& b) {
  if (a.kind != b.kind) return a.kind < b.kind;
  return a.kind == ValueKind::kInteger ? a.integer < b.integer : a.bytes < b.bytes;
}

}  // namespace

Result<std::unique_ptr<Rows>> make_files(QueriedTrace& source) {
  ASSIGN_OR_RETURN(const auto* files, source.files());
  return std::unique_ptr<Rows>(std::make_unique<FileRows>(*files));
}

Result<std::unique_ptr<Rows>> make_processes(QueriedTrace& source) {
  return std::unique_ptr<Rows>(std::make_unique<ProcessRows>(source));
}

RowIndex::RowIndex(const Rows& rows, size_t column) : rows_(rows), column_(column) {
  for (uint32_t row = 0; row < rows.count(); ++row) {
    if (rows.cell(row, column).kind != ValueKind::kNull) order_.push_back(row);
  }
  std::stable_sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) {
    return is_less(rows_.cell(a, column_), rows_.cell(b, column_));
  });
}

std::vector<uint32_t> RowIndex::find(const Value& value) const {
  if (value.kind != ValueKind::kInteger && value.kind != ValueKind::kText) return {};
  const auto first = std::lower_bound(
      order_.begin(), order_.end(), value,
      [&](uint32_t row, const Value& wanted) { return is_less(rows_.cell(row, column_), wanted); });
  auto last = first;
  while (last != order_.end() && !is_less(value, rows_.cell(*last, column_))) ++last;
  return {first, last};
}

}  // namespace millrace::query
