// Extended attributes.
#include <sys/types.h>
#include <sys/xattr.h>

#include "trace/preload/hooks/hooks.h"

using namespace millrace::trace;

extern "C" {

ssize_t getxattr(const char* path, const char* name, void* value, size_t size) {
  static constinit Real<ssize_t(const char*, const char*, void*, size_t)> real{"getxattr"};
  return on_path(Call::kGetxattr, path, [&] { return real(path, name, value, size); }, size);
}

ssize_t lgetxattr(const char* path, const char* name, void* value, size_t size) {
  static constinit Real<ssize_t(const char*, const char*, void*, size_t)> real{"lgetxattr"};
  return on_path(Call::kLgetxattr, path, [&] { return real(path, name, value, size); }, size);
}

ssize_t fgetxattr(int fd, const char* name, void* value, size_t size) {
  static constinit Real<ssize_t(int, const char*, void*, size_t)> real{"fgetxattr"};
  return on_range(Call::kFgetxattr, fd, {kNoOffset, size},
                  [&] { return real(fd, name, value, size); });
}

int setxattr(const char* path, const char* name, const void* value, size_t size, int flags) {
  static constinit Real<int(const char*, const char*, const void*, size_t, int)> real{"setxattr"};
  return on_path(Call::kSetxattr, path, [&] { return real(path, name, value, size, flags); }, size);
}

int lsetxattr(const char* path, const char* name, const void* value, size_t size, int flags) {
  static constinit Real<int(const char*, const char*, const void*, size_t, int)> real{"lsetxattr"};
  return on_path(
      Call::kLsetxattr, path, [&] { return real(path, name, value, size, flags); }, size);
}

int fsetxattr(int fd, const char* name, const void* value, size_t size, int flags) {
  static constinit Real<int(int, const char*, const void*, size_t, int)> real{"fsetxattr"};
  return on_range(Call::kFsetxattr, fd, {kNoOffset, size},
                  [&] { return real(fd, name, value, size, flags); });
}

ssize_t listxattr(const char* path, char* list, size_t size) {
  static constinit Real<ssize_t(const char*, char*, size_t)> real{"listxattr"};
  return on_path(Call::kListxattr, path, [&] { return real(path, list, size); }, size);
}

ssize_t llistxattr(const char* path, char* list, size_t size) {
  static constinit Real<ssize_t(const char*, char*, size_t)> real{"llistxattr"};
  return on_path(Call::kLlistxattr, path, [&] { return real(path, list, size); }, size);
}

ssize_t flistxattr(int fd, char* list, size_t size) {
  static constinit Real<ssize_t(int, char*, size_t)> real{"flistxattr"};
  return on_range(Call::kFlistxattr, fd, {kNoOffset, size}, [&] { return real(fd, list, size); });
}

int removexattr(const char* path, const char* name) {
  static constinit Real<int(const char*, const char*)> real{"removexattr"};
  return on_path(Call::kRemovexattr, path, [&] { return real(path, name); });
}

int lremovexattr(const char* path, const char* name) {
  static constinit Real<int(const char*, const char*)> real{"lremovexattr"};
  return on_path(Call::kLremovexattr, path, [&] { return real(path, name); });
}

int fremovexattr(int fd, const char* name) {
  static constinit Real<int(int, const char*)> real{"fremovexattr"};
  return on_descriptor(Call::kFremovexattr, fd, [&] { return real(fd, name); });
}

}  // extern "C"
