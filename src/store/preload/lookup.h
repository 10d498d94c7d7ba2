// Lookup: whether a path or a descriptor of the program belongs to the store.
//
// Paths are absolute, or relative to a descriptor or to the working directory. A working directory
// below the root really is the directory in the tree of the node: it survives exec, and is
// recognised by its name. So are descriptors that were inherited or duplicated.
//
// What is known about a descriptor is a cache: hooks of close and dup forget it, and the name in
// /proc/self/fd decides again. A vfork child, which has descriptors of its own but our memory, does
// not use the cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "store/preload/client.h"

namespace millrace::store {

// Whether a pointer of the program is null, or as good as. Headers declare many pointers as
// nonnull, and the compiler would omit the comparison.
template <typename Type>
bool is_bad(Type* pointer) {
  asm("" : "+r"(pointer));
  return reinterpret_cast<uintptr_t>(pointer) < 4096;
}

// The entry that a descriptor was opened for; kNoEntry if it is not one of the store.
uint32_t entry_of(int fd);

// fd was opened for an entry, or for something else, or closed.
void note_opened(int fd, uint32_t entry);
void forget(int fd);
void forget_range(unsigned first, unsigned last);
// After chdir.
void forget_working_directory();

// The entry of the working directory; kNoEntry if it is outside.
uint32_t working_directory_entry();

// Whether the working directory was created by a program of the job.
bool is_in_written_directory();
// The same for a descriptor.
bool is_in_written_directory(int fd);

// For fstat: the entry, if these attributes are those of its real file. kNoEntry otherwise.
struct RealAttributes {
  uint64_t device;
  uint32_t mode;
  uint64_t size_bytes;
  int64_t mtime_ns;
};
uint32_t entry_of(int fd, const RealAttributes& real);

// One path of a call. The place is valid as long as this object.
class Lookup {
 public:
  Lookup() = default;
  ~Lookup();
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;

  Place find(int directory, const char* path, Last last);

  // For a path that does not exist outside: follows its links, one of which may lead below the
  // root. Takes a system call for each component.
  Place find_linked(int directory, const char* path, Last last);

 private:
  bool has_walk();
  Place follow_links(Last last);
  Place find_below(uint32_t base, std::string_view relative, Last last);
  Place find_in_written(int directory, std::string_view path, Last last);
  Place find_joined(int directory, std::string_view path, Last last);

  Walk* walk_ = nullptr;
};

}  // namespace millrace::store
