#include "trace/preload/settings.h"

#include <cstring>

#include "hook/environment.h"
#include "hook/glob.h"
#include "hook/path.h"
#include "hook/scratch.h"
#include "hook/syscall.h"
#include "wire/trace_call.h"

namespace millrace::trace {
namespace {

const char* variable(char* const* environment, const char* name) {
  return hook::find_variable(environment, name, std::strlen(name));
}

template <size_t kSize>
void copy_text(char (&to)[kSize], const char* from) {
  if (from == nullptr) return;
  const size_t size = std::strlen(from);
  if (size < kSize) std::memcpy(to, from, size + 1);
}

// Absolute, because the program may change its working directory.
template <size_t kSize>
void copy_path(char (&to)[kSize], const char* from) {
  if (from == nullptr || *from == '\0') return;
  const hook::Scratch<hook::ScratchText> current;
  const hook::Scratch<hook::PathBuffer> path;
  if (!current || !path) return;
  current->text[0] = '\0';
  if (from[0] != '/') hook::sys_getcwd(current->text, sizeof(current->text));
  hook::normalise_path(current->text, from, *path);
  if (path->size >= kSize) return;
  std::memcpy(to, path->text, path->size);
  to[path->size] = '\0';
}

uint32_t parse_levels(const char* text) {
  constexpr uint32_t kAll = 0b111110;
  if (text == nullptr || *text == '\0') return kAll;
  uint32_t levels = 0;
  while (*text != '\0') {
    const size_t size = std::strcspn(text, ",");
    for (uint32_t level = 1; level < wire::kLevelCount; ++level) {
      const char* name = wire::kLevelNames[level];
      if (std::strlen(name) == size && std::memcmp(name, text, size) == 0) levels |= 1u << level;
    }
    text += size;
    if (*text == ',') ++text;
  }
  return levels;
}

bool any_glob_matches(const char* globs, std::string_view path) {
  const hook::Scratch<hook::ScratchText> glob;
  while (glob && *globs != '\0') {
    size_t size = 0;
    while (*globs != '\0' && *globs != ':' && size < sizeof(glob->text)) {
      if (globs[0] == '\\' && globs[1] == ':') ++globs;
      glob->text[size++] = *globs++;
    }
    if (*globs == ':') ++globs;
    if (size > 0 && hook::glob_matches({glob->text, size}, path)) return true;
  }
  return false;
}

int32_t parse_number(const char* text) {
  if (text == nullptr || *text < '0' || *text > '9') return -1;
  int64_t value = 0;
  for (; *text >= '0' && *text <= '9'; ++text) {
    value = value * 10 + (*text - '0');
    if (value > INT32_MAX) return -1;
  }
  return *text == '\0' ? static_cast<int32_t>(value) : -1;
}

}  // namespace

void read_settings(char* const* environment, Settings& settings) {
  const char* off = variable(environment, "MILLRACE_TRACE");
  if (off != nullptr && std::strcmp(off, "0") == 0) return;
  copy_path(settings.directory, variable(environment, "MILLRACE_TRACE_DIR"));
  copy_path(settings.session, variable(environment, "MILLRACE_TRACE_SESSION"));
  copy_text(settings.include, variable(environment, "MILLRACE_TRACE_INCLUDE"));
  copy_text(settings.exclude, variable(environment, "MILLRACE_TRACE_EXCLUDE"));
  settings.levels = parse_levels(variable(environment, "MILLRACE_TRACE_LEVELS"));
  settings.paused = variable(environment, "MILLRACE_STEPS") != nullptr;
  settings.wanted = settings.directory[0] != '\0' || settings.session[0] != '\0';
}

bool is_filtered(const Settings& settings, std::string_view path) {
  if (settings.include[0] != '\0' && !any_glob_matches(settings.include, path)) return true;
  return settings.exclude[0] != '\0' && any_glob_matches(settings.exclude, path);
}

RankInfo read_rank(char* const* environment) {
  const auto value = [&](const char* name) {
    return name == nullptr ? nullptr : variable(environment, name);
  };
  const wire::Launcher* launcher = wire::find_launcher(value);
  if (launcher == nullptr) return {};
  const wire::PlaceVariables place = wire::place_variables(*launcher, value);
  RankInfo info{.rank = parse_number(value(place.rank))};
  if (info.rank < 0) return {};
  info.world_size = parse_number(value(place.size));
  info.origin.told_by = launcher->id;
  const wire::Launcher* outer = wire::find_launcher(value, launcher);
  const int32_t outer_rank = outer == nullptr ? -1 : parse_number(value(outer->rank));
  if (outer_rank >= 0) {
    info.origin.outer_by = outer->id;
    info.origin.outer_rank = outer_rank;
  }
  return info;
}

}  // namespace millrace::trace
