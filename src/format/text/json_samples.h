// json and jsonl: samples as JSON values.
//
// A jsonl file has one sample per line. A json file is one sample, or a list of them: a list whose
// first item is an object or a list. docs/formats/json.md says how a value becomes fields.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "base/result.h"
#include "data/array.h"
#include "data/dataset.h"
#include "format/format.h"

namespace millrace::format {

// Finds the samples of a json file, piece by piece. Follows only brackets and strings: whether a
// sample is valid shows when it is parsed.
class JsonListScan {
 public:
  void add(std::string_view piece);
  // The file ends here.
  Result<std::vector<data::Span>> finish();

 private:
  void add_outside(char c);
  void add_in_list(char c);
  void end_item();

  enum class Kind : uint8_t { kUnknown, kOne, kList };

  Kind kind_ = Kind::kUnknown;
  uint64_t at_ = 0;
  uint64_t depth_ = 0;  // open brackets
  bool in_string_ = false;
  bool after_backslash_ = false;
  bool is_wrong_ = false;     // an item is missing, or text follows the list
  uint64_t wrong_at_ = 0;     // where
  bool has_item_ = false;     // an item has begun
  bool after_comma_ = false;  // an item must follow
  uint64_t item_begin_ = 0;
  uint64_t item_end_ = 0;  // after its last character that is not a space
  uint64_t value_begin_ = 0;
  uint64_t value_end_ = 0;
  std::vector<data::Span> items_;
};

// The fields of a value. Numbers that are not all integers have the type `float_type`.
Status parse_json_sample(std::string_view text, data::ElementType float_type, SampleFields& fields);

// An object on one line, without a line break. It is written into `room`, whose memory is reused.
Result<std::string> make_json_sample(std::span<const Field> fields, std::string room = {});

}  // namespace millrace::format
