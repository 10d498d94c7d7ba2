#include "format/text/csv.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>
#include <deque>
#include <limits>
#include <set>

#include "base/concurrency/mutex.h"
#include "base/text/text.h"
#include "format/file_pieces.h"
#include "format/formats.h"
#include "format/text/number_text.h"

namespace millrace::format {
namespace {

using data::ElementType;

Result<std::vector<std::string>> names_of(std::string_view row, char delimiter) {
  std::vector<std::string> names;
  CsvCells cells(row, delimiter);
  while (!cells.at_end()) {
    ASSIGN_OR_RETURN(const CsvCells::Cell cell, cells.next());
    names.push_back(cell.has_doubled_quotes ? CsvCells::unquoted(cell.text)
                                            : std::string(cell.text));
  }
  return names;
}

bool are_names(const std::vector<std::string>& names) {
  std::set<std::string_view> seen;
  return std::ranges::all_of(
      names, [&](const std::string& name) { return !name.empty() && seen.insert(name).second; });
}

// The first names, for errors.
std::string listed(const CsvColumns& columns) {
  constexpr size_t kShown = 6;
  if (columns.are_ragged) return "columns of numbers without names";
  if (!columns.has_header) return fmt::format("{} columns without names", columns.names.size());
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(kShown, columns.names.size()); ++i) {
    shown.push_back(fmt::format("'{}'", printable(columns.names[i])));
  }
  if (columns.names.size() > kShown) shown.emplace_back("...");
  return fmt::format("{} columns {}", columns.names.size(), join(shown, ", "));
}

// What is known about the columns of all files so far. Older states are kept, because samples that
// were split by them have views of their names.
class LearnedColumns {
 public:
  const CsvColumns* get() const { return latest_.load(std::memory_order_acquire); }

  // Fails if another file has other columns.
  Status learn(CsvColumns columns) {
    const MutexLock lock(mutex_);
    if (!states_.empty()) {
      const CsvColumns& known = states_.back();
      make_ragged(known, columns);
      if (columns.are_ragged) {
        return columns == known ? Status() : replace(std::move(columns));
      }
      if (known.are_ragged || known.has_header != columns.has_header ||
          known.names != columns.names) {
        return fail(Errc::kInvalidArgument,
                    "has {}, but another file has {}; open files with the same columns, and say "
                    "whether their first row is a header",
                    listed(columns), listed(known));
      }
      for (size_t i = 0; i < columns.kinds.size(); ++i) {
        columns.kinds[i] = std::max(columns.kinds[i], known.kinds[i]);
      }
      if (columns == known) return {};
    }
    return replace(std::move(columns));
  }

 private:
  // Rows of numbers whose lengths differ become one kind of cell, in any number.
  static void make_ragged(const CsvColumns& known, CsvColumns& columns) {
    if (!known.is_array() || !columns.is_array()) return;
    if (!known.are_ragged && known.kinds.size() == columns.kinds.size()) return;
    columns.kinds = {
        std::max(*std::ranges::max_element(known.kinds), *std::ranges::max_element(columns.kinds))};
    columns.names = {"0"};
    columns.are_ragged = true;
  }

  Status replace(CsvColumns columns) REQUIRES(mutex_) {
    states_.push_back(std::move(columns));
    latest_.store(&states_.back(), std::memory_order_release);
    return {};
  }

  Mutex mutex_;
  std::deque<CsvColumns> states_ GUARDED_BY(mutex_);  // a deque, because its elements do not move
  std::atomic<const CsvColumns*> latest_ = nullptr;
};

// Parses the cells of a row one by one.
class RowReader {
 public:
  RowReader(std::string_view row, char delimiter) : cells_(row, delimiter) {}

  // Fails if there are more cells.
  Status finish() const {
    if (cells_.at_end()) return {};
    return fail(Errc::kCorrupt, "the row has more than {} cells; the file has changed", count_);
  }

  Result<CsvCells::Cell> next() {
    if (cells_.at_end()) {
      return fail(Errc::kCorrupt, "the row has only {} cells; the file has changed", count_);
    }
    ++count_;
    return cells_.next();
  }

