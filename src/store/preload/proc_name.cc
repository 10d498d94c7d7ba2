#include <fcntl.h>

#include <cstring>

#include "hook/scratch.h"
#include "hook/syscall.h"
#include "hook/text.h"
#include "store/preload/lookup.h"

namespace millrace::store {
namespace {

// Removes a prefix. False if the text does not begin with it.
bool take(std::string_view& text, std::string_view prefix) {
  if (text.size() < prefix.size() || text.compare(0, prefix.size(), prefix) != 0) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// -1 if there is none.
int take_number(std::string_view& text) {
  int number = -1;
  while (!text.empty() && text[0] >= '0' && text[0] <= '9' && number < 100'000'000) {
    number = (number < 0 ? 0 : number * 10) + (text[0] - '0');
    text.remove_prefix(1);
  }
  return number;
}

bool take_own_process(std::string_view& text) {
  if (!take(text, "/proc/")) return false;
  if (take(text, "self/") || take(text, "thread-self/")) return true;
  const int process = take_number(text);
  return process > 0 && static_cast<uint32_t>(process) == hook::sys_getpid() && take(text, "/");
}

// Whether a name is that of a link to a file of any process: its program, its directory, or what it
// has open.
bool is_link_of_process(std::string_view text) {
  if (!take(text, "/proc/")) return false;
  if (!take(text, "self/") && !take(text, "thread-self/")) {
    if (take_number(text) <= 0 || !take(text, "/")) return false;
  }
  if (text == "exe" || text == "cwd") return true;
  return take(text, "fd/") && take_number(text) >= 0 && text.empty();
}

// Whether one text is the beginning of the other.
bool begins_alike(std::string_view text, std::string_view other) {
  const size_t size = text.size() < other.size() ? text.size() : other.size();
  return std::memcmp(text.data(), other.data(), size) == 0;
}

}  // namespace

bool parse_proc_name(std::string_view path, ProcName& out) {
  constexpr std::string_view kStandard[] = {"/dev/stdin", "/dev/stdout", "/dev/stderr"};
  out = {.directory = -1, .rest = path};
  if (path.size() < 7 || (path[1] != 'p' && path[1] != 'd')) return false;
  for (int fd = 0; fd < 3; ++fd) {
    if (path == kStandard[fd]) out = {.directory = fd, .rest = {}};
  }
  if (take(out.rest, "/dev/fd/")) {
    out.directory = take_number(out.rest);
  } else if (take_own_process(out.rest)) {
    out.directory = take(out.rest, "cwd")   ? AT_FDCWD
                    : take(out.rest, "fd/") ? take_number(out.rest)
                                            : -1;
  }
  const bool is_whole = out.rest.empty() || out.rest[0] == '/';
  return is_whole && out.directory != -1;
}

ssize_t show_link(ssize_t result, int directory, const char* path, char* buffer, size_t size) {
  if (result <= 0 || !active()) return result;
  const auto read_bytes = static_cast<size_t>(result);
  ProcName name;
  const bool is_tree = begins_alike({buffer, read_bytes}, client.tree);
  const bool is_upper =
      !is_tree && !client.upper.empty() && !client.is_root_upper() &&
      begins_alike({buffer, read_bytes}, client.upper) &&
      (is_link_of_process(path) || (parse_proc_name(path, name) && name.rest.empty()));
  if (!is_tree && !is_upper) return result;
  const hook::Scratch<RealPath> real;
  const hook::Scratch<RealPath> shown;
  if (!real || !shown) return result;
  // Again, because the real name may have been cut.
  const long real_size =
      hook::own_call(SYS_readlinkat, directory, hook::word(path), hook::word(real->text),
                     static_cast<long>(sizeof(real->text) - 1));
  if (real_size <= 0) return result;
  const std::string_view below = below_root(is_tree ? client.tree : client.upper,
                                            {real->text, static_cast<size_t>(real_size)});
  if (below.data() == nullptr) return result;
  // A program that uses the upper directory by its own name means the files there.
  if (is_upper && (below.empty() ||
                   client.catalogue.find({below.data() + 1, below.size() - 1}) != wire::kNoEntry)) {
    return result;
  }
  Text text(shown->text);
  text.add(client.root).add(below);
  const size_t shown_size = text.size() < size ? text.size() : size;
  std::memcpy(buffer, shown->text, shown_size);
  // Many programs rely on the zeros that they have written before.
  if (shown_size < read_bytes) std::memset(buffer + shown_size, 0, read_bytes - shown_size);
  return static_cast<ssize_t>(shown_size);
}

}  // namespace millrace::store
