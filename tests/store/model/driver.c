// driver: does what its standard input says, one call a line, and answers each with one line.
//
//     driver ROOT OUTSIDE < operations
//
// model_test.py runs it twice, in a store and in a plain directory, and compares the answers. So an
// answer has nothing that may differ between two file systems: no inode, no time of now, no order
// of names, no name of ROOT.
//
// A line is words: a name of an operation and its arguments. `@` at the start of a path is ROOT,
// `%` is OUTSIDE, a directory that is not in the store. A descriptor is a number of a slot, `-` is
// AT_FDCWD. `fork` before an operation does it in a child, `thread` in another thread. A call after
// a colon is made instead of the usual one: `stat:stat64 @/f`. More operations are in driver_*.c.
//
// MODEL_MUTANT=name makes one call wrong: the test of the test.

#define _GNU_SOURCE
#include "tests/store/model/driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

enum { kWords = 12, kPaths = 4, kAnswer = 1 << 20, kNames = 4096 };

static const char *root, *outside, *mutant;
int slots[kSlots];
const char* other_name;
static char answer[kAnswer];
static size_t answer_size;
static char* words[kWords];
static int word_count;
static char* names[kNames];
static int name_count;

void say(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  answer_size += vsnprintf(answer + answer_size, kAnswer - answer_size, format, arguments);
  va_end(arguments);
  if (answer_size >= kAnswer) abort();
}

void say_result(long result) {
  if (result < 0) {
    say("%s", strerrorname_np(errno));
  } else {
    say("%ld", result);
  }
}

// A path in an answer: ROOT is `@` again.
void say_path(const char* path) {
  const size_t length = strlen(root);
  const size_t length_outside = strlen(outside);
  if (strncmp(path, root, length) == 0 && strchr("/:", path[length]) != NULL) {
    say("@%s", path + length);
  } else if (strncmp(path, outside, length_outside) == 0) {
    say("%%%s", path + length_outside);
  } else {
    say("%s", path);
  }
}

static int is_mutant(const char* name) { return mutant != NULL && strcmp(mutant, name) == 0; }

// ---- arguments ----------------------------------------------------------------------------------

const char* word(int i) {
  if (i >= word_count) {
    fprintf(stderr, "driver: '%s' needs %d words\n", words[0], i);
    exit(3);
  }
  return words[i];
}

long number(int i) { return strtol(word(i), NULL, 0); }

char* path(int i) {
  static char paths[kPaths][2 * PATH_MAX];
  static int next;
  const char* text = word(i);
  char* made = paths[next++ % kPaths];
  if (strcmp(text, "''") == 0) text = "";
  if (text[0] == '@' || text[0] == '%') {
    snprintf(made, sizeof paths[0], "%s%s", text[0] == '@' ? root : outside, text + 1);
  } else {
    snprintf(made, sizeof paths[0], "%s", text);
  }
  return made;
}

int descriptor(int i) {
  if (word(i)[0] == '-') return AT_FDCWD;
  return slots[number(i)];
}

// Bytes that follow from the tag and the offset.
char* pattern(long size, long tag) {
  static char bytes[1 << 20];
  for (long i = 0; i < size; i++) bytes[i] = (char)('a' + (tag * 7 + i + i / 251) % 26);
  return bytes;
}

void say_bytes(const char* bytes, long size) {
  uint64_t sum = 14695981039346656037u;
  for (long i = 0; i < size; i++) sum = (sum ^ (unsigned char)bytes[i]) * 1099511628211u;
  say("%ld:%016lx:", size, (unsigned long)sum);
  for (long i = 0; i < size && i < 12; i++)
    say("%c", bytes[i] > ' ' && bytes[i] < 127 ? bytes[i] : '.');
}

void say_read(const char* bytes, long size) {
  size < 0 ? say_result(size) : say_bytes(bytes, size);
}

void keep(int slot, int fd) {
  if (fd >= 0) {
    if (slots[slot] >= 0) close(slots[slot]);
    slots[slot] = fd;
  }
  say_result(fd < 0 ? -1 : 0);
}

// ---- names, sorted ------------------------------------------------------------------------------

void add_name(const char* format, ...) {
  char text[2 * PATH_MAX];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (name_count == kNames) abort();
  names[name_count++] = strdup(text);
}

