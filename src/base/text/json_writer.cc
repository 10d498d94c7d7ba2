#include "base/text/json_writer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <cmath>

#include "base/text/text.h"

namespace millrace {

void JsonWriter::key(std::string_view name) {
  assert(!filled_.empty() && !after_key_);
  before_value();
  quote(name);
  out_ += ": ";
  after_key_ = true;
}

void JsonWriter::value(std::string_view text) {
  before_value();
  quote(text);
}

void JsonWriter::value(double number) {
  // fmt prints the shortest text that reads back as the same number.
  raw(std::isfinite(number) ? fmt::format("{}", number) : "null");
}

std::string JsonWriter::finish() && {
  assert(filled_.empty());
  out_ += '\n';
  return std::move(out_);
}

void JsonWriter::begin(char bracket, JsonLayout layout) {
  before_value();
  out_ += bracket;
  filled_.push_back(false);
  if (layout == JsonLayout::kOneLine && line_level_ == 0) line_level_ = filled_.size();
}

void JsonWriter::end(char bracket) {
  assert(!filled_.empty() && !after_key_);
  const bool filled = filled_.back();
  const bool on_line = line_level_ != 0;
  if (line_level_ == filled_.size()) line_level_ = 0;
  filled_.pop_back();
  if (filled && !on_line) new_line();
  out_ += bracket;
}

void JsonWriter::raw(std::string_view text) {
  before_value();
  out_ += text;
}

void JsonWriter::before_value() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (filled_.empty()) return;
  const bool filled = filled_.back();
  filled_.back() = true;
  if (filled) out_ += ',';
  if (line_level_ == 0) {
    new_line();
  } else if (filled) {
    out_ += ' ';
  }
}

void JsonWriter::new_line() {
  out_ += '\n';
  out_.append(2 * filled_.size(), ' ');
}

void JsonWriter::quote(std::string_view text) {
  out_ += '"';
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const char first = text.front();
    if (length == 0) {
      out_ += "\\ufffd";
    } else if (first == '"' || first == '\\') {
      out_ += '\\';
      out_ += first;
    } else if (static_cast<unsigned char>(first) < 0x20) {
      out_ += fmt::format("\\u{:04x}", static_cast<unsigned>(first));
    } else {
      out_ += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  out_ += '"';
}

}  // namespace millrace
