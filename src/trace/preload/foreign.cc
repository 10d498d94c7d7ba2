#include "trace/preload/foreign.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>

#include "hook/scratch.h"
#include "trace/preload/text.h"

namespace millrace::trace {
namespace {

// A loaded module that has called a hooked function.
struct Module {
  uint64_t begin;
  uint64_t end;
  void* handle;  // null: the program itself, which sees what RTLD_NEXT sees
};

struct Modules {
  std::atomic<uint32_t> count{0};
  struct Slot {
    std::atomic<bool> ready;
    Module module;
  } slots[kCallerModules];
};
constinit Modules modules{};

constexpr size_t kUnnumbered = kCallerModules;

struct ModuleSearch {
  uint64_t address;
  Module found;
  char path[4096];
};

int match_module(dl_phdr_info* info, size_t, void* context) {
  auto* search = static_cast<ModuleSearch*>(context);
  bool inside = false;
  uint64_t begin = ~uint64_t{0};
  uint64_t end = 0;
  for (size_t i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD) continue;
    const uint64_t first = info->dlpi_addr + header.p_vaddr;
    const uint64_t last = first + header.p_memsz;
    inside = inside || (search->address >= first && search->address < last);
    begin = first < begin ? first : begin;
    end = last > end ? last : end;
  }
  if (!inside) return 0;
  search->found.begin = begin;
  search->found.end = end;
  copy_cut(search->path, info->dlpi_name == nullptr ? "" : info->dlpi_name);
  return 1;
}

// False if the address is in no module: code generated at run time.
bool find_module(const void* caller, Module* found) {
  const hook::Scratch<ModuleSearch> scratch;
  if (!scratch) return false;
  ModuleSearch& search = *scratch;
  search.address = reinterpret_cast<uint64_t>(caller);
  search.found = {};
  if (dl_iterate_phdr(&match_module, &search) == 0) return false;
  if (search.path[0] != '\0') {
    // Kept open: as long as the module cannot be unloaded, the functions found for it stay valid.
    search.found.handle = dlopen(search.path, RTLD_LAZY | RTLD_NOLOAD);
  }
  *found = search.found;
  return true;
}

size_t known_module(const void* caller) {
  const auto address = reinterpret_cast<uint64_t>(caller);
  const uint32_t count = modules.count.load(std::memory_order_acquire);
  for (size_t i = 0; i < count && i < kCallerModules; ++i) {
    const auto& slot = modules.slots[i];
    if (!slot.ready.load(std::memory_order_acquire)) continue;
    if (address >= slot.module.begin && address < slot.module.end) return i;
  }
  return kUnnumbered;
}

// Gives the module a number, if one is left. Two threads may number the same module twice; this
// only wastes a number.
size_t number_module(const Module& module) {
  if (modules.count.load(std::memory_order_relaxed) >= kCallerModules) return kUnnumbered;
  const uint32_t number = modules.count.fetch_add(1, std::memory_order_acq_rel);
  if (number >= kCallerModules) return kUnnumbered;
  modules.slots[number].module = module;
  modules.slots[number].ready.store(true, std::memory_order_release);
  return number;
}

// The path of the module with this index in load order; empty after the last.
struct ModuleAt {
  size_t index;
  char path[4096];
  bool exists;
};
int match_index(dl_phdr_info* info, size_t, void* context) {
  auto* wanted = static_cast<ModuleAt*>(context);
  if (wanted->index-- != 0) return 0;
  copy_cut(wanted->path, info->dlpi_name == nullptr ? "" : info->dlpi_name);
  wanted->exists = true;
  return 1;
}

bool is_ours(const void* function) {
  Dl_info theirs;
  Dl_info ours;
  return dladdr(function, &theirs) != 0 &&
         dladdr(reinterpret_cast<const void*>(&find_module), &ours) != 0 &&
         theirs.dli_fbase == ours.dli_fbase;
}

// A function that ends in a call (`return H5Dclose(id);`) is compiled to a jump. We then see its
// caller's address, whose module may not use the library at all. Any module that has the function
// will do. One module at a time, because dlopen within dl_iterate_phdr can deadlock.
void* look_up_anywhere(const char* name) {
  const hook::Scratch<ModuleAt> scratch;
  if (!scratch) return nullptr;
  ModuleAt& at = *scratch;
  for (size_t index = 0;; ++index) {
    at.index = index;
    at.exists = false;
    dl_iterate_phdr(&match_index, &at);
    if (!at.exists) return nullptr;
    if (at.path[0] == '\0') continue;
    void* handle = dlopen(at.path, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    void* function = dlsym(handle, name);
    if (function != nullptr && !is_ours(function)) return function;  // and its module stays loaded
    dlclose(handle);
  }
}

void* look_up(const char* name, const Module& module) {
  void* function = dlsym(RTLD_NEXT, name);
  if (function == nullptr && module.handle != nullptr) function = dlsym(module.handle, name);
  if (function == nullptr) function = look_up_anywhere(name);
  // Otherwise the program's next dlerror() would report our failed search.
  if (function == nullptr) dlerror();
  return function;
}

}  // namespace

void* ForeignSymbol::find(const void* caller) {
  size_t number = known_module(caller);
  if (number != kUnnumbered) {
    void* function = found_[number].load(std::memory_order_acquire);
    if (function != nullptr) return function;
  }
  const int saved_errno = errno;
  Module module{};
  if (number != kUnnumbered) {
    module = modules.slots[number].module;
  } else if (find_module(caller, &module)) {
    number = number_module(module);
  }
  void* function = look_up(name_, module);
  if (number != kUnnumbered) found_[number].store(function, std::memory_order_release);
  errno = saved_errno;
  return function;
}

void* find_unhooked(const char* name, const void* caller) {
  const int saved_errno = errno;
  // Not RTLD_NEXT: a program may have a copy of the variable, and then uses that one.
  void* data = dlsym(RTLD_DEFAULT, name);
  Module module{};
  if (data == nullptr && find_module(caller, &module)) data = look_up(name, module);
  if (data == nullptr) dlerror();
  errno = saved_errno;
  return data;
}

}  // namespace millrace::trace