void forget_names(void) {
  while (name_count > 0) free(names[--name_count]);
}

static int compare(const void* left, const void* right) {
  return strcmp(*(char* const*)left, *(char* const*)right);
}

void say_names(void) {
  qsort(names, name_count, sizeof names[0], compare);
  for (int i = 0; i < name_count; i++) {
    say(" ");
    say_path(names[i]);
  }
  forget_names();
}

// ---- attributes ---------------------------------------------------------------------------------

static char type_letter(mode_t mode) {
  return S_ISREG(mode)    ? 'f'
         : S_ISDIR(mode)  ? 'd'
         : S_ISLNK(mode)  ? 'l'
         : S_ISFIFO(mode) ? 'p'
         : S_ISSOCK(mode) ? 's'
                          : '?';
}

// Times from 2025 on count as now.
static void say_attributes(mode_t mode, long size, long link_count, long time_s) {
  say("%c %o", type_letter(mode), mode & 07777);
  if (!S_ISDIR(mode)) say(" size %ld links %ld", size, link_count);
  if (S_ISREG(mode)) time_s < 1735689600 ? say(" at %ld", time_s) : say(" now");
}

void say_stat(int result, const struct stat* status) {
  if (result < 0) {
    say_result(result);
  } else {
    say_attributes(status->st_mode, status->st_size, status->st_nlink, status->st_mtime);
  }
}

static void do_stat(void) {
  struct stat status;
  say_stat(CALL(stat)(path(1), &status), &status);
}

static void do_lstat(void) {
  struct stat status;
  say_stat(CALL(lstat)(path(1), &status), &status);
}

static void do_fstatat(void) {
  struct stat status;
  say_stat(CALL(fstatat)(descriptor(1), path(2), &status, number(3)), &status);
}

static void do_fstat(void) {
  struct stat status;
  say_stat(CALL(fstat)(descriptor(1), &status), &status);
}

static void do_statx(void) {
  struct statx status;
  const int result = statx(descriptor(1), path(2), number(3), STATX_BASIC_STATS, &status);
  if (result < 0) {
    say_result(result);
  } else {
    say_attributes(status.stx_mode, status.stx_size, status.stx_nlink, status.stx_mtime.tv_sec);
  }
}

static void do_access(void) { say_result(access(path(1), number(2))); }
static void do_faccessat(void) {
  say_result(faccessat(descriptor(1), path(2), number(3), number(4)));
}
static void do_chmod(void) { say_result(chmod(path(1), number(2))); }
static void do_fchmod(void) { say_result(fchmod(descriptor(1), number(2))); }
static void do_fchmodat(void) { say_result(fchmodat(descriptor(1), path(2), number(3), 0)); }
static void do_chown(void) { say_result(chown(path(1), geteuid(), getegid())); }
static void do_lchown(void) { say_result(lchown(path(1), geteuid(), getegid())); }
static void do_fchown(void) { say_result(fchown(descriptor(1), geteuid(), getegid())); }

static void do_utime(void) {
  const struct utimbuf times = {number(2), number(2)};
  say_result(utime(path(1), &times));
}

static void do_utimensat(void) {
  const struct timespec times[2] = {{number(3), 0}, {number(3), 0}};
  say_result(utimensat(descriptor(1), path(2), times, number(4)));
}

static void do_futimens(void) {
  const struct timespec times[2] = {{number(2), 0}, {number(2), 0}};
  say_result(futimens(descriptor(1), times));
}

static void do_setxattr(void) {
  say_result(setxattr(path(1), word(2), word(3), strlen(word(3)), number(4)));
}
static void do_fsetxattr(void) {
  say_result(fsetxattr(descriptor(1), word(2), word(3), strlen(word(3)), 0));
}
static void do_removexattr(void) { say_result(removexattr(path(1), word(2))); }

static void do_getxattr(void) {
  char value[256];
  const long size = getxattr(path(1), word(2), value, sizeof value);
  say_read(value, size);
}

static void do_fgetxattr(void) {
  char value[256];
  const long size = fgetxattr(descriptor(1), word(2), value, sizeof value);
  say_read(value, size);
}

