// PfwLine: one line of a .pfw file, taken apart without being copied.
//
// Made for gigabytes: values stay where they lie in the text, and are converted when somebody wants
// them. Only as strict as needed to find the values' ends: the structure of the object is checked,
// the bytes inside strings and numbers are not.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace::interop {

struct PfwValue {
  enum class Kind : uint8_t { kAbsent, kText, kNumber, kWord, kNested };

  std::string_view raw;  // of a text: what lies between the quotes
  Kind kind = Kind::kAbsent;
  bool escaped = false;  // a text with backslashes

  bool present() const { return kind != Kind::kAbsent; }

  // The text without its escapes; uses `storage` where there are some. Of other kinds: as spelled.
  std::string_view text(std::string& storage) const;

  // Whole numbers; false for anything else, also when out of range.
  bool to_unsigned(uint64_t& number) const;
  bool to_signed(int64_t& number) const;
};

struct PfwArgumentValue {
  PfwValue key;
  PfwValue value;
};

struct PfwLine {
  PfwValue name, category, pid, tid, time, duration, phase;
  std::vector<PfwArgumentValue> args;

  bool is_metadata() const { return phase.raw == "M" || phase.raw == "4"; }
  const PfwValue* argument(std::string_view key) const;  // null where there is none
};

// False where the line is not an object as DFTracer writes it. `line` must outlive `out`.
bool scan_pfw_line(std::string_view line, PfwLine& out);

// The same for lines that scan_pfw_line refuses: through the general JSON parser, which knows every
// spelling, and says what is wrong with the rest. `storage` holds the texts of `out`.
Status parse_pfw_line(std::string_view line, std::string& storage, PfwLine& out);

// A time or duration as a number of nanoseconds: digits, and perhaps a fraction, of units of
// `ns_per_unit`. False where it is no such number, or beyond 64 bits.
bool to_nanoseconds(const PfwValue& value, uint64_t ns_per_unit, uint64_t& ns);

}  // namespace millrace::interop
