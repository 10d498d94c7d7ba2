#include "format/text/json_samples.h"

#include "base/text/text.h"
#include "format/appender.h"
#include "format/file_pieces.h"
#include "format/formats.h"

namespace millrace::format {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// The lines that are not empty.
class LineScan {
 public:
  void add(std::string_view piece) {
    for (size_t from = 0; from < piece.size();) {
      const size_t end = piece.find('\n', from);
      const std::string_view part = piece.substr(from, end - from);
      // What is before the first and after the last visible character is not part of the sample.
      const size_t first = part.find_first_not_of(" \t\r");
      if (first != std::string_view::npos) {
        if (!has_text_) begin_ = at_ + from + first;
        has_text_ = true;
        end_ = at_ + from + part.find_last_not_of(" \t\r") + 1;
      }
      if (end == std::string_view::npos) break;
      end_line();
      from = end + 1;
    }
    at_ += piece.size();
  }

  std::vector<data::Span> finish() {
    end_line();
    return std::move(lines_);
  }

 private:
  void end_line() {
    if (has_text_) lines_.push_back({.offset_bytes = begin_, .size_bytes = end_ - begin_});
    has_text_ = false;
  }

  uint64_t at_ = 0;
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
  bool has_text_ = false;
  std::vector<data::Span> lines_;
};

// Puts the samples into a list (json) or on lines (jsonl).
class JsonSamplesWriter final : public SampleWriter {
 public:
  JsonSamplesWriter(std::unique_ptr<io::Writer> writer, bool has_lines)
      : out_(std::move(writer)), has_lines_(has_lines) {}

  Status add(std::string_view key, std::span<const Field> fields) override {
    auto made = make_json_sample(fields, std::move(text_));
    if (!made.ok()) {
      return std::move(made).error().within(fmt::format("sample '{}'", printable(key)));
    }
    text_ = *std::move(made);
    if (!has_lines_) RETURN_IF_ERROR(out_.append(count_ == 0 ? "[\n" : ",\n"));
    ++count_;
    RETURN_IF_ERROR(out_.append(text_));
    return has_lines_ ? out_.append("\n") : Status();
  }

  Status finish() override {
    if (!has_lines_) RETURN_IF_ERROR(out_.append(count_ == 0 ? "[]\n" : "\n]\n"));
    return out_.close();
  }

 private:
  Appender out_;
  bool has_lines_;
  uint64_t count_ = 0;
  std::string text_;  // of a sample; reused
};

class JsonFormat final : public Format {
 public:
  JsonFormat(bool has_lines, const FormatOptions& options)
      : has_lines_(has_lines), float_type_(options.text_float) {}

  std::string_view name() const override { return has_lines_ ? "jsonl" : "json"; }
  bool is_file_a_sample() const override { return false; }

  Result<data::FileSamples> index(io::Engine& engine,
                                  const std::filesystem::path& path) const override {
    ASSIGN_OR_RETURN(const auto reader, engine.open(path));
    ASSIGN_OR_RETURN(const uint64_t size, reader->size_bytes());
    data::FileSamples samples{.kind = data::FileSamples::Kind::kListed,
                              .stamp = {.size_bytes = size}};
    ASSIGN_OR_RETURN(samples.spans,
                     has_lines_ ? spans_of_lines(*reader, size) : spans_of_list(*reader, size));
    return samples;
  }

  Status split(ByteView sample, SampleFields& fields) const override {
    return parse_json_sample(text_of(sample), float_type_, fields);
  }

  Result<std::unique_ptr<SampleWriter>> create(io::Engine& engine,
                                               const std::filesystem::path& path) const override {
    ASSIGN_OR_RETURN(auto writer, engine.create(path));
    return std::unique_ptr<SampleWriter>(new JsonSamplesWriter(std::move(writer), has_lines_));
  }

 private:
  static Result<std::vector<data::Span>> spans_of_lines(const io::Reader& reader, uint64_t size) {
    LineScan scan;
    RETURN_IF_ERROR(for_each_piece(reader, size, [&](std::string_view piece) {
      scan.add(piece);
      return Status();
    }));
    return scan.finish();
  }

  static Result<std::vector<data::Span>> spans_of_list(const io::Reader& reader, uint64_t size) {
    JsonListScan scan;
    RETURN_IF_ERROR(for_each_piece(reader, size, [&](std::string_view piece) {
      scan.add(piece);
      return Status();
    }));
    return scan.finish();
  }

  bool has_lines_;
  data::ElementType float_type_;
};

}  // namespace

void JsonListScan::add(std::string_view piece) {
  for (const char c : piece) {
    if (in_string_) {
      in_string_ = after_backslash_ || c != '"';
      after_backslash_ = !after_backslash_ && c == '\\';
      if (!in_string_) item_end_ = value_end_ = at_ + 1;
    } else if (!is_space(c)) {
      if (kind_ == Kind::kList) {
        add_in_list(c);
      } else {
        add_outside(c);
      }
      in_string_ = c == '"';
      value_end_ = at_ + 1;
    }
    ++at_;
  }
}

// Before the value, or in a value that is not a list of samples.
void JsonListScan::add_outside(char c) {
  // The bytes of a byte order mark are negative or above 0x7f, and no value begins with such.
  if (kind_ != Kind::kUnknown || static_cast<unsigned char>(c) > 0x7f) return;
  value_begin_ = at_;
  kind_ = c == '[' ? Kind::kList : Kind::kOne;
  depth_ = c == '[' ? 1 : 0;
}

void JsonListScan::add_in_list(char c) {
  const auto wrong = [&] {
    if (!is_wrong_) wrong_at_ = at_;
    is_wrong_ = true;
  };
  if (depth_ == 0) return wrong();  // after the list
  if (depth_ == 1 && (c == ',' || c == ']')) {
    if (has_item_) {
      end_item();
    } else if (c == ',' || after_comma_) {
      wrong();
    }
    after_comma_ = c == ',';
    if (c == ']') depth_ = 0;
    return;
  }
  if (!has_item_) {
    // A list of numbers or strings is one sample.
    if (items_.empty() && c != '{' && c != '[') kind_ = Kind::kOne;
    has_item_ = true;
    item_begin_ = at_;
  }
  if (c == '{' || c == '[') ++depth_;
  if (c == '}' || c == ']') --depth_;
  item_end_ = at_ + 1;
}

void JsonListScan::end_item() {
  items_.push_back({.offset_bytes = item_begin_, .size_bytes = item_end_ - item_begin_});
  has_item_ = false;
}

Result<std::vector<data::Span>> JsonListScan::finish() {
  switch (kind_) {
    case Kind::kUnknown:
      return fail(Errc::kCorrupt, "the file has no JSON value");
    case Kind::kOne:
      return std::vector<data::Span>{
          {.offset_bytes = value_begin_, .size_bytes = value_end_ - value_begin_}};
    case Kind::kList:
      break;
  }
  if (is_wrong_) {
    return fail(Errc::kCorrupt, "byte {} is not what follows in a list of samples", wrong_at_);
  }
  if (depth_ > 0 || in_string_) {
    return fail(Errc::kCorrupt, "the list of samples is not closed before the file ends at byte {}",
                at_);
  }
  return std::move(items_);
}

std::unique_ptr<Format> make_json(const FormatOptions& options) {
  return std::make_unique<JsonFormat>(false, options);
}

std::unique_ptr<Format> make_jsonl(const FormatOptions& options) {
  return std::make_unique<JsonFormat>(true, options);
}

}  // namespace millrace::format
