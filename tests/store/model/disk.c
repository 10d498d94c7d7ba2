// disk: a file that is a disk with a write cache, and a log of what reached it. For
// power_cut_test.py.
//
//     disk IMAGE LOG MOUNTPOINT
//
// Mounts a file system with one file, MOUNTPOINT/disk, for a loop device. Writes change IMAGE and
// are appended to LOG; a flush of the disk's cache is too. After a power cut, a disk has everything
// from before its last flush, and any part of what came later: the test makes such images of any
// moment from the log.
//
// LOG: records of offset and size (8 bytes each) and the bytes. The offset of a flush is -1.

#define FUSE_USE_VERSION 31
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static int image, log_file;
static off_t image_size;

static int disk_getattr(const char* path, struct stat* status, struct fuse_file_info* info) {
  (void)info;
  memset(status, 0, sizeof *status);
  if (strcmp(path, "/") == 0) {
    status->st_mode = S_IFDIR | 0755;
    status->st_nlink = 2;
    return 0;
  }
  if (strcmp(path, "/disk") != 0) return -ENOENT;
  status->st_mode = S_IFREG | 0600;
  status->st_nlink = 1;
  status->st_size = image_size;
  return 0;
}

static int disk_open(const char* path, struct fuse_file_info* info) {
  (void)path;
  info->direct_io = 1;
  return 0;
}

static int disk_read(const char* path, char* bytes, size_t size, off_t offset,
                     struct fuse_file_info* info) {
  (void)path;
  (void)info;
  const ssize_t result = pread(image, bytes, size, offset);
  return result < 0 ? -errno : (int)result;
}

static int append(int64_t offset, const char* bytes, size_t size) {
  const int64_t head[2] = {offset, (int64_t)size};
  const struct iovec parts[2] = {{(void*)(uintptr_t)head, sizeof head},
                                 {(void*)(uintptr_t)bytes, size}};
  return writev(log_file, parts, 2) == (ssize_t)(sizeof head + size) ? 0 : -EIO;
}

static int disk_write(const char* path, const char* bytes, size_t size, off_t offset,
                      struct fuse_file_info* info) {
  (void)path;
  (void)info;
  if (append(offset, bytes, size) != 0) return -EIO;
  const ssize_t result = pwrite(image, bytes, size, offset);
  return result < 0 ? -errno : (int)result;
}

static int disk_fsync(const char* path, int data_only, struct fuse_file_info* info) {
  (void)path;
  (void)data_only;
  (void)info;
  return append(-1, NULL, 0);
}

static const struct fuse_operations operations = {.getattr = disk_getattr,
                                                  .open = disk_open,
                                                  .read = disk_read,
                                                  .write = disk_write,
                                                  .fsync = disk_fsync};

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: disk IMAGE LOG MOUNTPOINT\n");
    return 2;
  }
  image = open(argv[1], O_RDWR | O_CLOEXEC);
  log_file = open(argv[2], O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
  struct stat status;
  if (image < 0 || log_file < 0 || fstat(image, &status) != 0) {
    perror(argv[1]);
    return 1;
  }
  image_size = status.st_size;
  char* words[] = {argv[0], "-f", "-s", argv[3], NULL};
  return fuse_main(4, words, &operations, NULL);
}
