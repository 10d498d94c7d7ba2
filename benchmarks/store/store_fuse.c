/* A file system in user space as libfuse makes one by default: shows the directory DIR, read-only.
 *
 *   store_fuse DIR MOUNTPOINT [-f and other options of libfuse]
 *
 * No option is changed: no keep_cache, no splice, requests of at most 128 KiB, several threads. What a
 * simple file system of a user costs, beside which benchmarks/store/store_figures.py measures the store. */
#define FUSE_USE_VERSION 31
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int source;

static const char* below(const char* path) { return path[1] == '\0' ? "." : path + 1; }

static int show_attributes(const char* path, struct stat* status, struct fuse_file_info* file) {
  (void)file;
  return fstatat(source, below(path), status, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : -errno;
}

static int list(const char* path, void* buffer, fuse_fill_dir_t fill, off_t offset,
                struct fuse_file_info* file, enum fuse_readdir_flags flags) {
  (void)offset, (void)file, (void)flags;
  const int fd = openat(source, below(path), O_RDONLY | O_DIRECTORY);
  DIR* directory = fd < 0 ? NULL : fdopendir(fd);
  if (directory == NULL) return -errno;
  for (struct dirent* entry; (entry = readdir(directory)) != NULL;) {
    fill(buffer, entry->d_name, NULL, 0, 0);
  }
  closedir(directory);
  return 0;
}

static int open_file(const char* path, struct fuse_file_info* file) {
  const int fd = openat(source, below(path), O_RDONLY);
  if (fd < 0) return -errno;
  file->fh = (uint64_t)fd;
  return 0;
}

static int read_file(const char* path, char* buffer, size_t size, off_t offset,
                     struct fuse_file_info* file) {
  (void)path;
  const ssize_t result = pread((int)file->fh, buffer, size, offset);
  return result < 0 ? -errno : (int)result;
}

static int close_file(const char* path, struct fuse_file_info* file) {
  (void)path;
  close((int)file->fh);
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 3 || (source = open(argv[1], O_RDONLY | O_DIRECTORY)) < 0) {
    fprintf(stderr, "usage: store_fuse DIR MOUNTPOINT [options of libfuse]\n");
    return 2;
  }
  argv[1] = argv[0];
  const struct fuse_operations operations = {.getattr = show_attributes,
                                             .readdir = list,
                                             .open = open_file,
                                             .read = read_file,
                                             .release = close_file};
  return fuse_main(argc - 1, argv + 1, &operations, NULL);
}
