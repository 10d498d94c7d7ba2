// Listing: what is in a directory, of the operating system or of a store's catalogue.
//
// Follows symbolic links. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace millrace::io {

enum class ListedKind : uint8_t { kFile, kDirectory, kOther };

// Which directory it is, whatever the path. Shows that a link leads back.
struct DirectoryIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  bool operator==(const DirectoryIdentity&) const = default;
};

class Listing {
 public:
  virtual ~Listing() = default;

  // Fails if it is not a directory.
  virtual Result<DirectoryIdentity> identity(const std::string& directory) const = 0;

  // Calls `each` for every entry but "." and "..", in any order. The kind of a link is that of its
  // target, or an error if there is none. The first error of `each` ends it.
  using Visit = std::function<Status(std::string_view name, const Result<ListedKind>& kind)>;
  virtual Status visit(const std::string& directory, const Visit& each) const = 0;
};

// The directories of the operating system.
const Listing& system_listing();

}  // namespace millrace::io
