// Operations of the driver on names that few programs use, and other calls that do the same as an
// operation of driver.c.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fts.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>
#include <wordexp.h>

#include "tests/store/model/driver.h"

// Declared for programs with checks, or with other headers, only.
int __open_2(const char* path, int flags);
int __openat_2(int directory, const char* path, int flags);
ssize_t __readlink_chk(const char* path, char* target, size_t size, size_t room);
ssize_t __readlinkat_chk(int directory, const char* path, char* target, size_t size, size_t room);
char* __realpath_chk(const char* path, char* out, size_t room);
char* __getcwd_chk(char* out, size_t size, size_t room);
int __xstat(int version, const char* path, struct stat* status);
int __lxstat(int version, const char* path, struct stat* status);
int __fxstatat(int version, int directory, const char* path, struct stat* status, int flags);
int __xmknod(int version, const char* path, mode_t mode, dev_t* device);
int __xmknodat(int version, int directory, const char* path, mode_t mode, dev_t* device);

// ---- opening and creating -----------------------------------------------------------------------

static void do_open___open_2(void) { keep(number(1), CALL(__open_2)(path(2), number(3))); }
static void do_openat___openat_2(void) {
  keep(number(1), CALL(__openat_2)(descriptor(2), path(3), number(4)));
}

// make(name) replaces the X. The random name is not compared: it becomes the second path, or is
// removed if that fails.
static void make_temporary(const char* suffix, int (*make)(char* name)) {
  char name[PATH_MAX];
  snprintf(name, sizeof name, "%s%stmpXXXXXX%s", path(1), *path(1) == '\0' ? "" : "/",
           suffix);  // never in "/"
  const int fd = make(name);
  say_result(fd < 0 ? -1 : 0);
  if (fd < 0) return;
  say(" ");
  say_result(write(fd, pattern(100, number(3)), 100));
  struct stat status;
  say(" ");
  say_stat(lstat(name, &status), &status);
  say(" ");
  close(fd);
  const int renamed = rename(name, path(2));
  say_result(renamed);
  if (renamed < 0) {
    say(" ");
    say_result(unlink(name));
  }
}

static int by_mkstemp(char* name) { return CALL(mkstemp)(name); }
static int by_mkostemp(char* name) { return CALL(mkostemp)(name, O_CLOEXEC); }
static int by_mkstemps(char* name) { return CALL(mkstemps)(name, 2); }
static int by_mkostemps(char* name) { return CALL(mkostemps)(name, 2, O_APPEND); }
static void do_mkstemp(void) { make_temporary("", by_mkstemp); }
static void do_mkstemp_mkostemp(void) { make_temporary("", by_mkostemp); }
static void do_mkstemp_mkstemps(void) { make_temporary(".s", by_mkstemps); }
static void do_mkstemp_mkostemps(void) { make_temporary(".s", by_mkostemps); }

// A pipe cannot be opened without a second process, so it is removed again.
static void say_pipe(int made) {
  struct stat status;
  say_result(made);
  if (made < 0) return;
  say(" ");
  say_stat(lstat(path(1), &status), &status);
  say(" ");
  say_result(unlink(path(1)));
}

static dev_t no_device;
static void do_mkfifo(void) { say_pipe(mkfifo(path(1), 0640)); }
static void do_mkfifo_mkfifoat(void) { say_pipe(mkfifoat(AT_FDCWD, path(1), 0640)); }
static void do_mkfifo_mknod(void) { say_pipe(mknod(path(1), S_IFIFO | 0600, 0)); }
static void do_mkfifo_mknodat(void) { say_pipe(mknodat(AT_FDCWD, path(1), S_IFIFO | 0600, 0)); }
static void do_mkfifo___xmknod(void) { say_pipe(__xmknod(0, path(1), S_IFIFO | 0600, &no_device)); }
static void do_mkfifo___xmknodat(void) {
  say_pipe(__xmknodat(0, AT_FDCWD, path(1), S_IFIFO | 0600, &no_device));
}
static void do_mknodat(void) {  // a file
  say_result(mknodat(descriptor(1), path(2), S_IFREG | number(3), 0));
}

// ---- sockets ------------------------------------------------------------------------------------

static struct sockaddr_un* address_of(const char* name) {
  static struct sockaddr_un made;
  memset(&made, 0, sizeof made);
  made.sun_family = AF_UNIX;
  strncpy(made.sun_path, name, sizeof made.sun_path - 1);
  return &made;
}

