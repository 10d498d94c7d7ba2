#include "hook/glob.h"

namespace millrace::hook {
namespace {

// Whether `c` is in the set that begins after '['. `*end` becomes the index after ']'. If the set
// is never closed: false, and *end is 0.
bool set_contains(std::string_view pattern, size_t begin, char c, size_t* end) {
  size_t i = begin;
  const bool negated = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (negated) ++i;
  bool found = false;
  for (bool first = true; i < pattern.size(); first = false) {
    if (pattern[i] == ']' && !first) {
      *end = i + 1;
      return found != negated;
    }
    const char low = pattern[i];
    char high = low;
    if (i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']') {
      high = pattern[i + 2];
      i += 2;
    }
    if (low <= c && c <= high) found = true;
    ++i;
  }
  *end = 0;
  return false;
}

// Whether the pattern element at `p` matches `c`. `*next` becomes the start of the next element.
bool element_matches(std::string_view pattern, size_t p, char c, size_t* next) {
  *next = p + 1;
  switch (pattern[p]) {
    case '?':
      return true;
    case '[': {
      size_t end = 0;
      const bool in = set_contains(pattern, p + 1, c, &end);
      if (end != 0) {
        *next = end;
        return in;
      }
      return c == '[';
    }
    case '\\':
      if (p + 1 < pattern.size()) {
        *next = p + 2;
        return pattern[p + 1] == c;
      }
      return c == '\\';
    default:
      return pattern[p] == c;
  }
}

}  // namespace

bool glob_matches(std::string_view pattern, std::string_view text) {
  // Only the last star must be retried: if an earlier star matched less, the last one could match
  // the rest anyway.
  size_t p = 0;
  size_t t = 0;
  size_t star = std::string_view::npos;
  size_t star_text = 0;
  while (t < text.size()) {
    size_t next = 0;
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
    } else if (p < pattern.size() && element_matches(pattern, p, text[t], &next)) {
      p = next;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace millrace::hook
