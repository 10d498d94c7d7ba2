// Operations of the driver on descriptors and their bytes that few programs use, and other calls
// that do the same as an operation of driver.c.

#define _GNU_SOURCE
#include <aio.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "tests/store/model/driver.h"

// Declared for programs with checks only.
ssize_t __read_chk(int fd, void* bytes, size_t size, size_t room);
ssize_t __pread_chk(int fd, void* bytes, size_t size, off_t offset, size_t room);
int __poll_chk(struct pollfd* polled, nfds_t count, int timeout, size_t room);
int __fxstat(int version, int fd, struct stat* status);
int futimes(int fd, const struct timeval times[2]);

static char bytes[1 << 20];

// Two pieces, so that a call has to fill both.
static struct iovec* pieces(long size) {
  static struct iovec made[2];
  made[0] = (struct iovec){bytes, size / 3};
  made[1] = (struct iovec){bytes + size / 3, size - size / 3};
  return made;
}

// ---- reading and writing ------------------------------------------------------------------------

static void do_read_readv(void) { say_read(bytes, readv(descriptor(1), pieces(number(2)), 2)); }
static void do_read_preadv2(void) {
  say_read(bytes, CALL(preadv2)(descriptor(1), pieces(number(2)), 2, -1, 0));
}
static void do_read___read_chk(void) {
  say_read(bytes, __read_chk(descriptor(1), bytes, number(2), sizeof bytes));
}
static void do_pread_preadv(void) {
  say_read(bytes, CALL(preadv)(descriptor(1), pieces(number(2)), 2, number(3)));
}
static void do_pread_preadv2(void) {
  say_read(bytes, preadv2(descriptor(1), pieces(number(2)), 2, number(3), 0));
}
static void do_pread_preadv64v2(void) {
  say_read(bytes, preadv64v2(descriptor(1), pieces(number(2)), 2, number(3), 0));
}
static void do_pread___pread_chk(void) {
  say_read(bytes, CALL(__pread_chk)(descriptor(1), bytes, number(2), number(3), sizeof bytes));
}

static struct aiocb* request(int fd, void* memory, long size, long offset) {
  static struct aiocb made;
  memset(&made, 0, sizeof made);
  made.aio_fildes = fd;
  made.aio_buf = memory;
  made.aio_nbytes = size;
  made.aio_offset = offset;
  return &made;
}

// The result, after a call that started the request.
static long result_of(int started, struct aiocb* made) {
  if (started < 0) return -1;
  const struct aiocb* const list[] = {made};
  while (aio_error(made) == EINPROGRESS) aio_suspend(list, 1, NULL);
  errno = aio_error(made);
  return errno == 0 ? aio_return(made) : -1;
}

// lio_listio waits, and tells by EIO that a request has failed.
static long listed(int operation, struct aiocb* made) {
  struct aiocb* const list[] = {made};
  made->aio_lio_opcode = operation;
  const int started = CALL(lio_listio)(LIO_WAIT, list, 1, NULL);
  return result_of(started < 0 && errno == EIO ? 0 : started, made);
}

static void do_pread_aio_read(void) {
  struct aiocb* made = request(descriptor(1), bytes, number(2), number(3));
  say_read(bytes, result_of(CALL(aio_read)(made), made));
}
static void do_pread_lio_listio(void) {
  say_read(bytes, listed(LIO_READ, request(descriptor(1), bytes, number(2), number(3))));
}
static void do_pwrite_aio_write(void) {
  struct aiocb* made = request(descriptor(1), pattern(number(2), number(4)), number(2), number(3));
  say_result(result_of(CALL(aio_write)(made), made));
}
static void do_pwrite_lio_listio(void) {
  say_result(listed(LIO_WRITE,
                    request(descriptor(1), pattern(number(2), number(4)), number(2), number(3))));
}
static void do_fsync_aio_fsync(void) {
  struct aiocb* made = request(descriptor(1), NULL, 0, 0);
  say_result(result_of(CALL(aio_fsync)(O_SYNC, made), made));
}
static void do_fsync_syncfs(void) { say_result(syncfs(descriptor(1))); }

static void do_sync_file_range(void) {
  say_result(sync_file_range(descriptor(1), number(2), number(3), SYNC_FILE_RANGE_WRITE));
}

// What programs say of reads to come, and the bytes do not change.
static void do_advise(void) {
  say_result(CALL(posix_fadvise)(descriptor(1), number(2), number(3), number(4)));
}
static void do_advise_readahead(void) {
  say_result(readahead(descriptor(1), number(2), number(3)));
}

static void do_allocate(void) {
  say_result(CALL(fallocate)(descriptor(1), number(2), number(3), number(4)));
}