static void do_listxattr(void) {
  char value[1024];
  const long size = listxattr(path(1), value, sizeof value);
  if (size < 0) {
    say_result(size);
    return;
  }
  for (const char* name = value; name < value + size; name += strlen(name) + 1) {
    if (strncmp(name, "user.", 5) == 0) add_name("%s", name);
  }
  say("xattrs");
  say_names();
}

// ---- descriptors --------------------------------------------------------------------------------

static void do_close(void) {
  const int slot = number(1);
  say_result(slots[slot] < 0 ? (errno = EBADF, -1) : CALL(close)(slots[slot]));
  slots[slot] = -1;
}

static int wrong_flags(int flags) {
  if (is_mutant("append")) flags &= ~O_APPEND;
  if (is_mutant("exclusive")) flags &= ~O_EXCL;
  if (is_mutant("truncate")) flags &= ~O_TRUNC;
  return flags;
}

static void do_open(void) {
  keep(number(1), CALL(open)(path(2), wrong_flags(number(3)), (mode_t)number(4)));
}
static void do_openat(void) {
  keep(number(1), CALL(openat)(descriptor(2), path(3), wrong_flags(number(4)), (mode_t)number(5)));
}
static void do_creat(void) { keep(number(1), CALL(creat)(path(2), number(3))); }

static void do_read(void) {
  static char bytes[1 << 20];
  const long size = CALL(read)(descriptor(1), bytes, number(2));
  say_read(bytes, size);
}

static void do_pread(void) {
  static char bytes[1 << 20];
  const long size = CALL(pread)(descriptor(1), bytes, number(2), number(3));
  say_read(bytes, size);
}

static void do_write(void) {
  say_result(write(descriptor(1), pattern(number(2), number(3)), number(2)));
}
static void do_pwrite(void) {
  say_result(pwrite(descriptor(1), pattern(number(2), number(4)), number(2), number(3)));
}
static void do_lseek(void) { say_result(CALL(lseek)(descriptor(1), number(2), number(3))); }
static void do_ftruncate(void) { say_result(CALL(ftruncate)(descriptor(1), number(2))); }
static void do_truncate(void) { say_result(CALL(truncate)(path(1), number(2))); }
static void do_fsync(void) { say_result(fsync(descriptor(1))); }
static void do_fdatasync(void) { say_result(fdatasync(descriptor(1))); }
static void do_flock(void) { say_result(flock(descriptor(1), number(2) | LOCK_NB)); }
static void do_dup(void) { keep(number(2), dup(descriptor(1))); }
static void do_dupfd(void) { keep(number(2), CALL(fcntl)(descriptor(1), F_DUPFD_CLOEXEC, 20)); }

static void do_dup2(void) {
  const int to = slots[number(2)];
  say_result(to < 0 ? (errno = EBADF, -1) : CALL(dup2)(descriptor(1), to) < 0 ? -1 : 0);
}

static void do_lock(void) {
  struct flock lock = {
      .l_type = number(2), .l_whence = SEEK_SET, .l_start = number(3), .l_len = 10};
  say_result(CALL(fcntl)(descriptor(1), F_OFD_SETLK, &lock));
}

static void do_getfl(void) {
  const int flags = CALL(fcntl)(descriptor(1), F_GETFL);
  say_result(flags < 0 ? -1 : flags & (O_ACCMODE | O_APPEND));
}

static void do_setfl(void) { say_result(CALL(fcntl)(descriptor(1), F_SETFL, number(2))); }

static void do_map_write(void) {
  struct stat status;
  const long offset = number(2);
  const long size = number(3);
  if (fstat(descriptor(1), &status) < 0) {
    say_result(-1);
    return;
  }
  char* bytes = CALL(mmap)(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor(1), 0);
  if (bytes == MAP_FAILED) {
    say_result(-1);
    return;
  }
  const long end =
      status.st_size < 65536 ? status.st_size : 65536;  // no byte beyond the end of the file
  long done = 0;
  for (; done < size && offset + done < end; done++)
    bytes[offset + done] = pattern(size, number(4))[done];
  say("%ld ", done);
  say_result(msync(bytes, 65536, MS_SYNC));
  munmap(bytes, 65536);
}

