// Does I/O in ways that are hard to record. Usage: workload MODE FILE [COUNT [COUNT]]. Prints what
// it did, so that a run under the recorder can be compared with one without.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static const char* path;
static long first;
static long second;
static char block[4096];

static int open_file(void) {
  const int fd = open(path, O_RDONLY);
  if (fd < 0) {
    perror(path);
    exit(1);
  }
  return fd;
}

static void read_times(int fd, long times) {
  for (long i = 0; i < times; ++i) {
    if (pread(fd, block, 512, (i % 8) * 512) != 512) abort();
  }
}

static int preads(void) {
  read_times(open_file(), first);
  return 7;
}

// Its recording stays small, however late it is killed.
static int preads_then_waits(void) {
  read_times(open_file(), first);
  pause();
  return 1;
}

// Replaces itself with the given program, which then complains about missing arguments.
static int becomes_another(void) {
  execl(path, path, (char*)NULL);
  return 1;
}

// Kills itself after COUNT reads: all of them must be recorded.
static int killed(void) {
  read_times(open_file(), first);
  kill(getpid(), SIGKILL);
  return 1;
}

static void* short_thread(void* argument) {
  read_times((int)(long)argument, second);
  return NULL;
}

static int forks(void) {
  const int fd = open_file();
  for (long i = 0; i < first; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      read_times(fd, second);
      _exit((int)(i % 100));
    }
    int status;
    waitpid(child, &status, 0);
    if (WEXITSTATUS(status) != i % 100) return 1;
  }
  read_times(fd, 5);
  return 0;
}

// Children with threads, whose recordings outgrow the child pages that the parent made.
static int forked_threads(void) {
  const int fd = open_file();
  for (long i = 0; i < first; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      pthread_t all[4];
      for (int k = 0; k < 4; ++k) pthread_create(&all[k], NULL, short_thread, (void*)(long)fd);
      for (int k = 0; k < 4; ++k) pthread_join(all[k], NULL);
      read_times(fd, second);
      _exit(0);
    }
    waitpid(child, NULL, 0);
  }
  return 0;
}

// Threads that fork at the same time. The children make different numbers of reads, so that their
// logs have different lengths.
static void* forking_thread(void* argument) {
  const int fd = (int)(long)argument;
  for (long i = 0; i < second; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      read_times(fd, 2100 + i % 2 * 2100);
      _exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status != 0) return "a child failed";
  }
  return NULL;
}

static int forks_at_once(void) {
  const int fd = open_file();
  pthread_t* all = calloc((size_t)first, sizeof(pthread_t));
  for (long i = 0; i < first; ++i) pthread_create(&all[i], NULL, forking_thread, (void*)(long)fd);
  int failed = 0;
  for (long i = 0; i < first; ++i) {
    void* result;
    pthread_join(all[i], &result);
    failed |= result != NULL;
  }
  free(all);
  return failed;
}

// A child of a raw fork system call, which runs no handlers of the C library.
static int raw_fork(void) {
  const int fd = open_file();
  for (long i = 0; i < first; ++i) {
    const long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
      read_times(fd, second);
      syscall(SYS_exit_group, 0);
    }
    waitpid((pid_t)child, NULL, 0);
  }
  return 0;
}

// The child shares the file position with its parent.
static int shared_position(void) {
  const int fd = open_file();
  if (read(fd, block, 100) != 100) return 1;
  const pid_t child = fork();
  if (child == 0) {
    _exit(read(fd, block, 200) == 200 ? 0 : 1);
  }
  waitpid(child, NULL, 0);
  return read(fd, block, 300) == 300 ? 0 : 1;
}

static int threads(void) {
  const int fd = open_file();
  for (long i = 0; i < first; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, short_thread, (void*)(long)fd) != 0) return 1;
    pthread_join(thread, NULL);
  }
  return 0;
}

static int parallel(void) {
  const int fd = open_file();
  pthread_t* all = calloc((size_t)first, sizeof(pthread_t));
  for (long i = 0; i < first; ++i) pthread_create(&all[i], NULL, short_thread, (void*)(long)fd);
  for (long i = 0; i < first; ++i) pthread_join(all[i], NULL);
  free(all);
  return 0;
}

static int descriptors(void) {
  const struct rlimit limit = {(rlim_t)first + 10, (rlim_t)first + 10};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
  int* fds = calloc((size_t)first + 10, sizeof(int));
  long count = 0;
  while ((fds[count] = open(path, O_RDONLY)) >= 0) ++count;
  if (errno != EMFILE) return 1;
  for (long i = 0; i < count; ++i) {
    if (read(fds[i], block, 16) != 16) return 1;
  }
  // Now full rings must be written to the log, but no descriptor is free.
  read_times(fds[0], second);
  printf("%ld descriptors\n", count);
  return 0;
}

