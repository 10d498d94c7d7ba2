// Lookup: whether a path or a descriptor of the program belongs to the store.
//
// Descriptors and the working directory are recognised by their real names, in the tree of the node
// or in the upper directory, because they survive exec. A descriptor of a directory of the
// catalogue may be one of the upper directory, which has the created names to list; then only the
// process that opened it knows what it is.
//
// What is known about a descriptor is a cache: hooks of close and dup forget it. A vfork child,
// which has descriptors of its own but our memory, does not use it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

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

// `copy` is a duplicate of fd.
void note_copied(int fd, int copy);

// Whether a descriptor, or AT_FDCWD, is of a created directory.
bool is_created_directory(int directory);

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

// Paths such as "/proc/self/fd/7/x", "/dev/stdin" and "/proc/self/cwd", which lead through a
// descriptor or the working directory of this process. The kernel would follow them into the tree.
struct ProcName {
  int directory;          // a descriptor, or AT_FDCWD
  std::string_view rest;  // after it, such as "/x"; empty: none
};
// False if the path is another one.
bool parse_proc_name(std::string_view path, ProcName& out);

// What a program sees of a link that readlinkat() has read: a name below the root instead of one in
// the tree or in the upper directory. Keeps errno.
ssize_t show_link(ssize_t result, int directory, const char* path, char* buffer, size_t size);

// One path of a call. The place is valid as long as this object.
class Lookup {
 public:
  Lookup() = default;
  ~Lookup();
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;

  // `is_linked`: follows the links of a path that does not exist outside, one of which may lead
  // below the root. Takes a system call for each component.
  Place find(int directory, const char* path, Last last, bool is_linked = false);
  Place find_linked(int directory, const char* path, Last last) {
    return find(directory, path, last, true);
  }
  // One after the other.
  Place find_anywhere(int directory, const char* path, Last last);

  // The same once more: somebody may have changed what is there.
  Place find_again();

 private:
  Place find_path(int directory, const char* path, Last last);
  Place follow_path(int directory, const char* path, Last last);
  bool has_walk();
  Place follow_links(Last last);
  Place find_below(uint32_t base, std::string_view relative, Last last);
  Place find_in_entry(uint32_t entry, std::string_view relative, Last last);
  Place find_outside(std::string_view left, Last last);
  Place find_in_created(int directory, std::string_view path, Last last);
  Place find_beside_removed(std::string_view below, std::string_view path, Last last);
  Place find_joined(int directory, std::string_view path, Last last);
  Place find_in_process(const ProcName& name, Last last);

  Walk* walk_ = nullptr;
  int directory_ = 0;  // what was asked
  const char* path_ = nullptr;
  Last last_ = Last::kFollow;
  bool is_linked_ = false;
  int excursions_ = 0;  // how often the path has left the root
};

}  // namespace millrace::store