static void do_map_read(void) {
  struct stat status;
  if (fstat(descriptor(1), &status) < 0) {
    say_result(-1);
    return;
  }
  char* bytes =
      CALL(mmap)(NULL, 65536, PROT_READ, number(2) ? MAP_SHARED : MAP_PRIVATE, descriptor(1), 0);
  if (bytes == MAP_FAILED) {
    say_result(-1);
    return;
  }
  say_bytes(bytes, status.st_size < 65536 ? status.st_size : 65536);
  munmap(bytes, 65536);
}

// As cp does: what the kernel cannot copy between two file systems is read and written.
static void do_copy_range(void) {
  const int from = descriptor(1);
  const int to = descriptor(2);
  long size = copy_file_range(from, NULL, to, NULL, number(3), 0);
  if (size < 0 && (errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP)) {
    static char bytes[1 << 20];
    size = read(from, bytes, number(3));
    if (size > 0) size = write(to, bytes, size);
  }
  say_result(size);
}

static void do_sendfile(void) {
  say_result(CALL(sendfile)(descriptor(2), descriptor(1), NULL, number(3)));
}

static void do_fopen(void) {
  static char bytes[1 << 16];
  const char* mode = word(2);
  FILE* file = CALL(fopen)(path(1), mode);
  if (file == NULL) {
    say_result(-1);
    return;
  }
  if (mode[0] == 'r' || strchr(mode, '+') != NULL) {
    const long size = fread(bytes, 1, number(3), file);
    say_bytes(bytes, size);
    say(ferror(file) ? " error" : feof(file) ? " end" : "");
  }
  if (mode[0] != 'r' || strchr(mode, '+') != NULL) {
    say(" seek %d", fseek(file, 0, SEEK_CUR));
    say(" put %ld", (long)fwrite(pattern(number(3), number(4)), 1, number(3), file));
  }
  say(" tell %ld", ftell(file));
  say(" close %d", fclose(file));
}

// ---- names --------------------------------------------------------------------------------------

static void do_mkdir(void) { say_result(mkdir(path(1), number(2))); }
static void do_mkdirat(void) { say_result(mkdirat(descriptor(1), path(2), number(3))); }
static void do_rmdir(void) { say_result(rmdir(path(1))); }
static void do_unlink(void) { say_result(unlink(path(1))); }
static void do_unlinkat(void) { say_result(unlinkat(descriptor(1), path(2), number(3))); }
static void do_remove(void) { say_result(remove(path(1))); }
static void do_renameat(void) {
  say_result(renameat(descriptor(1), path(2), descriptor(3), path(4)));
}
static void do_link(void) { say_result(link(path(1), path(2))); }
static void do_linkat(void) {
  say_result(linkat(descriptor(1), path(2), descriptor(3), path(4), number(5)));
}
static void do_symlink(void) { say_result(symlink(path(1), path(2))); }
static void do_symlinkat(void) { say_result(symlinkat(path(1), descriptor(2), path(3))); }

static void do_rename(void) {
  if (is_mutant("rename") && access(path(2), F_OK) == 0) {
    say("0");
    return;
  }
  say_result(rename(path(1), path(2)));
}

static void do_renameat2(void) {
  say_result(renameat2(descriptor(1), path(2), descriptor(3), path(4), number(5)));
}

// A name for a file of O_TMPFILE.
static void do_link_open(void) {
  char name[64];
  snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor(1));
  say_result(linkat(AT_FDCWD, name, descriptor(2), path(3), AT_SYMLINK_FOLLOW));
}

// A file that has a name only when it is complete.
static void do_tmpfile(void) {
  char name[64];
  const int fd = open(path(1), O_TMPFILE | O_RDWR, 0640);
  say_result(fd < 0 ? -1 : 0);
  if (fd < 0) return;
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  say(" %ld ", (long)write(fd, pattern(3000, number(3)), 3000));
  say_result(linkat(AT_FDCWD, name, AT_FDCWD, path(2), AT_SYMLINK_FOLLOW));
  close(fd);
}

static void do_readlink(void) {
  char target[PATH_MAX];
  const long size = readlinkat(descriptor(1), path(2), target, sizeof target - 1);
  if (size < 0) {
    say_result(size);
    return;
  }
  target[size] = '\0';
  say_path(target);
}