static int files(void) {
  for (long i = 0; i < first; ++i) {
    char name[4200];
    snprintf(name, sizeof(name), "%s.%ld", path, i);
    const int fd = open(name, O_RDWR | O_CREAT, 0644);
    if (fd < 0 || read(fd, block, 10) != 0 || close(fd) != 0) return 1;
    if (second == 0) unlink(name);
  }
  return 0;
}

static int signal_fd;
static volatile long signals;

static void on_signal(int number) {
  (void)number;
  const int saved = errno;
  if (pread(signal_fd, block, 64, 0) == 64) ++signals;
  errno = saved;
}

// A handler that reads, in the middle of reads. The timer is set again only after its signal was
// handled and another read was made: a periodic timer could leave a slow machine no time for reads.
static int handlers(void) {
  signal_fd = open_file();
  const int fd = open_file();
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval soon = {{0, 0}, {0, 50}};
  const struct itimerval never = {{0, 0}, {0, 0}};
  long seen = -1;
  for (long i = 0; i < first; ++i) {
    if (seen != signals) {
      seen = signals;
      setitimer(ITIMER_REAL, &soon, NULL);
    }
    read_times(fd, 1);
  }
  setitimer(ITIMER_REAL, &never, NULL);
  printf("%ld\n", signals);
  return 0;
}

// Prints errno and the results of calls that fail, and of calls that do not change errno.
static int errors(void) {
  const int fd = open_file();
  errno = 0;
  printf("%zd %d\n", read(-1, block, 1), errno);
  printf("%d %d\n", open("/nowhere/at/all", O_RDONLY), errno);
  printf("%d %d\n", close(-1), errno);
  printf("%ld %d\n", (long)lseek(fd, -1, SEEK_SET), errno);
  printf("%zd %d\n", write(fd, block, 1), errno);
  printf("%d %d\n", mkdir("/proc/new", 0755), errno);
  printf("%d %d\n", fopen("/nowhere", "r") == NULL, errno);
  errno = 123;
  printf("%zd %d\n", pread(fd, block, 10, 0), errno);
  FILE* stream = fopen(path, "r");
  errno = 124;
  printf("%d %d\n", fgetc(stream), errno);
  printf("%d\n", fclose(stream));
  printf("%d %d\n", dup2(fd, -5), errno);
  printf("%d\n", fd);
  return 3;
}

static int exhausted_disk(void) {
  read_times(open_file(), first);
  printf("done\n");
  return 0;
}

static int aborted(void) {
  read_times(open_file(), first);
  abort();
}

static int daemon_mode(void) {
  if (fork() != 0) _exit(0);
  setsid();
  for (int fd = 0; fd < 1024; ++fd) close(fd);
  usleep(300000);
  read_times(open_file(), first);
  return 0;
}

// Prints the process id of a daemon that makes no recorded call before it gets SIGUSR1.
static int late_daemon(void) {
  sigset_t go;
  sigemptyset(&go);
  sigaddset(&go, SIGUSR1);
  sigprocmask(SIG_BLOCK, &go, NULL);
  const pid_t child = fork();
  if (child != 0) {
    printf("%d\n", (int)child);
    fflush(stdout);
    _exit(0);
  }
  alarm(900);  // in case the signal is never sent
  int number;
  sigwait(&go, &number);
  read_times(open_file(), first);
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  path = argv[2];
  first = argc > 3 ? atol(argv[3]) : 10;
  second = argc > 4 ? atol(argv[4]) : 10;
  static const struct {
    const char* name;
    int (*run)(void);
  } kModes[] = {
      {"preads", preads},       {"killed", killed},
      {"preads_then_waits", preads_then_waits},
      {"forks", forks},         {"raw_fork", raw_fork},
      {"forked_threads", forked_threads},
      {"forks_at_once", forks_at_once},
      {"threads", threads},     {"parallel", parallel},
      {"files", files},         {"descriptors", descriptors},
      {"handlers", handlers},   {"errors", errors},
      {"aborted", aborted},     {"daemon", daemon_mode},
      {"full", exhausted_disk}, {"shared_position", shared_position},
      {"late_daemon", late_daemon}, {"exec", becomes_another},
  };
  for (size_t i = 0; i < sizeof(kModes) / sizeof(*kModes); ++i) {
    if (strcmp(kModes[i].name, argv[1]) == 0) return kModes[i].run();
  }
  return 2;
}