// A byte is sent to a socket with a name, which is removed then.
static void do_bind(void) {
  struct stat status;
  char byte = '-';
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  const int other = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  const struct sockaddr* address = (struct sockaddr*)address_of(path(1));
  const int made = bind(fd, address, sizeof(struct sockaddr_un));
  say_result(made);
  if (made == 0) {
    say(" ");
    say_stat(lstat(path(1), &status), &status);
    say(" ");
    say_result(sendto(other, "s", 1, 0, address, sizeof(struct sockaddr_un)));
    say(" ");
    say_result(connect(other, address, sizeof(struct sockaddr_un)));
    say(" ");
    say_result(recv(fd, &byte, 1, 0));
    say("%c ", byte);
    say_result(unlink(path(1)));
  }
  close(fd);
  close(other);
}

static void do_connect(void) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
  say_result(connect(fd, (struct sockaddr*)address_of(path(1)), sizeof(struct sockaddr_un)));
  close(fd);
}
static void do_connect_sendto(void) {
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  say_result(
      sendto(fd, "s", 1, 0, (struct sockaddr*)address_of(path(1)), sizeof(struct sockaddr_un)));
  close(fd);
}

// ---- attributes ---------------------------------------------------------------------------------

static void do_stat___xstat(void) {
  struct stat status;
  say_stat(CALL(__xstat)(kStatVersion, path(1), &status), &status);
}
static void do_lstat___lxstat(void) {
  struct stat status;
  say_stat(CALL(__lxstat)(kStatVersion, path(1), &status), &status);
}
static void do_fstatat___fxstatat(void) {
  struct stat status;
  say_stat(CALL(__fxstatat)(kStatVersion, descriptor(1), path(2), &status, number(3)), &status);
}

static void do_access_eaccess(void) { say_result(eaccess(path(1), number(2))); }
static void do_access_euidaccess(void) { say_result(euidaccess(path(1), number(2))); }
static void do_chown_fchownat(void) {
  say_result(fchownat(AT_FDCWD, path(1), geteuid(), getegid(), 0));
}
static void do_lchown_fchownat(void) {
  say_result(fchownat(AT_FDCWD, path(1), geteuid(), getegid(), AT_SYMLINK_NOFOLLOW));
}
static void do_lchmod(void) { say_result(lchmod(path(1), number(2))); }

static const struct timeval* both_times(long seconds) {
  static struct timeval times[2];
  times[0].tv_sec = times[1].tv_sec = seconds;
  return times;
}
static void do_utime_utimes(void) { say_result(utimes(path(1), both_times(number(2)))); }
static void do_lutimes(void) { say_result(lutimes(path(1), both_times(number(2)))); }
static void do_futimesat(void) {
  say_result(futimesat(descriptor(1), path(2), both_times(number(3))));
}