  template <typename T>
  Result<T> number() {
    ASSIGN_OR_RETURN(const CsvCells::Cell cell, next());
    if (const auto value = parse_number<T>(cell.text)) return *value;
    if constexpr (std::is_floating_point_v<T>) {
      if (cell.text.find_first_not_of(" \r") == std::string_view::npos) {
        return std::numeric_limits<T>::quiet_NaN();
      }
    }
    return fail(Errc::kCorrupt, "cell {} is '{}', but a number is expected; the file has changed",
                count_, printable(cell.text.substr(0, 40)));
  }

 private:
  CsvCells cells_;
  size_t count_ = 0;
};

// Parses a row of plain numbers. False if a cell is anything else: empty, in quotes, with spaces.
template <typename T>
bool read_plain(std::string_view row, char delimiter, MutableByteView out) {
  const char* at = row.data();
  const char* end = at + row.size();
  for (size_t offset = 0; offset < out.size(); offset += sizeof(T)) {
    T value{};
    const auto [stop, error] = std::from_chars(at, end, value);
    if (error != std::errc()) return false;
    std::memcpy(out.data() + offset, &value, sizeof(T));
    if (stop == end) return offset + sizeof(T) == out.size();
    if (*stop != delimiter) return false;
    at = stop + 1;
  }
  return false;  // more cells follow
}

template <typename T>
Status read_array(std::string_view text, char delimiter, size_t count, SampleFields& fields,
                  ElementType type) {
  const MutableByteView room = fields.room(count * sizeof(T));
  if (!read_plain<T>(text, delimiter, room)) {
    RowReader row(text, delimiter);
    for (size_t i = 0; i < count; ++i) {
      ASSIGN_OR_RETURN(const T value, row.number<T>());
      std::memcpy(room.data() + i * sizeof(T), &value, sizeof(T));
    }
    RETURN_IF_ERROR(row.finish());
  }
  fields.add({.name = "data",
              .array = {.type = type, .shape = {count}, .bytes = room},
              .is_number_text = true});
  return {};
}

template <typename T>
Result<data::ArrayView> read_number(RowReader& row, MutableByteView room, ElementType type) {
  ASSIGN_OR_RETURN(const T value, row.number<T>());
  std::memcpy(room.data(), &value, sizeof(T));
  return data::ArrayView{.type = type, .shape = {}, .bytes = room.first(sizeof(T))};
}

Result<data::ArrayView> read_text(RowReader& row, SampleFields& fields) {
  ASSIGN_OR_RETURN(const CsvCells::Cell cell, row.next());
  std::string_view text = cell.text;
  if (cell.has_doubled_quotes) text = fields.keep(CsvCells::unquoted(text));
  return bytes_field("", bytes_of(text)).array;
}

class Csv final : public Format {
 public:
  Csv(std::string_view name, char delimiter, const FormatOptions& options)
      : name_(name), delimiter_(delimiter), header_(options.header), float_(options.text_float) {}

  std::string_view name() const override { return name_; }
  bool is_file_a_sample() const override { return false; }

  Result<data::FileSamples> index(io::Engine& engine,
                                  const std::filesystem::path& path) const override {
    ASSIGN_OR_RETURN(const auto reader, engine.open(path));
    ASSIGN_OR_RETURN(const uint64_t size, reader->size_bytes());
    CsvScan scan(delimiter_);
    RETURN_IF_ERROR(
        for_each_piece(*reader, size, [&](std::string_view piece) { return scan.add(piece); }));
    RETURN_IF_ERROR(scan.finish());
    data::FileSamples samples{.kind = data::FileSamples::Kind::kListed,
                              .stamp = {.size_bytes = size}};
    if (scan.rows().empty()) return samples;
    ASSIGN_OR_RETURN(const std::string first, read_text_at(*reader, scan.rows().front()));
    ASSIGN_OR_RETURN(CsvColumns columns, columns_of(scan, first));
    samples.spans = scan.take_rows();
    if (columns.has_header) samples.spans.erase(samples.spans.begin());
    RETURN_IF_ERROR(learned_.learn(std::move(columns)));
    return samples;
  }

  Status split(ByteView sample, SampleFields& fields) const override {
    fields.clear();
    const std::string_view row = text_of(sample);
    if (const CsvColumns* columns = learned_.get()) return split_row(row, *columns, fields);
    // No file was indexed: only this row shows what it is.
    CsvScan scan(delimiter_);
    RETURN_IF_ERROR(scan.add(row));
    RETURN_IF_ERROR(scan.finish());
    if (scan.rows().size() != 1 || scan.rows()[0].size_bytes != row.size()) {
      return fail(Errc::kCorrupt, "a sample is one row, but this has {}", scan.rows().size());
    }
    CsvColumns columns;
    columns.kinds = scan.first_kinds();
    for (size_t i = 0; i < columns.kinds.size(); ++i) {
      columns.names.push_back(std::to_string(i));
    }
    return split_row(row, columns, fields);
  }

