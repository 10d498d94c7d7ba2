#include "base/text/spelling.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace millrace {

size_t edit_distance(std::string_view a, std::string_view b) {
  // Rows of the table of distances between prefixes. Swaps need the row before the last.
  std::vector<size_t> before_last(b.size() + 1);
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replace});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = std::exchange(last, row);
  }
  return last[b.size()];
}

std::optional<std::string> closest_word(std::string_view word, std::span<const std::string> known) {
  std::optional<std::string> closest;
  const size_t allowed = std::max<size_t>(1, word.size() / 3);
  size_t closest_distance = std::min(allowed + 1, word.size());
  for (const std::string& candidate : known) {
    const size_t distance = edit_distance(word, candidate);
    if (distance >= closest_distance) continue;
    closest_distance = distance;
    closest = candidate;
  }
  return closest;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> known) {
  const auto closest = closest_word(word, known);
  return closest ? fmt::format("; did you mean '{}'?", *closest) : std::string();
}

}  // namespace millrace
