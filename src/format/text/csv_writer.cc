#include "base/text/text.h"
#include "format/appender.h"
#include "format/text/csv.h"
#include "format/text/number_text.h"

namespace millrace::format {
namespace {

// What the first sample looked like; the others must look the same.
struct CsvShape {
  std::vector<std::string> names;
  std::vector<bool> are_text;
  size_t element_count = 0;  // of a row that is one array

  bool operator==(const CsvShape&) const = default;
};

// Whether it would be read as a number or as an empty cell if it had no quotes.
bool looks_like_number(std::string_view text) {
  return text.find_first_not_of(" \r") == std::string_view::npos ||
         parse_number<double>(text).has_value();
}

class CsvWriter final : public SampleWriter {
 public:
  CsvWriter(std::unique_ptr<io::Writer> writer, char delimiter, HeaderRow header)
      : out_(std::move(writer)), delimiter_(delimiter), header_(header) {}

  Status add(std::string_view key, std::span<const Field> fields) override {
    if (fields.empty()) {
      return fail(Errc::kInvalidArgument, "sample '{}' has no fields", printable(key));
    }
    CsvShape shape;
    for (const Field& field : fields) {
      shape.names.emplace_back(field.name);
      shape.are_text.push_back(is_text_field(field, fields));
    }
    const bool is_array = fields.size() == 1 && !shape.are_text[0] && !is_named(fields[0]);
    if (is_array) shape.element_count = fields[0].array.shape.element_count();
    if (is_first_) {
      RETURN_IF_ERROR(write_header(shape));
      shape_ = shape;
    } else if (shape != shape_) {
      return fail(Errc::kInvalidArgument,
                  "sample '{}' has other columns than the first; all rows must have the same",
                  printable(key));
    }
    is_first_ = false;
    line_.clear();
    RETURN_IF_ERROR(is_array ? put_array(fields[0].array) : put_cells(key, fields));
    line_ += '\n';
    return out_.append(line_);
  }

  Status finish() override { return out_.close(); }

 private:
  // One number with a name is a column with a header, except for "data".
  static bool is_named(const Field& field) {
    return field.name != "data" && field.array.shape.axis_count() == 0;
  }

  Status write_header(const CsvShape& shape) {
    const bool has_names = shape.element_count == 0;
    if (header_ == HeaderRow::kNo || (!has_names && header_ == HeaderRow::kDetect)) return {};
    line_.clear();
    const size_t count = has_names ? shape.names.size() : shape.element_count;
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) line_ += delimiter_;
      put_text(has_names ? shape.names[i] : std::to_string(i));
    }
    line_ += '\n';
    return out_.append(line_);
  }

  Status put_array(const data::ArrayView& array) {
    const size_t count = array.shape.element_count();
    if (count == 0) return fail(Errc::kInvalidArgument, "a row needs at least one number");
    return append_numbers(line_, array, 0, count, std::string_view(&delimiter_, 1));
  }

  Status put_cells(std::string_view key, std::span<const Field> fields) {
    for (size_t i = 0; i < fields.size(); ++i) {
      if (i > 0) line_ += delimiter_;
      const data::ArrayView& array = fields[i].array;
      if (shape_.are_text[i]) {
        put_text(text_of(array.bytes));
      } else if (array.shape.element_count() == 1) {
        RETURN_IF_ERROR(append_number(line_, array, 0));
      } else {
        return fail(Errc::kInvalidArgument,
                    "'{}' of sample '{}' is {}, but a cell is one number or text; write only this "
                    "field, or another format such as jsonl",
                    printable(fields[i].name), printable(key),
                    data::description(array.type, array.shape));
      }
    }
    return {};
  }

  void put_text(std::string_view text) {
    const char special[] = {delimiter_, '"', '\n', '\r'};
    const bool is_plain =
        text.find_first_of(std::string_view(special, sizeof(special))) == std::string_view::npos;
    if (is_plain && !looks_like_number(text)) {
      line_ += text;
      return;
    }
    line_ += '"';
    for (const char c : text) {
      if (c == '"') line_ += '"';
      line_ += c;
    }
    line_ += '"';
  }

  Appender out_;
  char delimiter_;
  HeaderRow header_;
  bool is_first_ = true;
  CsvShape shape_;
  std::string line_;
};

}  // namespace

std::unique_ptr<SampleWriter> make_csv_writer(std::unique_ptr<io::Writer> writer, char delimiter,
                                              HeaderRow header) {
  return std::make_unique<CsvWriter>(std::move(writer), delimiter, header);
}

}  // namespace millrace::format