// It returns an error, and knows no modes.
static void do_allocate_posix_fallocate(void) {
  errno = CALL(posix_fallocate)(descriptor(1), number(3), number(4));
  say_result(errno == 0 ? 0 : -1);
}

static void do_lockf(void) { say_result(CALL(lockf)(descriptor(1), (int)number(2), number(3))); }

// Through a pipe: the bytes that arrived, and how many of them the other file took.
static void do_splice(void) {
  int ends[2];
  if (pipe(ends) < 0) {
    say_result(-1);
    return;
  }
  const long size = splice(descriptor(1), NULL, ends[1], NULL, number(3), SPLICE_F_NONBLOCK);
  say_result(size);
  const long put =
      size > 0 ? splice(ends[0], NULL, descriptor(2), NULL, size, SPLICE_F_NONBLOCK) : 0;
  say(" ");
  say_result(put);
  close(ends[1]);
  say(" ");
  const long left = read(ends[0], bytes, sizeof bytes);
  say_read(bytes, left);
  close(ends[0]);
}

// ---- streams ------------------------------------------------------------------------------------

// A stream for a copy of the descriptor.
static void do_fdopen(void) {
  const char* mode = word(2);
  const int fd = dup(descriptor(1));
  FILE* file = fdopen(fd, mode);
  if (file == NULL) {
    say_result(-1);
    if (fd >= 0) close(fd);
    return;
  }
  if (mode[0] == 'r') {
    const long size = fread(bytes, 1, number(3), file);
    say_bytes(bytes, size);
    say(ferror(file) ? " error" : feof(file) ? " end" : "");
  } else {
    say("put %ld", (long)fwrite(pattern(number(3), 3), 1, number(3), file));
  }
  const int closed = fclose(file);
  say(" close ");
  say_result(closed);
}

// A stream of another file becomes one of this.
static void do_fopen_freopen(void) {
  FILE* file = fopen("/dev/null", "r");
  const int before = fileno(file);
  file = CALL(freopen)(path(1), word(2), file);
  if (file == NULL) {
    say_result(-1);
    if (fcntl(before, F_GETFD) >= 0) say(" but it is open");
    return;
  }
  say("same number %d ", fileno(file) == before);
  if (word(2)[0] == 'r') {
    const long size = fread(bytes, 1, number(3), file);
    say_bytes(bytes, size);
  } else {
    say("put %ld", (long)fwrite(pattern(number(3), number(4)), 1, number(3), file));
  }
  say(" close %d", fclose(file));
}

// ---- numbers ------------------------------------------------------------------------------------

static void do_dup2_dup3(void) {
  const int to = slots[number(2)];
  const int made = to < 0 ? (errno = EBADF, -1) : dup3(descriptor(1), to, O_CLOEXEC);
  say_result(made < 0 ? -1 : 0);
}

static void do_close_close_range(void) {
  const int slot = number(1);
  say_result(slots[slot] < 0 ? (errno = EBADF, -1) : close_range(slots[slot], slots[slot], 0));
  slots[slot] = -1;
}

// All from the lowest number on.
static void do_closefrom(void) {
  int lowest = -1;
  for (int i = 0; i < kSlots; i++) {
    if (slots[i] >= 0 && (lowest < 0 || slots[i] < lowest)) lowest = slots[i];
  }
  if (lowest >= 0) closefrom(lowest);
  for (int i = 0; i < kSlots; i++) slots[i] = -1;
  say("0");
}

// Whether a program that is started would have it.
static void do_inherit(void) {
  const int fd = descriptor(1);
  const int how = number(2);
  say_result(how == 2 && fd >= 0 ? close_range(fd, fd, CLOSE_RANGE_CLOEXEC)
                                 : CALL(fcntl)(fd, F_SETFD, how == 0 ? 0 : FD_CLOEXEC));
  say(" ");
  say_result(CALL(fcntl)(fd, F_GETFD));
}

static void do_terminal(void) {
  struct winsize window;
  struct termios settings;
  int waiting = 0;
  say("%d ", isatty(descriptor(1)));
  say_result(ioctl(descriptor(1), TIOCGWINSZ, &window));
  say(" ");
  say_result(tcgetattr(descriptor(1), &settings));
  say(" ");
  const int asked = ioctl(descriptor(1), FIONREAD, &waiting);
  say_result(asked < 0 ? -1 : waiting);
}

static void say_events(int result, int events) {
  say_result(result);
  if (result > 0) say(" %x", events);
}

