#include "base/io/temporary_directory.h"

#include <stdlib.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace millrace {

Result<TemporaryDirectory> TemporaryDirectory::create(const std::filesystem::path& parent,
                                                      std::string_view prefix) {
  std::string name = (parent / prefix).native() + "XXXXXX";
  if (mkdtemp(name.data()) == nullptr) {
    return fail_os(errno, "cannot create a directory in it").within(parent.native());
  }
  return TemporaryDirectory(name);
}

TemporaryDirectory::TemporaryDirectory(TemporaryDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})) {}

TemporaryDirectory& TemporaryDirectory::operator=(TemporaryDirectory&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

TemporaryDirectory::~TemporaryDirectory() {
  if (path_.empty()) return;
  std::error_code ignored;  // there is nobody to report it to
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace millrace
