#include "base/system/own_library.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <string>

#include "base/text/text.h"

namespace millrace {
namespace {

// Relative to own_folder().
constexpr const char* kPlaces[] = {
    "lib",                              // an extension in the Python package
    "../lib",                           // the program in the build tree and in the Python package
    "../" MILLRACE_LIBDIR "/millrace",  // the program as installed by `cmake --install`
};

}  // namespace

std::filesystem::path own_folder() {
  Dl_info info{};
  link_map* file = nullptr;
  std::error_code error;
  const bool is_found = dladdr1(reinterpret_cast<const void*>(&own_folder), &info,
                                reinterpret_cast<void**>(&file), RTLD_DL_LINKMAP) != 0;
  // The name is empty for the program itself.
  if (is_found && file != nullptr && file->l_name[0] != '\0') {
    return std::filesystem::absolute(file->l_name, error).parent_path();
  }
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
}

Result<std::filesystem::path> find_own_library(std::string_view name) {
  std::error_code error;
  const std::filesystem::path folder = own_folder();
  for (const char* place : kPlaces) {
    const auto candidate = (folder / place / name).lexically_normal();
    if (std::filesystem::exists(candidate, error)) return candidate;
  }
  return fail(Errc::kNotFound,
              "{} is neither in the build tree nor in the installation (searched from {})", name,
              printable(folder.string()));
}

Result<std::filesystem::path> library_named_by(const char* variable) {
  const char* const given = std::getenv(variable);
  if (given == nullptr) return std::filesystem::path();
  std::error_code error;
  if (std::filesystem::exists(given, error)) return std::filesystem::absolute(given);
  return fail(Errc::kNotFound, "{} names {}, which does not exist", variable, printable(given));
}

}  // namespace millrace