static void do_mkdtemp(void) {
  char name[PATH_MAX];
  snprintf(name, sizeof name, "%s%stmpXXXXXX", path(1),
           *path(1) == '\0' ? "" : "/");  // never in "/"
  if (mkdtemp(name) == NULL) {
    say_result(-1);
    return;
  }
  const int renamed = rename(name, path(2));
  say_result(renamed);
  if (renamed < 0) {
    say(" ");
    say_result(rmdir(name));
  }
}

static void do_chdir(void) { say_result(chdir(path(1))); }
static void do_fchdir(void) { say_result(fchdir(descriptor(1))); }

static void do_getcwd(void) {
  char name[PATH_MAX];
  if (getcwd(name, sizeof name) == NULL) {
    say_result(-1);
  } else {
    say_path(name);
  }
}

static void do_realpath(void) {
  char name[PATH_MAX];
  if (realpath(path(1), name) == NULL) {
    say_result(-1);
  } else {
    say_path(name);
  }
}

// ---- lists --------------------------------------------------------------------------------------

char entry_letter(int type) {
  return type == DT_REG    ? 'f'
         : type == DT_DIR  ? 'd'
         : type == DT_LNK  ? 'l'
         : type == DT_FIFO ? 'p'
                           : '?';
}

static void add_entries(DIR* directory) {
  int left_out = is_mutant("list");
  for (struct dirent* entry; (entry = CALL(readdir)(directory)) != NULL;) {
    if (left_out && entry->d_name[0] != '.') {
      left_out = 0;
      continue;
    }
    add_name("%s:%c", entry->d_name, entry_letter(entry->d_type));
  }
}

void say_directory(DIR* directory) {
  if (directory == NULL) {
    say_result(-1);
    return;
  }
  say("names");
  add_entries(directory);
  say_names();
  say(" close %d", closedir(directory));
}

static void do_opendir(void) { say_directory(opendir(path(1))); }

static void do_fdopendir(void) {
  const int fd = openat(descriptor(1), path(2), O_RDONLY | O_DIRECTORY);
  if (fd < 0) {
    say_result(-1);
  } else {
    say_directory(fdopendir(fd));
  }
}

// Reads all names, goes back to a place in the middle and reads the rest: it is the same rest. And
// again from the start.
static void do_seekdir(void) {
  DIR* directory = opendir(path(1));
  if (directory == NULL) {
    say_result(-1);
    return;
  }
  long place = telldir(directory);
  int before = 0;
  for (; before < number(2) && readdir(directory) != NULL; before++) place = telldir(directory);
  char rest[2][8192] = {"", ""};
  for (int turn = 0; turn < 2; turn++) {
    seekdir(directory, place);
    for (struct dirent* entry; (entry = readdir(directory)) != NULL;) {
      if (strlen(rest[turn]) + strlen(entry->d_name) + 2 > sizeof rest[0]) break;
      strcat(strcat(rest[turn], "/"), entry->d_name);
    }
  }
  say("%s", strcmp(rest[0], rest[1]) == 0 ? "same" : "DIFFERENT");
  rewinddir(directory);
  say_directory(directory);
}

static int all_entries(const struct dirent* entry) { return entry != NULL; }

static void do_scandir(void) {
  struct dirent** found;
  const int count = CALL(scandir)(path(1), &found, all_entries, alphasort);
  if (count < 0) {
    say_result(-1);
    return;
  }
  for (int i = 0; i < count; i++) {
    add_name("%s:%c", found[i]->d_name, entry_letter(found[i]->d_type));
    free(found[i]);
  }
  free(found);
  say("names");
  say_names();
}

static int visit(const char* name, const struct stat* status, int kind, struct FTW* place) {
  add_name("%s:%d:%d:%c", name, kind, place->level,
           kind == FTW_NS ? '-' : type_letter(status->st_mode));
  return 0;
}

static void do_nftw(void) {
  const int result = CALL(nftw)(path(1), visit, 10, number(2));
  say_result(result);
  say_names();
}