  Result<std::unique_ptr<SampleWriter>> create(io::Engine& engine,
                                               const std::filesystem::path& path) const override {
    ASSIGN_OR_RETURN(auto writer, engine.create(path));
    return make_csv_writer(std::move(writer), delimiter_, header_);
  }

 private:
  Result<CsvColumns> columns_of(const CsvScan& scan, std::string_view first_row) const {
    CsvColumns columns;
    columns.kinds = scan.kinds();
    ASSIGN_OR_RETURN(columns.names, names_of(first_row, delimiter_));
    const bool all_text = std::ranges::all_of(
        scan.first_kinds(), [](CellKind kind) { return kind == CellKind::kText; });
    columns.has_header = header_ == HeaderRow::kYes ||
                         (header_ == HeaderRow::kDetect && all_text && are_names(columns.names));
    if (columns.has_header && !are_names(columns.names)) {
      return fail(Errc::kCorrupt, "the header has a column without a name, or a name twice");
    }
    if (columns.has_header) return columns;
    for (size_t i = 0; i < columns.kinds.size(); ++i) {
      columns.names[i] = std::to_string(i);
      columns.kinds[i] = std::max(columns.kinds[i], scan.first_kinds()[i]);
    }
    return columns;
  }

  Status split_row(std::string_view row, const CsvColumns& columns, SampleFields& fields) const {
    if (!columns.is_array()) return split_columns(row, columns, fields);
    // Numbers are not in quotes, so that a delimiter is one.
    const size_t count = columns.are_ragged
                             ? static_cast<size_t>(std::ranges::count(row, delimiter_)) + 1
                             : columns.kinds.size();
    if (std::ranges::all_of(columns.kinds,
                            [](CellKind kind) { return kind == CellKind::kInteger; })) {
      return read_array<int64_t>(row, delimiter_, count, fields, ElementType::kI64);
    }
    if (float_ == ElementType::kF64) {
      return read_array<double>(row, delimiter_, count, fields, float_);
    }
    return read_array<float>(row, delimiter_, count, fields, ElementType::kF32);
  }

  Status split_columns(std::string_view text, const CsvColumns& columns,
                       SampleFields& fields) const {
    RowReader row(text, delimiter_);
    MutableByteView numbers = fields.room(columns.kinds.size() * sizeof(double));
    for (size_t i = 0; i < columns.kinds.size(); ++i) {
      const MutableByteView room = numbers.subspan(i * sizeof(double), sizeof(double));
      ASSIGN_OR_RETURN(const data::ArrayView array, read_cell(row, columns.kinds[i], room, fields));
      const bool is_text = columns.kinds[i] == CellKind::kText;
      // Columns that were not learned are gone after this call.
      const std::string_view name = columns.has_header || learned_.get() == &columns
                                        ? std::string_view(columns.names[i])
                                        : fields.keep(columns.names[i]);
      fields.add({.name = name, .array = array, .is_number_text = !is_text, .is_text = is_text});
    }
    return row.finish();
  }

  Result<data::ArrayView> read_cell(RowReader& row, CellKind kind, MutableByteView room,
                                    SampleFields& fields) const {
    if (kind == CellKind::kText) return read_text(row, fields);
    if (kind == CellKind::kInteger) return read_number<int64_t>(row, room, ElementType::kI64);
    return float_ == ElementType::kF64 ? read_number<double>(row, room, float_)
                                       : read_number<float>(row, room, ElementType::kF32);
  }

  std::string_view name_;
  char delimiter_;
  HeaderRow header_;
  ElementType float_;
  mutable LearnedColumns learned_;
};

}  // namespace

bool CsvColumns::is_array() const {
  return !has_header && std::ranges::find(kinds, CellKind::kText) == kinds.end();
}

std::unique_ptr<Format> make_csv(const FormatOptions& options) {
  return std::make_unique<Csv>("csv", ',', options);
}

std::unique_ptr<Format> make_tsv(const FormatOptions& options) {
  return std::make_unique<Csv>("tsv", '\t', options);
}

}  // namespace millrace::format
