// Listing: the names that programs have created in a directory of the store: those that the upper
// directory and the buffer have, and the catalogue lacks. A snapshot, in memory of its own.
//
// A directory that has the same time as in the catalogue has not changed since it was packed, and
// is not read: in the origin, if created files go there, only few directories have new names.
#pragma once

#include <dirent.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace millrace::store {

class Listing {
 public:
  // Reads the names of a directory. `entry` is its entry in the catalogue; kNoEntry: programs have
  // created it; then "." and ".." are listed too. `relative` is its path relative to the root. 0,
  // or an errno value.
  int read(uint32_t entry, std::string_view relative);
  void clear();

  // Entry number `position`, copied to `out`; false at the end.
  bool at(uint64_t position, struct dirent64* out);

 private:
  int read_upper(uint32_t entry, std::string_view relative);
  int read_buffer(std::string_view relative);
  bool reserve(size_t more_bytes);
  bool has(std::string_view name) const;

  char* bytes_ = nullptr;  // records as getdents64 has them
  size_t size_bytes_ = 0;
  size_t room_bytes_ = 0;
  size_t offset_ = 0;  // of the record `position_`
  uint64_t position_ = 0;
};

}  // namespace millrace::store