static void do_fts(void) {
  char* const tops[] = {path(1), NULL};
  FTS* walk = CALL(fts_open)(tops, number(2) | FTS_NOCHDIR, NULL);
  if (walk == NULL) {
    say_result(-1);
    return;
  }
  for (FTSENT* entry; (entry = CALL(fts_read)(walk)) != NULL;) {
    add_name("%s:%d:%d", entry->fts_path, entry->fts_info, entry->fts_level);
  }
  say("%d", CALL(fts_close)(walk));
  say_names();
}

static void do_glob(void) {
  glob_t found;
  const int result = CALL(glob)(path(1), number(2), NULL, &found);
  say("%d", result);
  if (result != 0) return;
  for (size_t i = 0; i < found.gl_pathc; i++) add_name("%s", found.gl_pathv[i]);
  globfree(&found);
  say_names();
}

static void add_tree(const char* name) {
  struct stat status;
  char target[PATH_MAX] = "";
  static char bytes[1 << 16];
  if (lstat(name, &status) < 0) {
    add_name("%s:%s", name, strerrorname_np(errno));
    return;
  }
  const size_t before = answer_size;
  say_attributes(status.st_mode, status.st_size, status.st_nlink, status.st_mtime);
  if (S_ISLNK(status.st_mode)) {
    if (readlink(name, target, sizeof target - 1) < 0) say("%s", strerrorname_np(errno));
    say(" ");
    say_path(target);
  } else if (S_ISREG(status.st_mode)) {
    const int fd = open(name, O_RDONLY | O_NOFOLLOW);
    const long size = read(fd, bytes, sizeof bytes);
    say(" ");
    size < 0 ? say_result(size) : say_bytes(bytes, size);
    close(fd);
  }
  add_name("%s:%s\t", name, answer + before);
  answer_size = before;
  if (!S_ISDIR(status.st_mode)) return;
  DIR* directory = opendir(name);
  if (directory == NULL) {
    add_name("%s/:%s", name, strerrorname_np(errno));
    return;
  }
  for (struct dirent* entry; (entry = readdir(directory)) != NULL;) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    char below[PATH_MAX];
    snprintf(below, sizeof below, "%s/%s", name, entry->d_name);
    add_tree(below);
  }
  closedir(directory);
}

// Everything that is below a directory, with attributes and bytes.
static void do_tree(void) {
  add_tree(path(1));
  say_names();
}

// ---- the loop -----------------------------------------------------------------------------------

static void do_pid(void) { say("%d", getpid()); }

static void do_slots(void) {
  for (int i = 0; i < kSlots; i++) say("%d ", slots[i]);
}

static void do_reset(void) {
  for (int i = 0; i < kSlots; i++) {
    if (slots[i] >= 0) close(slots[i]);
    slots[i] = -1;
  }
  say_result(chdir(root));
}

static const struct operation operations[] = {
    OPERATION(access),    OPERATION(chdir),      OPERATION(chmod),     OPERATION(chown),
    OPERATION(close),     OPERATION(copy_range), OPERATION(creat),     OPERATION(dup),
    OPERATION(dup2),      OPERATION(dupfd),      OPERATION(faccessat), OPERATION(fchdir),
    OPERATION(fchmod),    OPERATION(fchmodat),   OPERATION(fchown),    OPERATION(fdatasync),
    OPERATION(fdopendir), OPERATION(fgetxattr),  OPERATION(flock),     OPERATION(fopen),
    OPERATION(fsetxattr), OPERATION(fstat),      OPERATION(fstatat),   OPERATION(fsync),
    OPERATION(ftruncate), OPERATION(fts),        OPERATION(futimens),  OPERATION(getcwd),
    OPERATION(getfl),     OPERATION(getxattr),   OPERATION(glob),      OPERATION(lchown),
    OPERATION(link),      OPERATION(linkat),     OPERATION(link_open), OPERATION(listxattr),
    OPERATION(lock),      OPERATION(lseek),      OPERATION(lstat),     OPERATION(map_read),
    OPERATION(map_write), OPERATION(mkdir),      OPERATION(mkdirat),   OPERATION(mkdtemp),
    OPERATION(nftw),      OPERATION(open),       OPERATION(openat),    OPERATION(opendir),
    OPERATION(pid),       OPERATION(pread),      OPERATION(pwrite),    OPERATION(read),
    OPERATION(readlink),  OPERATION(realpath),   OPERATION(remove),    OPERATION(removexattr),
    OPERATION(rename),    OPERATION(renameat),   OPERATION(renameat2), OPERATION(reset),
    OPERATION(rmdir),     OPERATION(scandir),    OPERATION(seekdir),   OPERATION(sendfile),
    OPERATION(setfl),     OPERATION(setxattr),   OPERATION(slots),     OPERATION(stat),
    OPERATION(statx),     OPERATION(symlink),    OPERATION(symlinkat), OPERATION(tmpfile),
    OPERATION(tree),      OPERATION(truncate),   OPERATION(unlink),    OPERATION(unlinkat),
    OPERATION(utime),     OPERATION(utimensat),  OPERATION(write),     {NULL, NULL},
};

