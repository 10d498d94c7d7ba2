// JsonWriter: writes JSON text value by value, indented by two spaces.
//
// The calls mirror the text: begin_object, key, value, ..., end_object. Wrong nesting is a
// programming error and asserted. The text is always valid: bytes that are not UTF-8 (file names
// can be anything) become U+FFFD, and numbers that JSON lacks (NaN, infinities) become null. Many
// small values, such as a thousand counts or a pair, may be written on one line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace millrace {

// How an object or a list is laid out. Everything inside a kOneLine one is on that line too.
enum class JsonLayout { kLines, kOneLine };

class JsonWriter {
 public:
  void begin_object(JsonLayout layout = JsonLayout::kLines) { begin('{', layout); }
  void end_object() { end('}'); }
  void begin_list(JsonLayout layout = JsonLayout::kLines) { begin('[', layout); }
  void end_list() { end(']'); }

  // The same under a key.
  void begin_object(std::string_view name, JsonLayout layout = JsonLayout::kLines) {
    key(name);
    begin_object(layout);
  }
  void begin_list(std::string_view name, JsonLayout layout = JsonLayout::kLines) {
    key(name);
    begin_list(layout);
  }

  void key(std::string_view name);

  void value(std::string_view text);
  void value(const char* text) { value(std::string_view(text)); }
  void value(bool truth) { raw(truth ? "true" : "false"); }
  void value(double number);
  void null() { raw("null"); }
  template <typename Integer>
    requires std::is_integral_v<Integer>
  void value(Integer number) {
    raw(std::to_string(number));
  }
  template <typename Value>
  void value(const std::optional<Value>& held) {  // null if there is none
    if (held) return value(*held);
    null();
  }

  template <typename Value>
  void field(std::string_view name, const Value& held) {
    key(name);
    value(held);
  }

  template <std::ranges::range Values>
  void values(std::string_view name, const Values& list, JsonLayout layout = JsonLayout::kLines) {
    begin_list(name, layout);
    for (const auto& held : list) value(held);
    end_list();
  }

  // A list with an object for each item: `put(item)` writes its fields.
  template <std::ranges::range Items, typename Put>
  void objects(std::string_view name, const Items& items, const Put& put) {
    objects(name, JsonLayout::kLines, items, put);
  }
  template <std::ranges::range Items, typename Put>
  void objects(std::string_view name, JsonLayout layout, const Items& items, const Put& put) {
    begin_list(name);
    for (const auto& item : items) {
      begin_object(layout);
      put(item);
      end_object();
    }
    end_list();
  }

  // Returns the text with a final newline. REQUIRES: every begin_ call has its end_ call.
  std::string finish() &&;

 private:
  void begin(char bracket, JsonLayout layout);
  void end(char bracket);
  void raw(std::string_view text);
  void before_value();
  void new_line();
  void quote(std::string_view text);

  std::string out_;
  std::vector<bool> filled_;  // for each open bracket: whether it has a value already
  size_t line_level_ = 0;     // the level of the kOneLine bracket; 0: none
  bool after_key_ = false;
};

}  // namespace millrace
