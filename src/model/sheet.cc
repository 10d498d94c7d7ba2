#include "model/sheet.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bench/workload/keys.h"

namespace millrace::model {
namespace {

bool is_plain_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '/' || c == '-';
}

bool is_plain(std::string_view text) {
  // A name that begins with a digit could be read as a number.
  const bool begins_well = !text.empty() && ((text[0] >= 'a' && text[0] <= 'z') ||
                                             (text[0] >= 'A' && text[0] <= 'Z') || text[0] == '.');
  constexpr std::string_view kWords[] = {"null", "Null", "None", "yes", "no", "true", "false"};
  const bool is_word = std::find(std::begin(kWords), std::end(kWords), text) != std::end(kWords);
  return begins_well && !is_word && std::all_of(text.begin(), text.end(), is_plain_character);
}

}  // namespace

void Sheet::note(std::string_view key, std::string value, std::string why, bool assumed) {
  modelled_.keys.push_back({.key = std::string(key),
                            .value = std::move(value),
                            .why = std::move(why),
                            .assumed = assumed});
}

std::string Sheet::text_of(bool value) { return value ? "true" : "false"; }
std::string Sheet::text_of(uint64_t value) { return std::to_string(value); }

// Six digits: what a trace tells is not known better, and people read it.
std::string Sheet::text_of(double value) {
  const std::string text = fmt::format("{:.6g}", value);
  return value >= 1e6 && value < 1e18 ? std::to_string(static_cast<uint64_t>(value + 0.5)) : text;
}

std::string Sheet::text_of(const std::string& value) {
  if (is_plain(value)) return value;
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    const bool is_control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    out += is_control ? fmt::format("\\x{:02x}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  return out + '"';
}

// "off" is in quotes: without them, YAML 1.1 reads it as false.
std::string Sheet::text_of(bench::Shuffle value) {
  return value == bench::Shuffle::kOff ? "\"off\"" : std::string(name_of(value));
}

std::string Sheet::text_of(const bench::TimeModel& value) {
  if (value.kind == bench::TimeModel::Kind::kConstant) return text_of(value.first);
  const bench::Distribution& each = distribution_of(value);
  const std::string second =
      each.second.empty() ? "" : fmt::format(", {}: {}", each.second, text_of(value.second));
  return fmt::format("{{type: {}, {}: {}{}}}", each.name, each.first, text_of(value.first), second);
}

std::string Sheet::text_of(const std::vector<uint64_t>& value) {
  return fmt::format("[{}]", fmt::join(value, ", "));
}

}  // namespace millrace::model