static void do_lsetxattr(void) {
  say_result(lsetxattr(path(1), word(2), word(3), strlen(word(3)), number(4)));
}
static void do_lremovexattr(void) { say_result(lremovexattr(path(1), word(2))); }
static void do_lgetxattr(void) {
  char value[256];
  say_read(value, lgetxattr(path(1), word(2), value, sizeof value));
}
static void do_llistxattr(void) {
  char value[1024];
  const long size = llistxattr(path(1), value, sizeof value);
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

static void do_pathconf(void) { say_result(pathconf(path(1), number(2))); }

static void do_statfs(void) {
  struct statfs status;
  const int result = CALL(statfs)(path(1), &status);
  say_result(result);
  if (result == 0) say(" %ld", (long)status.f_namelen);
}
static void do_statfs_statvfs(void) {
  struct statvfs status;
  const int result = CALL(statvfs)(path(1), &status);
  say_result(result);
  if (result == 0) say(" %lu", status.f_namemax);
}

// The key follows from what stat shows.
static void do_ftok(void) {
  struct stat status;
  const key_t key = ftok(path(1), 'm');
  say_result(key == -1 ? -1 : 0);
  if (key != -1 && stat(path(1), &status) == 0)
    say(" %d", (key & 0xffff) == (status.st_ino & 0xffff));
}

static void do_handle(void) {
  static struct {
    struct file_handle handle;
    char room[MAX_HANDLE_SZ];
  } made;
  int mount;
  made.handle.handle_bytes = MAX_HANDLE_SZ;
  const int result = name_to_handle_at(descriptor(1), path(2), &made.handle, &mount, number(3));
  // EOPNOTSUPP: the path was found, on a file system without handles. A store's tree may be on another one.
  say_result(result != 0 && errno == EOPNOTSUPP ? 0 : result);
}

// ---- names of names -----------------------------------------------------------------------------

static void say_target(char* target, long size) {
  if (size < 0) {
    say_result(size);
    return;
  }
  target[size] = '\0';
  say_path(target);
}

static void do_readlink_readlink(void) {
  char target[PATH_MAX];
  const long size = descriptor(1) == AT_FDCWD
                        ? readlink(path(2), target, sizeof target - 1)
                        : readlinkat(descriptor(1), path(2), target, sizeof target - 1);
  say_target(target, size);
}
static void do_readlink___readlinkat_chk(void) {
  char target[PATH_MAX];
  const long size =
      descriptor(1) == AT_FDCWD
          ? __readlink_chk(path(2), target, sizeof target - 1, sizeof target)
          : __readlinkat_chk(descriptor(1), path(2), target, sizeof target - 1, sizeof target);
  say_target(target, size);
}

static void say_name(char* name, char* allocated) {
  if (name == NULL) {
    say_result(-1);
  } else {
    say_path(name);
  }
  free(allocated);
}

static void do_realpath_canonicalize_file_name(void) {
  char* name = canonicalize_file_name(path(1));
  say_name(name, name);
}
static void do_realpath___realpath_chk(void) {
  char name[PATH_MAX];
  say_name(__realpath_chk(path(1), name, sizeof name), NULL);
}
static void do_getcwd_get_current_dir_name(void) {
  unsetenv("PWD");  // it would be believed
  char* name = get_current_dir_name();
  say_name(name, name);
}
// The linker warns of it.
static void do_getcwd_getwd(void) {
  char name[PATH_MAX];
  char* (*getwd)(char*) = (char* (*)(char*))dlsym(RTLD_DEFAULT, "getwd");
  say_name(getwd(name), NULL);
}
static void do_getcwd___getcwd_chk(void) {
  char name[PATH_MAX];
  say_name(__getcwd_chk(name, sizeof name, sizeof name), NULL);
}

// ---- lists --------------------------------------------------------------------------------------

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void do_opendir_readdir_r(void) {
  DIR* directory = opendir(path(1));
  if (directory == NULL) {
    say_result(-1);
    return;
  }
  struct dirent entry;
  struct dirent* found = &entry;
  while (CALL(readdir_r)(directory, &entry, &found) == 0 && found != NULL) {
    add_name("%s:%c", entry.d_name, entry_letter(entry.d_type));
  }
  say("names");
  say_names();
  say(" close %d", closedir(directory));
}

static void do_fdopendir_getdents64(void) {
  static char bytes[1024] __attribute__((aligned(8)));
  const int fd = openat(descriptor(1), path(2), O_RDONLY | O_DIRECTORY);
  if (fd < 0) {
    say_result(-1);
    return;
  }
  long size;
  while ((size = getdents64(fd, bytes, sizeof bytes)) > 0) {
    for (long at = 0; at < size;) {
      const struct dirent64* entry = (const struct dirent64*)(bytes + at);
      add_name("%s:%c", entry->d_name, entry_letter(entry->d_type));
      at += entry->d_reclen;
    }
  }
  say("names");
  say_names();
  say(" ");
  say_result(size);
  say(" close %d", close(fd));
}

static void do_scandirat(void) {
  struct dirent** found;
  const int count = CALL(scandirat)(descriptor(1), path(2), &found, NULL, alphasort);
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

// A directory is visited once, by any of its links. So what it is called there is not compared.
static int directory_count;
static int visit(const char* name, const struct stat* status, int kind) {
  const char* last = strrchr(name, '/');
  if (status != NULL && kind == FTW_D) {
    directory_count++;
  } else {
    add_name("%s:%d", last == NULL ? name : last + 1, kind);
  }
  return 0;
}

static void do_ftw(void) {
  directory_count = 0;
  const int result = CALL(ftw)(path(1), visit, 10);
  if (result != 0) forget_names();  // of what came before the failure, in any order
  say_result(result);
  if (result == 0) say(" directories %d", directory_count);
  say_names();
}

// The names at the top, and then those below the first of its directories, whose children are left
// out. Sorted, so that both file systems have the same first one.
static int order(const FTSENT** left, const FTSENT** right) {
  return strcmp((*left)->fts_name, (*right)->fts_name);
}
static void do_fts_fts_children(void) {
  char* const tops[] = {path(1), NULL};
  FTS* walk = CALL(fts_open)(tops, FTS_PHYSICAL | FTS_NOCHDIR, order);
  if (walk == NULL || fts_read(walk) == NULL) {
    say_result(-1);
    return;
  }
  int skipped = 0;
  for (FTSENT* entry = CALL(fts_children)(walk, 0); entry != NULL; entry = entry->fts_link) {
    add_name("%s:%d", entry->fts_name, entry->fts_info);
  }
  for (FTSENT* entry; (entry = CALL(fts_read)(walk)) != NULL;) {
    add_name("%s:%d", entry->fts_path, entry->fts_info);
    if (!skipped && entry->fts_info == FTS_D) {
      skipped = CALL(fts_set)(walk, entry, FTS_SKIP) == 0;
    }
  }
  say("%d", CALL(fts_close)(walk));
  say_names();
}

static void do_fts_fts_set(void) { do_fts_fts_children(); }

static void do_wordexp(void) {
  wordexp_t found;
  const int result = wordexp(path(1), &found, WRDE_NOCMD);
  say("%d", result);
  if (result != 0) return;
  for (size_t i = 0; i < found.we_wordc; i++) add_name("%s", found.we_wordv[i]);
  wordfree(&found);
  say_names();
}

// ---- watches and libraries ----------------------------------------------------------------------

// What a directory that is watched tells of a name that is made and removed.
static void do_watch(void) {
  char below[PATH_MAX];
  char bytes[8192] __attribute__((aligned(8)));
  const int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  const char* watched = path(1);
  const int watch = fd < 0 ? -1 : inotify_add_watch(fd, watched, IN_CREATE | IN_DELETE);
  say_result(watch < 0 ? -1 : 0);
  snprintf(below, sizeof below, "%s%swatched", watched, *watched == '\0' ? "" : "/");
  if (watch >= 0 && mkdir(below, 0700) == 0) {
    rmdir(below);
    const long size = read(fd, bytes, sizeof bytes);
    for (long at = 0; at < size;) {
      const struct inotify_event* event = (const struct inotify_event*)(bytes + at);
      if (strcmp(event->name, "watched") == 0) say(" %x", event->mask);
      at += sizeof *event + event->len;
    }
  }
  if (fd >= 0) close(fd);
}

static void do_watch_fanotify_mark(void) {
  const int fd = fanotify_init(FAN_CLASS_NOTIF | FAN_NONBLOCK | FAN_CLOEXEC, O_RDONLY);
  say_result(fd < 0 ? -1 : 0);
  if (fd < 0) return;
  say(" ");
  say_result(fanotify_mark(fd, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, path(1)));
  close(fd);
}

// There are no libraries. The reason is the last part of the text; a missing file has several.
static void do_dlopen(void) {
  void* library = dlopen(path(1), RTLD_NOW | RTLD_LOCAL);
  const char* text = library == NULL ? dlerror() : "";
  const char* last = strrchr(text, ':');
  say("%d%s", library != NULL, access(path(1), F_OK) != 0 || last == NULL ? "" : last);
}

const struct operation name_operations[] = {
    OPERATION(bind),
    OPERATION(connect),
    OPERATION(dlopen),
    OPERATION(ftok),
    OPERATION(ftw),
    OPERATION(futimesat),
    OPERATION(handle),
    OPERATION(lchmod),
    OPERATION(lgetxattr),
    OPERATION(llistxattr),
    OPERATION(lremovexattr),
    OPERATION(lsetxattr),
    OPERATION(lutimes),
    OPERATION(mkfifo),
    OPERATION(mknodat),
    OPERATION(mkstemp),
    OPERATION(pathconf),
    OPERATION(scandirat),
    OPERATION(statfs),
    OPERATION(watch),
    OPERATION(wordexp),
    VARIANT(access, eaccess),
    VARIANT(access, euidaccess),
    VARIANT(chown, fchownat),
    VARIANT(connect, sendto),
    VARIANT(fdopendir, getdents64),
    VARIANT(fstatat, __fxstatat),
    VARIANT(fts, fts_children),
    VARIANT(fts, fts_set),
    VARIANT(getcwd, __getcwd_chk),
    VARIANT(getcwd, get_current_dir_name),
    VARIANT(getcwd, getwd),
    VARIANT(lchown, fchownat),
    VARIANT(lstat, __lxstat),
    VARIANT(mkfifo, __xmknod),
    VARIANT(mkfifo, __xmknodat),
    VARIANT(mkfifo, mkfifoat),
    VARIANT(mkfifo, mknod),
    VARIANT(mkfifo, mknodat),
    VARIANT(mkstemp, mkostemp),
    VARIANT(mkstemp, mkostemps),
    VARIANT(mkstemp, mkstemps),
    VARIANT(open, __open_2),
    VARIANT(openat, __openat_2),
    VARIANT(opendir, readdir_r),
    VARIANT(readlink, __readlinkat_chk),
    VARIANT(readlink, readlink),
    VARIANT(realpath, __realpath_chk),
    VARIANT(realpath, canonicalize_file_name),
    VARIANT(stat, __xstat),
    VARIANT(statfs, statvfs),
    VARIANT(utime, utimes),
    VARIANT(watch, fanotify_mark),
    {NULL, NULL},
};
