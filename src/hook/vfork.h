// vfork, for libraries that do something before it and after it. In assembly: it returns twice from
// one frame.
//
//   asm("define_vfork BEFORE, AFTER, FAILED");   // names of functions with C linkage
//
// defines vfork and __vfork. BEFORE() is called first, then in the parent either AFTER(child), or
// FAILED(minus an errno value), which returns the result.
//
// The child returns into the caller's frame and may change all of it before the parent continues.
// So nothing of ours may be on the stack across the system call: the return address is in a
// register.
#pragma once

#if defined(__x86_64__)
asm(R"(
  .macro define_vfork before, after, failed
  .text
  .globl vfork
  .type vfork, @function
vfork:
  .cfi_startproc
  endbr64
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  call \before
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  .cfi_register %rip, %rdi
  movl $58, %eax
  syscall
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  .cfi_offset %rip, -8
  testq %rax, %rax
  jz 1f
  js 2f
  pushq %rax
  .cfi_adjust_cfa_offset 8
  movq %rax, %rdi
  call \after
  popq %rax
  .cfi_adjust_cfa_offset -8
1:
  ret
2:
  movq %rax, %rdi
  jmp \failed
  .cfi_endproc
  .size vfork, .-vfork
  .globl __vfork
  .set __vfork, vfork
  .endm
)");
#elif defined(__aarch64__)
asm(R"(
  .macro define_vfork before, after, failed
  .text
  .globl vfork
  .type vfork, %function
vfork:
  .cfi_startproc
  stp x29, x30, [sp, -16]!
  bl \before
  ldp x29, x30, [sp], 16
  mov x0, #0x4111
  mov x1, #0
  mov x2, #0
  mov x3, #0
  mov x4, #0
  mov x8, #220
  svc #0
  cbz x0, 1f
  tbnz x0, #63, 2f
  stp x0, x30, [sp, -16]!
  bl \after
  ldp x0, x30, [sp], 16
1:
  ret
2:
  b \failed
  .cfi_endproc
  .size vfork, .-vfork
  .globl __vfork
  .set __vfork, vfork
  .endm
)");
#endif
