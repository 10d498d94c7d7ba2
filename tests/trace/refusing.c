// Runs a command for which one system call fails with EPERM, as in some containers. Usage: refusing
// ptrace|seccomp|process_vm_readv COMMAND...
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const unsigned number = strcmp(argv[1], "ptrace") == 0    ? SYS_ptrace
                          : strcmp(argv[1], "seccomp") == 0 ? SYS_seccomp
                                                            : SYS_process_vm_readv;
  struct sock_filter code[] = {
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, number},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | 1 /* EPERM */},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  };
  const struct sock_fprog program = {sizeof(code) / sizeof(*code), code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 2;
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return 2;
  execvp(argv[2], argv + 2);
  perror(argv[2]);
  return 2;
}
