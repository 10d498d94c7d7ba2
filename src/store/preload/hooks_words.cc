// wordexp, which reads directories inside of the C library. It still does all but the file names:
// the characters of patterns are hidden from it, and the words that it returns are given to glob,
// which sees the store.
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <wordexp.h>

#include "store/preload/hooks.h"

namespace millrace::store {
namespace {

constexpr char kSpecial[] = "*?[";    // what makes a word a pattern
constexpr char kHidden[] = "\1\2\3";  // stand for these
constexpr char kQuoted[] = "\4\5\6";  // the same between quotes
constexpr char kAllHidden[] = "\1\2\3\4\5\6";

// The character of `to` at the place that c has in `from`; 0 if it has none.
char exchanged(char c, const char* from, const char* to) {
  const char* found = c == '\0' ? nullptr : strchr(from, c);
  return found == nullptr ? '\0' : to[found - from];
}

// Where the command or variable at `begin` ends, if there is one: the shell reads it, not we.
const char* end_of_expansion(const char* begin) {
  if (*begin == '`') {
    const char* end = strchr(begin + 1, '`');
    return end == nullptr ? begin : end + 1;
  }
  if (begin[0] != '$' || (begin[1] != '(' && begin[1] != '{')) return begin;
  const char open = begin[1];
  const char close = open == '(' ? ')' : '}';
  int depth = 0;
  for (const char* at = begin + 1; *at != '\0'; ++at) {
    if (*at == open) ++depth;
    if (*at == close && --depth == 0) return at + 1;
  }
  return begin;
}

// Copies the words, which have room for themselves, with hidden characters.
void hide_patterns(const char* from, char* to) {
  char quote = '\0';
  while (*from != '\0') {
    if (const char* end = end_of_expansion(from); end != from && quote != '\'') {
      memcpy(to, from, static_cast<size_t>(end - from));
      to += end - from;
      from = end;
      continue;
    }
    const bool is_escape = *from == '\\' && quote != '\'' && from[1] != '\0';
    if (is_escape) *to++ = *from++;
    if (!is_escape && quote == '\0' && (*from == '\'' || *from == '"')) {
      quote = *from;
    } else if (!is_escape && *from == quote) {
      quote = '\0';
    }
    const char hidden = exchanged(*from, kSpecial, is_escape || quote != '\0' ? kQuoted : kHidden);
    *to++ = hidden == '\0' ? *from : hidden;
    ++from;
  }
  *to = '\0';
}

void show_patterns(char* word) {
  for (; *word != '\0'; ++word) {
    char shown = exchanged(*word, kHidden, kSpecial);
    if (shown == '\0') shown = exchanged(*word, kQuoted, kSpecial);
    if (shown != '\0') *word = shown;
  }
}

// The pattern of a word, for glob. `to` has room for twice its size.
void write_pattern(const char* word, char* to) {
  for (; *word != '\0'; ++word) {
    const char quoted = *word == '\\' ? '\\' : exchanged(*word, kQuoted, kSpecial);
    const char special = exchanged(*word, kHidden, kSpecial);
    if (quoted != '\0') *to++ = '\\';
    *to++ = quoted != '\0' ? quoted : special != '\0' ? special : *word;
  }
  *to = '\0';
}

char* copy_text(const char* text) {
  const size_t size = strlen(text) + 1;
  auto* copy = static_cast<char*>(program_allocate(nullptr, size));
  return copy == nullptr ? nullptr : static_cast<char*>(memcpy(copy, text, size));
}

// Takes the word, which is on the program's heap. False if there is no memory.
bool append_word(wordexp_t* result, char* word) {
  const size_t end = result->we_offs + result->we_wordc;
  void* list =
      word == nullptr ? nullptr : program_allocate(result->we_wordv, (end + 2) * sizeof(char*));
  if (list == nullptr) {
    program_free(word);
    return false;
  }
  result->we_wordv = static_cast<char**>(list);
  result->we_wordv[end] = word;
  result->we_wordv[end + 1] = nullptr;
  ++result->we_wordc;
  return true;
}

bool append_names(wordexp_t* result, char* word) {
  if (strpbrk(word, kHidden) == nullptr) {
    show_patterns(word);
    return append_word(result, copy_text(word));
  }
  auto* pattern = static_cast<char*>(program_allocate(nullptr, 2 * strlen(word) + 1));
  if (pattern == nullptr) return false;
  write_pattern(word, pattern);
  glob64_t found = {};
  const int error = glob64(pattern, 0, nullptr, &found);
  program_free(pattern);
  if (error == GLOB_NOSPACE) return false;
  bool is_done = true;
  if (error != 0) {
    show_patterns(word);
    return append_word(result, copy_text(word));
  }
  for (size_t i = 0; i < found.gl_pathc && is_done; ++i) {
    is_done = append_word(result, copy_text(found.gl_pathv[i]));
  }
  globfree64(&found);
  return is_done;
}

// An empty list, as the flags say. False if there is no memory.
bool start_list(wordexp_t* result, int flags) {
  if ((flags & WRDE_REUSE) != 0) {
    wordfree(result);
  } else if ((flags & WRDE_APPEND) != 0) {
    return true;
  }
  result->we_wordc = 0;
  if ((flags & WRDE_DOOFFS) == 0) result->we_offs = 0;
  const size_t size = (result->we_offs + 1) * sizeof(char*);
  result->we_wordv = static_cast<char**>(program_allocate(nullptr, size));
  if (result->we_wordv != nullptr) memset(result->we_wordv, 0, size);
  return result->we_wordv != nullptr;
}

}  // namespace
}  // namespace millrace::store

using namespace millrace::store;

extern "C" int wordexp(const char* words, wordexp_t* result, int flags) {
  const bool is_ours = active() && !is_bad(words) && strpbrk(words, kSpecial) != nullptr &&
                       strpbrk(words, kAllHidden) == nullptr;
  if (!is_ours) return real_call<wordexp>(words, result, flags);
  auto* hidden = static_cast<char*>(program_allocate(nullptr, strlen(words) + 1));
  if (hidden == nullptr) return WRDE_NOSPACE;
  hide_patterns(words, hidden);
  wordexp_t plain = {};
  int error = real_call<wordexp>(hidden, &plain, flags & ~(WRDE_APPEND | WRDE_DOOFFS | WRDE_REUSE));
  program_free(hidden);
  if (error != 0 && error != WRDE_NOSPACE) return error;
  if (error == 0 && !start_list(result, flags)) error = WRDE_NOSPACE;
  for (size_t i = 0; i < plain.we_wordc && error == 0; ++i) {
    if (!append_names(result, plain.we_wordv[i])) error = WRDE_NOSPACE;
  }
  wordfree(&plain);
  return error;
}