// Without underscores before a name, and without 64 in it.
static const char* plain_name(const char* name, char* out) {
  char* end = out;
  for (const char* at = name; *at != '\0'; at++) {
    if (*at == '_' && (end == out || end[-1] == ':')) continue;
    if (strncmp(at, "64", 2) == 0) {
      at++;
    } else {
      *end++ = *at;
    }
  }
  *end = '\0';
  return out;
}

static int is_alike(const char* left, const char* right) {
  char ours[128], theirs[128];
  return strcmp(plain_name(left, ours), plain_name(right, theirs)) == 0;
}

void* called(const char* name, void* function) {
  if (other_name == NULL || !is_alike(name, other_name)) return function;
  void* other = dlsym(RTLD_DEFAULT, other_name);
  return other == NULL ? function : other;
}

static const struct operation* find(const char* name) {
  static const struct operation* const tables[] = {operations, descriptor_operations,
                                                   name_operations, process_operations};
  for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
    for (const struct operation* one = tables[i]; one->name != NULL; one++) {
      if (is_alike(one->name, name)) return one;
    }
  }
  return NULL;
}

static void* perform(void* unused) {
  char* colon = strchr(words[0], ':');
  other_name = colon == NULL ? NULL : colon + 1;
  const struct operation* found = find(words[0]);
  if (found == NULL && colon != NULL) {
    *colon = '\0';
    found = find(words[0]);
  }
  if (found == NULL) {
    fprintf(stderr, "driver: there is no operation '%s'\n", words[0]);
    exit(3);
  }
  found->call();
  return unused;
}

static void reply(void) {
  say("\n");
  for (size_t done = 0; done < answer_size;) {
    const long size = write(1, answer + done, answer_size - done);
    if (size <= 0) _exit(4);
    done += size;
  }
}

static void perform_line(char* line) {
  word_count = 0;
  answer_size = 0;
  for (char* part = strtok(line, " \n"); part != NULL && word_count < kWords;
       part = strtok(NULL, " \n")) {
    words[word_count++] = part;
  }
  if (word_count == 0) return;
  const int in_child = strcmp(words[0], "fork") == 0;
  const int in_thread = strcmp(words[0], "thread") == 0;
  if (in_child || in_thread) memmove(words, words + 1, --word_count * sizeof words[0]);
  if (in_child) {
    const pid_t child = fork();
    if (child == 0) {
      perform(NULL);
      reply();
      _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    if (status != 0) {
      say("the child ended with status %d", status);
      reply();
    }
    return;
  }
  if (in_thread) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, perform, NULL) == 0) pthread_join(thread, NULL);
  } else {
    perform(NULL);
  }
  reply();
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: driver ROOT OUTSIDE < operations\n");
    return 2;
  }
  root = argv[1];
  outside = argv[2];
  mutant = getenv("MODEL_MUTANT");
  for (int i = 0; i < kSlots; i++) slots[i] = -1;
  umask(022);
  signal(SIGXFSZ, SIG_IGN);  // a limit gives EFBIG
  static char line[4 * PATH_MAX];
  size_t size = 0;
  for (;;) {  // the test waits for each answer, so there is never more than one line
    const long more = read(0, line + size, sizeof line - 1 - size);
    if (more <= 0) return 0;
    size += more;
    if (line[size - 1] != '\n') continue;
    line[size] = '\0';
    perform_line(line);
    size = 0;
  }
}
