// Creating, changing and resolving file names.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace/preload/hooks/hooks.h"

using namespace millrace::trace;

extern "C" {

int rename(const char* from, const char* to) {
  static constinit Real<int(const char*, const char*)> real{"rename"};
  return on_two_paths(Call::kRename, {AT_FDCWD, from}, {AT_FDCWD, to},
                      [&] { return real(from, to); });
}

int renameat(int from_directory, const char* from, int to_directory, const char* to) {
  static constinit Real<int(int, const char*, int, const char*)> real{"renameat"};
  return on_two_paths(Call::kRenameat, {from_directory, from}, {to_directory, to},
                      [&] { return real(from_directory, from, to_directory, to); });
}

int renameat2(int from_directory, const char* from, int to_directory, const char* to,
              unsigned flags) {
  static constinit Real<int(int, const char*, int, const char*, unsigned)> real{"renameat2"};
  return on_two_paths(Call::kRenameat2, {from_directory, from}, {to_directory, to},
                      [&] { return real(from_directory, from, to_directory, to, flags); });
}

int unlink(const char* path) {
  static constinit Real<int(const char*)> real{"unlink"};
  return on_path(Call::kUnlink, path, [&] { return real(path); });
}

int unlinkat(int directory, const char* path, int flags) {
  static constinit Real<int(int, const char*, int)> real{"unlinkat"};
  return on_path_at(Call::kUnlinkat, directory, path, [&] { return real(directory, path, flags); });
}

int remove(const char* path) {
  static constinit Real<int(const char*)> real{"remove"};
  return on_path(Call::kRemove, path, [&] { return real(path); });
}

int link(const char* from, const char* to) {
  static constinit Real<int(const char*, const char*)> real{"link"};
  return on_two_paths(Call::kLink, {AT_FDCWD, from}, {AT_FDCWD, to},
                      [&] { return real(from, to); });
}

int linkat(int from_directory, const char* from, int to_directory, const char* to, int flags) {
  static constinit Real<int(int, const char*, int, const char*, int)> real{"linkat"};
  return on_two_paths(Call::kLinkat, {from_directory, from}, {to_directory, to},
                      [&] { return real(from_directory, from, to_directory, to, flags); });
}

// The text of a symbolic link is not a path yet: it is relative to the link.
int symlink(const char* text, const char* path) {
  static constinit Real<int(const char*, const char*)> real{"symlink"};
  return on_path(Call::kSymlink, path, [&] { return real(text, path); });
}

int symlinkat(const char* text, int directory, const char* path) {
  static constinit Real<int(const char*, int, const char*)> real{"symlinkat"};
  return on_path_at(Call::kSymlinkat, directory, path, [&] { return real(text, directory, path); });
}

ssize_t readlink(const char* path, char* buffer, size_t size) {
  static constinit Real<ssize_t(const char*, char*, size_t)> real{"readlink"};
  return on_path(Call::kReadlink, path, [&] { return real(path, buffer, size); }, size);
}

ssize_t __readlink_chk(const char* path, char* buffer, size_t size, size_t room) {
  static constinit Real<ssize_t(const char*, char*, size_t, size_t)> real{"__readlink_chk"};
  return on_path(Call::kReadlink, path, [&] { return real(path, buffer, size, room); }, size);
}

ssize_t readlinkat(int directory, const char* path, char* buffer, size_t size) {
  static constinit Real<ssize_t(int, const char*, char*, size_t)> real{"readlinkat"};
  return on_path_at(
      Call::kReadlinkat, directory, path, [&] { return real(directory, path, buffer, size); },
      size);
}

ssize_t __readlinkat_chk(int directory, const char* path, char* buffer, size_t size, size_t room) {
  static constinit Real<ssize_t(int, const char*, char*, size_t, size_t)> real{"__readlinkat_chk"};
  return on_path_at(
      Call::kReadlinkat, directory, path, [&] { return real(directory, path, buffer, size, room); },
      size);
}

int mkdir(const char* path, mode_t mode) {
  static constinit Real<int(const char*, mode_t)> real{"mkdir"};
  return on_path(Call::kMkdir, path, [&] { return real(path, mode); });
}

int mkdirat(int directory, const char* path, mode_t mode) {
  static constinit Real<int(int, const char*, mode_t)> real{"mkdirat"};
  return on_path_at(Call::kMkdirat, directory, path, [&] { return real(directory, path, mode); });
}

int rmdir(const char* path) {
  static constinit Real<int(const char*)> real{"rmdir"};
  return on_path(Call::kRmdir, path, [&] { return real(path); });
}

int mknod(const char* path, mode_t mode, dev_t device) {
  static constinit Real<int(const char*, mode_t, dev_t)> real{"mknod"};
  return on_path(Call::kMknod, path, [&] { return real(path, mode, device); });
}

int mknodat(int directory, const char* path, mode_t mode, dev_t device) {
  static constinit Real<int(int, const char*, mode_t, dev_t)> real{"mknodat"};
  return on_path_at(Call::kMknodat, directory, path,
                    [&] { return real(directory, path, mode, device); });
}

int __xmknod(int version, const char* path, mode_t mode, dev_t* device) {
  static constinit Real<int(int, const char*, mode_t, dev_t*)> real{"__xmknod"};
  return on_path(Call::kMknod, path, [&] { return real(version, path, mode, device); });
}

int __xmknodat(int version, int directory, const char* path, mode_t mode, dev_t* device) {
  static constinit Real<int(int, int, const char*, mode_t, dev_t*)> real{"__xmknodat"};
  return on_path_at(Call::kMknodat, directory, path,
                    [&] { return real(version, directory, path, mode, device); });
}

int mkfifo(const char* path, mode_t mode) {
  static constinit Real<int(const char*, mode_t)> real{"mkfifo"};
  return on_path(Call::kMkfifo, path, [&] { return real(path, mode); });
}

int mkfifoat(int directory, const char* path, mode_t mode) {
  static constinit Real<int(int, const char*, mode_t)> real{"mkfifoat"};
  return on_path_at(Call::kMkfifoat, directory, path, [&] { return real(directory, path, mode); });
}

char* mkdtemp(char* path) {
  static constinit Real<char*(char*)> real{"mkdtemp"};
  return on_path(Call::kMkdtemp, path, [&] { return real(path); });
}

char* realpath(const char* path, char* resolved) {
  static constinit Real<char*(const char*, char*)> real{"realpath"};
  return on_path(Call::kRealpath, path, [&] { return real(path, resolved); });
}

char* __realpath_chk(const char* path, char* resolved, size_t room) {
  static constinit Real<char*(const char*, char*, size_t)> real{"__realpath_chk"};
  return on_path(Call::kRealpath, path, [&] { return real(path, resolved, room); });
}

char* canonicalize_file_name(const char* path) {
  static constinit Real<char*(const char*)> real{"canonicalize_file_name"};
  return on_path(Call::kRealpath, path, [&] { return real(path); });
}

int chdir(const char* path) {
  static constinit Real<int(const char*)> real{"chdir"};
  // Known before the call: a relative path starts at the old directory.
  if (tracking()) working_directory_name();
  const int result = on_path(Call::kChdir, path, [&] { return real(path); });
  if (result == 0) forget_working_directory();
  return result;
}

int fchdir(int fd) {
  static constinit Real<int(int)> real{"fchdir"};
  const int result = on_descriptor(Call::kFchdir, fd, [&] { return real(fd); });
  if (result == 0) forget_working_directory();
  return result;
}

int chroot(const char* path) {
  static constinit Real<int(const char*)> real{"chroot"};
  const int result = real(path);
  if (result == 0) forget_working_directory();
  return result;
}

}  // extern "C"