static void do_poll(void) {
  struct pollfd polled = {.fd = descriptor(1), .events = POLLIN | POLLOUT};
  const int result = poll(&polled, 1, 0);
  say_events(result, polled.revents);
}
static void do_poll_ppoll(void) {
  struct pollfd polled = {.fd = descriptor(1), .events = POLLIN | POLLOUT};
  const int result = ppoll(&polled, 1, &(struct timespec){0, 0}, NULL);
  say_events(result, polled.revents);
}
static void do_poll___poll_chk(void) {
  struct pollfd polled = {.fd = descriptor(1), .events = POLLIN | POLLOUT};
  const int result = __poll_chk(&polled, 1, 0, sizeof polled);
  say_events(result, polled.revents);
}

static void poll_by_select(int waits_with_mask) {
  fd_set in, out;
  const int fd = descriptor(1);
  FD_ZERO(&in);
  FD_ZERO(&out);
  if (fd >= 0) FD_SET(fd, &in);
  if (fd >= 0) FD_SET(fd, &out);
  struct timeval now = {0, 0};
  const int result = waits_with_mask
                         ? pselect(fd + 1, &in, &out, NULL, &(struct timespec){0, 0}, NULL)
                         : select(fd + 1, &in, &out, NULL, &now);
  say_events(result, fd >= 0 ? FD_ISSET(fd, &in) + 2 * FD_ISSET(fd, &out) : 0);
}
static void do_poll_select(void) { poll_by_select(0); }
static void do_poll_pselect(void) { poll_by_select(1); }

static void do_poll_epoll_ctl(void) {
  struct epoll_event event = {.events = EPOLLIN};
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  say_result(epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor(1), &event));
  close(epoll);
}

// A descriptor in a message to ourselves.
static void pass(int sends_several) {
  int ends[2];
  char byte = 'x';
  char control[CMSG_SPACE(sizeof(int))] = "";
  struct iovec piece = {&byte, 1};
  struct mmsghdr list = {.msg_hdr = {.msg_iov = &piece,
                                     .msg_iovlen = 1,
                                     .msg_control = control,
                                     .msg_controllen = sizeof control}};
  struct msghdr* message = &list.msg_hdr;
  struct cmsghdr* part = CMSG_FIRSTHDR(message);
  *part = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
  const int fd = descriptor(1);
  memcpy(CMSG_DATA(part), &fd, sizeof fd);
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0) {
    say_result(-1);
    return;
  }
  int made = -1;
  long done = sends_several ? sendmmsg(ends[0], &list, 1, 0) : sendmsg(ends[0], message, 0);
  if (done > 0) {
    memset(control, 0, sizeof control);
    done = sends_several ? recvmmsg(ends[1], &list, 1, 0, NULL) : recvmsg(ends[1], message, 0);
    memcpy(&made, CMSG_DATA(part), sizeof made);
  }
  close(ends[0]);
  close(ends[1]);
  if (done > 0) {
    keep(number(2), made);
  } else {
    say_result(-1);
  }
}
static void do_pass(void) { pass(0); }
static void do_pass_sendmmsg(void) { pass(1); }

// ---- other descriptors --------------------------------------------------------------------------

// The first of two ends. The other is closed.
static int first_end(int result, const int* ends) {
  if (result < 0) return -1;
  close(ends[1]);
  return ends[0];
}

static int accepted(int flags) {
  struct sockaddr address = {.sa_family = AF_UNIX};  // the kernel finds a name
  struct sockaddr_storage found;
  socklen_t size = sizeof found;
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  const int other = socket(AF_UNIX, SOCK_STREAM, 0);
  bind(listener, &address, sizeof address.sa_family);
  listen(listener, 1);
  getsockname(listener, (struct sockaddr*)&found, &size);
  connect(other, (struct sockaddr*)&found, size);
  const int made = flags == 0 ? accept(listener, NULL, NULL) : accept4(listener, NULL, NULL, flags);
  close(other);
  close(listener);
  return made;
}

static int is_other(const char* name) {
  return other_name != NULL && strcmp(other_name, name) == 0;
}

static int other_descriptor(void) {
  int ends[2];
  sigset_t none;
  sigemptyset(&none);
  if (is_other("accept")) return accepted(0);
  if (is_other("accept4")) return accepted(SOCK_CLOEXEC);
  if (is_other("epoll_create")) return epoll_create(1);
  if (is_other("epoll_create1")) return epoll_create1(EPOLL_CLOEXEC);
  if (is_other("eventfd")) return eventfd(3, EFD_NONBLOCK);
  if (is_other("inotify_init")) return inotify_init();
  if (is_other("inotify_init1")) return inotify_init1(IN_NONBLOCK);
  if (is_other("memfd_create")) return memfd_create("model", MFD_CLOEXEC);
  if (is_other("pipe")) return first_end(pipe(ends), ends);
  if (is_other("pipe2")) return first_end(pipe2(ends, O_CLOEXEC), ends);
  if (is_other("posix_openpt")) return posix_openpt(O_RDWR | O_NOCTTY);
  if (is_other("signalfd")) return signalfd(-1, &none, SFD_NONBLOCK);
  if (is_other("socketpair")) return first_end(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), ends);
  if (is_other("timerfd_create")) return timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  return socket(AF_UNIX, SOCK_STREAM, 0);
}

