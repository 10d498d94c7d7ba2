#include "device_driver.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

namespace millrace::python {

namespace {

struct Names {
  const char* create_event;
  const char* record_event;
  const char* query_event;
  const char* elapsed_ms;
  const char* get_context;
  const char* set_context;
};

// CUDA and HIP. The functions have the same arguments and the same number for "not ready".
constexpr Names kKnown[] = {
    {"cuEventCreate", "cuEventRecord", "cuEventQuery", "cuEventElapsedTime", "cuCtxGetCurrent",
     "cuCtxSetCurrent"},
    {"hipEventCreateWithFlags", "hipEventRecord", "hipEventQuery", "hipEventElapsedTime",
     "hipCtxGetCurrent", "hipCtxSetCurrent"},
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

bool find_all(void* library, const Names& names, DeviceDriver& driver) {
  return find(library, names.create_event, driver.create_event) &&
         find(library, names.record_event, driver.record_event) &&
         find(library, names.query_event, driver.query_event) &&
         find(library, names.elapsed_ms, driver.elapsed_ms) &&
         find(library, names.get_context, driver.get_context) &&
         find(library, names.set_context, driver.set_context);
}

struct Search {
  const char* name;
  char path[PATH_MAX];
};

int find_path(dl_phdr_info* info, size_t, void* argument) {
  auto* search = static_cast<Search*>(argument);
  const char* slash = strrchr(info->dlpi_name, '/');
  const char* name = slash != nullptr ? slash + 1 : info->dlpi_name;
  if (strncmp(name, search->name, strlen(search->name)) != 0) return 0;
  snprintf(search->path, sizeof search->path, "%s", info->dlpi_name);
  return 1;
}

}  // namespace

bool find_driver(const char* library, DeviceDriver& driver) {
  // Not from /proc/self/maps: a trace of the program would show that it was read.
  Search search{library, ""};
  if (dl_iterate_phdr(find_path, &search) == 0) return false;
  // Not in find_path: the list of libraries is locked there. It stays open: the timer never ends.
  void* loaded = dlopen(search.path, RTLD_NOW | RTLD_NOLOAD);
  if (loaded == nullptr) return false;
  for (const Names& names : kKnown) {
    if (find_all(loaded, names, driver)) return true;
  }
  return false;
}

}  // namespace millrace::python
