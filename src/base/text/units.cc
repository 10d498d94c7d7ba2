#include "base/text/units.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include "base/text/text.h"

namespace millrace {
namespace {

__extension__ using uint128 = unsigned __int128;

struct Unit {
  std::string_view name;
  uint64_t factor;
};

constexpr uint64_t kKilo = 1000;
constexpr uint64_t kKibi = 1024;

constexpr Unit kByteUnits[] = {
    {"B", 1},
    {"kB", kKilo},
    {"KB", kKilo},
    {"MB", kKilo* kKilo},
    {"GB", kKilo* kKilo* kKilo},
    {"TB", kKilo* kKilo* kKilo* kKilo},
    {"PB", kKilo* kKilo* kKilo* kKilo* kKilo},
    {"KiB", kKibi},
    {"MiB", kKibi* kKibi},
    {"GiB", kKibi* kKibi* kKibi},
    {"TiB", kKibi* kKibi* kKibi* kKibi},
    {"PiB", kKibi* kKibi* kKibi* kKibi* kKibi},
};

constexpr Unit kDurationUnits[] = {
    {"ns", 1},
    {"us", 1'000},
    {"\u00b5s", 1'000},  // micro sign
    {"\u03bcs", 1'000},  // Greek mu
    {"ms", 1'000'000},
    {"s", 1'000'000'000},
    {"sec", 1'000'000'000},
    {"min", 60'000'000'000},
    {"h", 3'600'000'000'000},
    {"d", 86'400'000'000'000},
};

// An exact non-negative decimal number: digits / 10^decimals.
struct Decimal {
  uint64_t digits = 0;
  unsigned decimals = 0;
  std::string_view rest;  // what follows the number and its spaces
};

std::optional<Decimal> parse_decimal(std::string_view text) {
  Decimal number;
  bool after_point = false;
  size_t digit_count = 0;
  size_t i = 0;
  for (; i < text.size(); ++i) {
    if (text[i] == '.' && !after_point) {
      after_point = true;
      continue;
    }
    if (std::isdigit(static_cast<unsigned char>(text[i])) == 0) break;
    // 18 digits fit; nobody needs more.
    if (++digit_count > 18) return std::nullopt;
    number.digits = number.digits * 10 + static_cast<uint64_t>(text[i] - '0');
    if (after_point) ++number.decimals;
  }
  if (digit_count == 0) return std::nullopt;
  while (i < text.size() && text[i] == ' ') ++i;
  number.rest = text.substr(i);
  return number;
}

std::optional<uint64_t> scale(const Decimal& number, uint64_t factor) {
  uint128 divisor = 1;
  for (unsigned i = 0; i < number.decimals; ++i) divisor *= 10;
  const uint128 product = static_cast<uint128>(number.digits) * factor;  // below 2^60 * 2^60
  const uint128 rounded = (product + divisor / 2) / divisor;
  if (rounded > std::numeric_limits<int64_t>::max()) return std::nullopt;
  return static_cast<uint64_t>(rounded);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

const Unit* find_unit(std::span<const Unit> units, std::string_view name) {
  for (const Unit& unit : units) {
    if (unit.name == name) return &unit;
  }
  return nullptr;
}

std::string three_digits(double value) {
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (decimals > 0) {
    while (text.back() == '0') text.pop_back();
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

// Prints `value` in the largest unit (each `step` times the last) in which it is at least 1.
std::string in_steps(double value, double step, std::span<const std::string_view> names) {
  size_t index = 0;
  // 999.5 would print as 1000, so it becomes 1 of the next unit.
  while (index + 1 < names.size() && value >= (step == 1000 ? 999.5 : step)) {
    value /= step;
    ++index;
  }
  const std::string_view name = names[index];
  return fmt::format("{}{}{}", three_digits(value), name.empty() ? "" : " ", name);
}

constexpr std::array<std::string_view, 7> kBinaryNames = {"B",   "KiB", "MiB", "GiB",
                                                          "TiB", "PiB", "EiB"};
constexpr std::array<std::string_view, 7> kDecimalNames = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
constexpr std::array<std::string_view, 5> kCountNames = {"", "k", "M", "G", "T"};

}  // namespace

Result<uint64_t> parse_bytes(std::string_view given) {
  const auto number = parse_decimal(trimmed(given));
  const std::string text = printable(given);  // for the messages
  if (!number) {
    return fail(Errc::kInvalidArgument, "'{}' is not a size; write it like 4096, 64KiB or 1.5GB",
                text);
  }
  if (number->rest.empty() && number->decimals > 0) {
    return fail(Errc::kInvalidArgument, "'{}' has no unit; write it like 64KiB or 1.5GB", text);
  }
  const Unit* unit = find_unit(kByteUnits, number->rest.empty() ? "B" : number->rest);
  if (unit == nullptr) {
    constexpr std::string_view kPrefixes = "kKMGTP";
    if (number->rest.size() == 1 && kPrefixes.find(number->rest[0]) != std::string_view::npos) {
      const char prefix = static_cast<char>(std::toupper(number->rest[0]));
      return fail(Errc::kInvalidArgument,
                  "'{}' could mean {}iB (powers of 1024) or {}B (powers of 1000); write which",
                  text, prefix, prefix == 'K' ? 'k' : prefix);
    }
    return fail(Errc::kInvalidArgument,
                "'{}' has the unknown unit '{}'; use one of B kB MB GB TB PB KiB MiB GiB TiB PiB",
                text, printable(number->rest));
  }
  const auto size_bytes = scale(*number, unit->factor);
  if (!size_bytes) return fail(Errc::kInvalidArgument, "'{}' is more than 8 EiB", text);
  return *size_bytes;
}

Result<std::chrono::nanoseconds> parse_duration(std::string_view given) {
  const auto number = parse_decimal(trimmed(given));
  const std::string text = printable(given);  // for the messages
  if (!number) {
    return fail(Errc::kInvalidArgument,
                "'{}' is not a duration; write it like 250us, 1.5s or 10min", text);
  }
  if (number->rest.empty() && number->digits == 0) return std::chrono::nanoseconds(0);
  const Unit* unit = find_unit(kDurationUnits, number->rest);
  if (unit == nullptr) {
    return fail(Errc::kInvalidArgument, "'{}' {}; use one of ns us ms s min h d", text,
                number->rest.empty() ? "has no unit" : "has an unknown unit");
  }
  const auto duration_ns = scale(*number, unit->factor);
  if (!duration_ns) return fail(Errc::kInvalidArgument, "'{}' is longer than 292 years", text);
  return std::chrono::nanoseconds(static_cast<int64_t>(*duration_ns));
}

std::string format_bytes(uint64_t size_bytes, ByteUnits units) {
  const auto value = static_cast<double>(size_bytes);
  if (units == ByteUnits::kBinary) return in_steps(value, 1024, kBinaryNames);
  return in_steps(value, 1000, kDecimalNames);
}

std::string format_bandwidth(double bytes_per_second) {
  return in_steps(bytes_per_second, 1000, kDecimalNames) + "/s";
}

std::string format_count(double count) { return in_steps(count, 1000, kCountNames); }

std::string format_exact(uint64_t count) {
  std::string digits = std::to_string(count);
  for (size_t place = digits.size(); place > 3; place -= 3) digits.insert(place - 3, 1, ',');
  return digits;
}

std::string format_percent(double fraction) {
  if (fraction > 0 && fraction < 0.0005) return "<0.1 %";
  return fmt::format("{:.1f} %", fraction * 100);
}

std::string format_duration(std::chrono::nanoseconds duration) {
  if (duration < duration.zero()) return "-" + format_duration(-duration);
  constexpr std::array<std::string_view, 4> kNames = {"ns", "us", "ms", "s"};
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration).count();
  if (seconds < 60) return in_steps(static_cast<double>(duration.count()), 1000, kNames);
  if (seconds < 3600) return fmt::format("{} min {:02} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {:02} min", seconds / 3600, seconds / 60 % 60);
}

}  // namespace millrace