// A descriptor that was closed without the C library; its number may belong to something else now.
static void do_instead(void) {
  const int slot = number(1);
  const int flags = slots[slot] < 0 ? -1 : fcntl(slots[slot], F_GETFL);
  // A file that is written is closed as usual: a buffer waits for that.
  if (flags >= 0 && (flags & O_ACCMODE) == O_RDONLY) {
    syscall(SYS_close, slots[slot]);
  } else if (slots[slot] >= 0) {
    close(slots[slot]);
  }
  slots[slot] = -1;
  const int fd = other_descriptor();
  say_result(fd < 0 ? -1 : 0);
  if (fd < 0) return;
  struct stat status;
  const int result = fstat(fd, &status);
  say(" %d %o size %ld at ", result, status.st_mode, (long)status.st_size);
  say_result(lseek(fd, 0, SEEK_CUR));
  say(" close %d", close(fd));
}

// ---- attributes of descriptors ------------------------------------------------------------------

static void do_fstat___fxstat(void) {
  struct stat status;
  say_stat(CALL(__fxstat)(kStatVersion, descriptor(1), &status), &status);
}

static void do_futimens_futimes(void) {
  const struct timeval times[2] = {{number(2), 0}, {number(2), 0}};
  say_result(futimes(descriptor(1), times));
}

static void do_flistxattr(void) {
  const long size = flistxattr(descriptor(1), bytes, sizeof bytes);
  if (size < 0) {
    say_result(size);
    return;
  }
  for (const char* name = bytes; name < bytes + size; name += strlen(name) + 1) {
    if (strncmp(name, "user.", 5) == 0) add_name("%s", name);
  }
  say("xattrs");
  say_names();
}
static void do_fremovexattr(void) { say_result(fremovexattr(descriptor(1), word(2))); }

static void do_fpathconf(void) { say_result(fpathconf(descriptor(1), number(2))); }

static void do_fstatfs(void) {
  struct statfs status;
  const int result = CALL(fstatfs)(descriptor(1), &status);
  say_result(result);
  if (result == 0) say(" %ld", (long)status.f_namelen);
}
static void do_fstatfs_fstatvfs(void) {
  struct statvfs status;
  const int result = CALL(fstatvfs)(descriptor(1), &status);
  say_result(result);
  if (result == 0) say(" %lu", status.f_namemax);
}

const struct operation descriptor_operations[] = {
    OPERATION(advise),
    OPERATION(allocate),
    OPERATION(closefrom),
    OPERATION(fdopen),
    OPERATION(flistxattr),
    OPERATION(fpathconf),
    OPERATION(fremovexattr),
    OPERATION(fstatfs),
    OPERATION(inherit),
    OPERATION(instead),
    OPERATION(lockf),
    OPERATION(pass),
    OPERATION(poll),
    OPERATION(splice),
    OPERATION(sync_file_range),
    OPERATION(terminal),
    VARIANT(advise, readahead),
    VARIANT(allocate, posix_fallocate),
    VARIANT(close, close_range),
    VARIANT(dup2, dup3),
    VARIANT(fopen, freopen),
    VARIANT(fstat, __fxstat),
    VARIANT(fstatfs, fstatvfs),
    VARIANT(fsync, aio_fsync),
    VARIANT(fsync, syncfs),
    VARIANT(futimens, futimes),
    VARIANT(pass, sendmmsg),
    VARIANT(poll, __poll_chk),
    VARIANT(poll, epoll_ctl),
    VARIANT(poll, ppoll),
    VARIANT(poll, pselect),
    VARIANT(poll, select),
    VARIANT(pread, __pread_chk),
    VARIANT(pread, aio_read),
    VARIANT(pread, lio_listio),
    VARIANT(pread, preadv),
    VARIANT(pread, preadv2),
    VARIANT(pread, preadv64v2),
    VARIANT(pwrite, aio_write),
    VARIANT(pwrite, lio_listio),
    VARIANT(read, __read_chk),
    VARIANT(read, preadv2),
    VARIANT(read, readv),
    {NULL, NULL},
};
