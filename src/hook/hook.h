// hook: how to run inside another program's process.
//
// What preload libraries share: calling the real function, tracking the files behind descriptors,
// following exec, and memory outside the program's heap. Nothing here knows what
// it is used for.
//
// The program must not be able to tell that we are there. So: no heap, no exceptions, no stdio, no
// lock that another thread could hold across fork, errno preserved, and never an exit. Our own
// system calls go straight to the kernel (syscall.h): they reach no hook, neither ours nor another
// library's, and do not touch errno. The build links without a C++ runtime, and
// tools/check_preload.py checks the result.
#pragma once
