// Lookup: whether a path or a descriptor of the program belongs to the store.
//
// Paths are absolute, or relative to a descriptor or to the working directory. A working directory
// of the catalogue really is the directory in the tree of the node: it survives exec, and is
// recognised by its name. So are descriptors that were inherited or duplicated.
//
// A created directory is one of the upper directory, and is recognised by its name there, too: so a
// program that enters it by its own name also sees the pack behind "..". A descriptor of a
// directory of the catalogue may be one of the upper directory, because that has the created names
// to list; then only the process that opened it knows what it is.
//
// What is known about a descriptor is a cache: hooks of close and dup forget it, and the name in
// /proc/self/fd decides again. A vfork child, which has descriptors of its own but our memory, does
// not use the cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "store/preload/client.h"

namespace millrace::store {

struct ProcName;

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

// `copy` is a duplicate of fd.
void note_copied(int fd, int copy);

// Whether the working directory is a created one.
bool is_in_created_directory();
// The same for a descriptor.
bool is_created_directory(int fd);

// Whether a descriptor is of a file in the buffer.
bool is_in_buffer(int fd);

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

  // One after the other.
  Place find_anywhere(int directory, const char* path, Last last);

  // The same once more: somebody may have changed what is there.
  Place find_again();

 private:
  struct Asked {
    int directory;
    const char* path;
    Last last;
    bool is_linked;
  };

  Place find_path(int directory, const char* path, Last last);
  Place follow_path(int directory, const char* path, Last last);
  bool has_walk();
  Place follow_links(Last last);
  Place find_below(uint32_t base, std::string_view relative, Last last);
  Place find_outside(std::string_view left, Last last);
  Place find_in_created(int directory, std::string_view path, Last last);
  Place find_beside_removed(std::string_view below, std::string_view path, Last last);
  Place find_joined(int directory, std::string_view path, Last last);
  Place find_in_process(const ProcName& name, Last last);

  Walk* walk_ = nullptr;
  Asked asked_ = {};
  int excursions_ = 0;  // how often the path has left the root
};

}  // namespace millrace::store
