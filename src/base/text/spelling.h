// Spelling: suggests what a mistyped name should have been.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace millrace {

// The number of single-character changes (insert, delete, replace, swap of neighbours) between two
// words.
size_t edit_distance(std::string_view a, std::string_view b);

// The known word closest to `word`, if it is close enough: at most a third of the letters wrong,
// and fewer than all. On a tie, the first.
std::optional<std::string> closest_word(std::string_view word, std::span<const std::string> known);

// "; did you mean 'num_files_train'?", or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string> known);

}  // namespace millrace
