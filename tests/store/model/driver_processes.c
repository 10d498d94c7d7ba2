// Operations of the driver that start programs, by all of the calls that do.

#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/store/model/driver.h"

extern char** environ;
pid_t __vfork(void) __attribute__((returns_twice));

static int is_other(const char* name) {
  return other_name != NULL && strcmp(other_name, name) == 0;
}

// Replaces this process. Only returns if it fails.
static void execute(const char* program, char* const* arguments) {
  const char* name = strrchr(program, '/');
  name = name == NULL ? program : name + 1;
  if (is_other("execl")) execl(program, arguments[0], arguments[1], NULL);
  if (is_other("execle")) execle(program, arguments[0], arguments[1], NULL, environ);
  if (is_other("execlp")) execlp(name, arguments[0], arguments[1], NULL);
  if (is_other("execve")) execve(program, arguments, environ);
  if (is_other("execveat")) execveat(AT_FDCWD, program, arguments, environ, 0);
  if (is_other("execvp")) execvp(name, arguments);
  if (is_other("execvpe")) execvpe(name, arguments, environ);
  if (is_other("fexecve")) {
    const int fd = open(program, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) fexecve(fd, arguments, environ);
    return;
  }
  if (errno == 0) execv(program, arguments);
}

static void say_output(int fd) {
  char bytes[16384];
  size_t size = 0;
  for (long more; (more = read(fd, bytes + size, sizeof bytes - size)) > 0;) size += more;
  close(fd);
  say_bytes(bytes, size);
}

static void say_status(pid_t child) {
  int status = -1;
  if (child > 0) waitpid(child, &status, 0);
  say(" status %d", status);
}

// In the child: its output goes to the pipe.
static void become(const char* program, char* const* arguments, int out) {
  dup2(out, 1);
  close(2);
  open("/dev/null", O_WRONLY);
  errno = 0;
  execute(program, arguments);
  const char* reason = strerrorname_np(errno);
  write(1, reason, strlen(reason));
  _exit(9);
}

static pid_t start(const char* program, char* const* arguments, int out) {
  pid_t child;
  if (is_other("vfork") || is_other("__vfork")) {
    child = is_other("vfork") ? vfork() : __vfork();
    if (child == 0) {
      dup2(out, 1);
      close(2);
      execve(program, arguments, environ);
      _exit(9);
    }
    return child;
  }
  child = is_other("_Fork") ? _Fork() : fork();
  if (child == 0) become(program, arguments, out);
  return child;
}

// 0, or an error. The path is the standard input of the program, or its argument in a directory.
static int spawn(pid_t* child, char* file, int out) {
  char directory[PATH_MAX];
  char* arguments[] = {"cat", file, NULL};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  int error = posix_spawn_file_actions_adddup2(&actions, out, 1);
  error |= posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  if (is_other("posix_spawn_file_actions_addopen")) {
    arguments[1] = NULL;
    error |= posix_spawn_file_actions_addopen(&actions, 0, file, O_RDONLY | O_NONBLOCK, 0);
  } else if (is_other("posix_spawn_file_actions_addchdir_np")) {
    snprintf(directory, sizeof directory, "%s", file);
    char* last = strrchr(directory, '/');
    if (last != NULL) {
      *last = '\0';
      arguments[1] = last + 1;
      error |= posix_spawn_file_actions_addchdir_np(&actions, directory);
    }
  }
  if (error == 0) {
    error = is_other("posix_spawnp")
                ? posix_spawnp(child, "cat", &actions, NULL, arguments, environ)
                : posix_spawn(child, "/bin/cat", &actions, NULL, arguments, environ);
  }
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

// What cat prints of a file.
static void do_cat(void) {
  char command[PATH_MAX + 64];
  int ends[2];
  char* file = path(1);
  fflush(NULL);
  if (other_name == NULL) {
    snprintf(command, sizeof command, "exec cat '%s' 2>/dev/null", file);
    FILE* stream = popen(command, "r");
    if (stream == NULL) {
      say_result(-1);
      return;
    }
    say_output(dup(fileno(stream)));
    say(" status %d", pclose(stream));
    return;
  }
  if (pipe2(ends, O_CLOEXEC) < 0) {
    say_result(-1);
    return;
  }
  pid_t child = -1;
  int status = -1;
  if (is_other("system")) {
    // The pipe has room for all of the file.
    const int out = dup(ends[1]);
    snprintf(command, sizeof command, "exec cat '%s' 2>/dev/null >/dev/fd/%d", file, out);
    status = system(command);
    close(out);
    close(ends[1]);
  } else if (strncmp(other_name, "posix_spawn", 11) == 0) {
    errno = spawn(&child, file, ends[1]);
    close(ends[1]);
    if (errno != 0) {
      say_result(-1);
      child = -1;
    }
  } else {
    char* arguments[] = {"cat", file, NULL};
    child = start("/bin/cat", arguments, ends[1]);
    close(ends[1]);
  }
  say_output(ends[0]);
  if (child < 0) {
    say(" status %d", status);
  } else {
    say_status(child);
  }
}

// A file that is no program.
static void do_exec(void) {
  int ends[2];
  char* file = path(1);
  char* arguments[] = {"model", "x", NULL};
  if (pipe2(ends, O_CLOEXEC) < 0) {
    say_result(-1);
    return;
  }
  pid_t child = -1;
  if (is_other("posix_spawn")) {
    errno = posix_spawn(&child, file, NULL, NULL, arguments, environ);
    say_result(errno == 0 ? 0 : -1);
  } else {
    child = start(file, arguments, ends[1]);
  }
  close(ends[1]);
  say_output(ends[0]);
  say_status(child);
}

const struct operation process_operations[] = {
    OPERATION(cat),
    OPERATION(exec),
    {NULL, NULL},
};
