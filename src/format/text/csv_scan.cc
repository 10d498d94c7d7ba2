#include "format/text/csv_scan.h"

#include <algorithm>
#include <tuple>

namespace millrace::format {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr uint64_t kDigitsMax = 18;  // so that every integer fits into 64 bits

enum State : uint8_t {
  kBegin,  // nothing yet
  kSpaces,
  kSign,
  kDigits,
  kDot,       // without digits before it
  kFraction,  // "5." and ".5"
  kExponent,
  kExponentSign,
  kExponentDigits,
  kN,
  kNa,
  kNan,
  kI,
  kIn,
  kInf,
  kIntegerTail,  // spaces after a number
  kFloatTail,
  kText,
  kQuoted,
  kQuote,       // in a quoted cell: its end, or the first of two
  kAfterQuote,  // text after a closing quote
  kCellEnd,
  kRowEnd,
  kStateCount,
};

constexpr CellKind kind_of(uint8_t state) {
  switch (state) {
    case kDigits:
    case kIntegerTail:
      return CellKind::kInteger;
    case kBegin:
    case kSpaces:
    case kFraction:
    case kExponentDigits:
    case kNan:
    case kInf:
    case kFloatTail:
      return CellKind::kFloat;
    default:
      return CellKind::kText;
  }
}

constexpr std::array<CellKind, kStateCount> make_kinds() {
  std::array<CellKind, kStateCount> kinds{};
  for (uint8_t state = 0; state < kStateCount; ++state) kinds[state] = kind_of(state);
  return kinds;
}

constexpr std::array<CellKind, kStateCount> kKinds = make_kinds();

CellKind kind_of_cell(uint8_t state, uint64_t size_bytes) {
  const CellKind kind = kKinds[state];
  return kind == CellKind::kInteger && size_bytes > kDigitsMax ? CellKind::kFloat : kind;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// After the digits of a number.
uint8_t after_digits(State state, char c) {
  if (is_digit(c)) return state;
  if (c == '.' && state == kDigits) return kFraction;
  if ((c == 'e' || c == 'E') && state != kExponentDigits) return kExponent;
  if (c == ' ' || c == '\r') return state == kDigits ? kIntegerTail : kFloatTail;
  return kText;
}

// Before the first digit of a number, or in a word that is one.
uint8_t before_digits(State state, char c) {
  const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  switch (state) {
    case kBegin:
      if (c == '"') return kQuoted;
      [[fallthrough]];
    case kSpaces:
      if (c == ' ') return kSpaces;
      if (c == '\r') return state;
      if (c == '+' || c == '-') return kSign;
      [[fallthrough]];
    case kSign:
      if (is_digit(c)) return kDigits;
      if (c == '.') return kDot;
      return lower == 'n' ? kN : lower == 'i' ? kI : kText;
    case kDot:
      return is_digit(c) ? kFraction : kText;
    case kExponent:
      if (c == '+' || c == '-') return kExponentSign;
      [[fallthrough]];
    case kExponentSign:
      return is_digit(c) ? kExponentDigits : kText;
    case kN:
      return lower == 'a' ? kNa : kText;
    case kNa:
      return lower == 'n' ? kNan : kText;
    case kI:
      return lower == 'n' ? kIn : kText;
    case kIn:
      return lower == 'f' ? kInf : kText;
    default:
      return kText;
  }
}

uint8_t step(State state, char c, char delimiter) {
  if (state == kQuoted) return c == '"' ? kQuote : kQuoted;
  if (c == delimiter) return kCellEnd;
  if (c == '\n') return kRowEnd;
  switch (state) {
    case kQuote:
      return c == '"' ? kQuoted : c == '\r' ? kQuote : kAfterQuote;
    case kAfterQuote:
    case kText:
      return state;
    case kDigits:
    case kFraction:
    case kExponentDigits:
      return after_digits(state, c);
    case kNan:
    case kInf:
    case kFloatTail:
      return c == ' ' || c == '\r' ? kFloatTail : kText;
    case kIntegerTail:
      return c == ' ' || c == '\r' ? kIntegerTail : kText;
    default:
      return before_digits(state, c);
  }
}

}  // namespace

CsvScan::Table CsvScan::make_table(char delimiter) {
  Table table{};
  static_assert(kStateCount <= std::tuple_size_v<Table>);
  for (uint8_t state = 0; state < kCellEnd; ++state) {
    for (int c = 0; c < 256; ++c) {
      table[state][static_cast<size_t>(c)] =
          step(static_cast<State>(state), static_cast<char>(c), delimiter);
    }
  }
  return table;
}

CsvScan::CsvScan(char delimiter) : table_(make_table(delimiter)) {}

Status CsvScan::add(std::string_view piece) {
  size_t i = 0;
  if (at_ == 0 && piece.starts_with(kByteOrderMark)) {
    i = kByteOrderMark.size();
    row_begin_ = cell_begin_ = i;
  }
  uint8_t state = state_;
  for (; i < piece.size(); ++i) {
    const uint8_t next = table_[state][static_cast<unsigned char>(piece[i])];
    if (next < kCellEnd) [[likely]] {
      state = next;
      continue;
    }
    if (next == kCellEnd) {
      if (cell_count_ < kinds_.size() && state != kAfterQuote) [[likely]] {
        CellKind& column = kinds_[cell_count_++];
        column = std::max(column, kind_of_cell(state, at_ + i - cell_begin_));
      } else {
        state_ = state;
        RETURN_IF_ERROR(end_cell(at_ + i));
      }
    } else {
      state_ = state;
      const bool after_return = i > 0 ? piece[i - 1] == '\r' : after_return_;
      RETURN_IF_ERROR(end_row(at_ + i - (after_return ? 1 : 0)));
      row_begin_ = at_ + i + 1;
    }
    cell_begin_ = at_ + i + 1;
    state = kBegin;
  }
  state_ = state;
  at_ += piece.size();
  if (!piece.empty()) after_return_ = piece.back() == '\r';
  return {};
}

Status CsvScan::finish() {
  if (state_ == kQuoted) {
    return fail(Errc::kCorrupt, "{}: a quote is not closed before the file ends at byte {}",
                place(), at_);
  }
  if (row_begin_ < at_) RETURN_IF_ERROR(end_row(at_ - (after_return_ ? 1 : 0)));
  row_begin_ = at_;
  return {};
}

Status CsvScan::end_cell(uint64_t end) {
  if (state_ == kAfterQuote) {
    return fail(Errc::kCorrupt,
                "{}: text follows the closing quote of cell {}; write a quote within quotes twice",
                place(), cell_count_ + 1);
  }
  const CellKind kind = kind_of_cell(state_, end - cell_begin_);
  const size_t column = cell_count_++;
  if (rows_.empty()) {
    first_kinds_.push_back(kind);
  } else if (column < kinds_.size()) {
    kinds_[column] = std::max(kinds_[column], kind);
  }
  return {};
}

Status CsvScan::end_row(uint64_t end) {
  if (end <= row_begin_) return {};
  RETURN_IF_ERROR(end_cell(end));
  if (rows_.empty()) {
    kinds_.assign(cell_count_, CellKind::kNone);
  } else if (cell_count_ != kinds_.size()) {
    return fail(Errc::kCorrupt, "{}: has {} cells, but the first row has {}", place(), cell_count_,
                kinds_.size());
  }
  rows_.push_back({.offset_bytes = row_begin_, .size_bytes = end - row_begin_});
  cell_count_ = 0;
  return {};
}

std::string CsvScan::place() const {
  return fmt::format("row {} at byte {}", rows_.size() + 1, row_begin_);
}

Result<CsvCells::Cell> CsvCells::next() {
  Cell cell;
  size_t end = 0;
  if (rest_.starts_with('"')) {
    cell.is_quoted = true;
    end = rest_.find('"', 1);
    while (end != std::string_view::npos && rest_.substr(end + 1).starts_with('"')) {
      cell.has_doubled_quotes = true;
      end = rest_.find('"', end + 2);
    }
    if (end == std::string_view::npos) return fail(Errc::kCorrupt, "a quote is not closed");
    cell.text = rest_.substr(1, end - 1);
    ++end;
    if (end < rest_.size() && rest_[end] != delimiter_) {
      return fail(Errc::kCorrupt, "text follows a closing quote");
    }
  } else {
    end = std::min(rest_.find(delimiter_), rest_.size());
    cell.text = rest_.substr(0, end);
  }
  at_end_ = end == rest_.size();
  rest_.remove_prefix(at_end_ ? end : end + 1);
  return cell;
}

std::string CsvCells::unquoted(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (text[i] == '"') ++i;  // the second of two
  }
  return out;
}

}  // namespace millrace::format
