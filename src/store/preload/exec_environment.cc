#include "store/preload/exec_environment.h"

#include <dlfcn.h>
#include <unistd.h>

#include "hook/environment.h"
#include "hook/path.h"
#include "hook/scratch.h"
#include "hook/syscall.h"
#include "wire/store_state.h"

namespace millrace::store {
namespace {

constinit hook::Environment kept;

}  // namespace

void remember_environment() {
  // LD_PRELOAD may contain a relative path, or a name found through the library path.
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&remember_environment), &info) == 0) return;
  const hook::Scratch<hook::ScratchText> current;
  const hook::Scratch<hook::PathBuffer> path;
  if (!current || !path) return;
  if (hook::sys_getcwd(current->text, sizeof(current->text)) <= 0) current->text[0] = '\0';
  hook::normalise_path(current->text, info.dli_fname, *path);
  if (path->size >= sizeof(path->text)) return;
  path->text[path->size] = '\0';
  kept.remember(path->text, wire::kStoreVariable, wire::kStoreVariable, environ);
}

size_t missing_environment_bytes(char* const* environment) {
  return kept.missing_bytes(environment);
}

char** complete_environment(char* const* environment, void* memory) {
  return kept.fill(environment, memory);
}

}  // namespace millrace::store
