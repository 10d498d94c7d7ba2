// PfwLine: the parsed values of one line of a .pfw file, without copies.
//
// Made for gigabytes: values point into the text and are converted on demand. Parsing is only as
// strict as needed to find the ends of values: it checks the structure of the object, but not the
// bytes inside strings and numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace::interop {

struct PfwValue {
  enum class Kind : uint8_t { kAbsent, kText, kNumber, kWord, kNested };

  std::string_view raw;  // for a text: what is between the quotes
  Kind kind = Kind::kAbsent;
  bool escaped = false;  // a text with backslashes

  bool present() const { return kind != Kind::kAbsent; }

  // The text without escapes; uses `storage` if it has any. Other kinds: as written.
  std::string_view text(std::string& storage) const;

  // Whole numbers. False for anything else, including numbers out of range.
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
  const PfwValue* argument(std::string_view key) const;  // null if there is none
};

// False if the line is not an object as DFTracer writes it. `line` must outlive `out`.
bool scan_pfw_line(std::string_view line, PfwLine& out);

// The same for lines that scan_pfw_line rejects. Uses the general JSON parser, which accepts all
// JSON and reports errors. `storage` holds the texts of `out`.
Status parse_pfw_line(std::string_view line, std::string& storage, PfwLine& out);

// Converts a time or duration to nanoseconds: digits, optionally with a fraction, in units of
// `ns_per_unit`. False if it is not such a number or does not fit 64 bits.
bool to_nanoseconds(const PfwValue& value, uint64_t ns_per_unit, uint64_t& ns);

}  // namespace millrace::interop
