// hook: how to live inside somebody else's process.
//
// What preload libraries share: making the real call, telling files behind descriptors, noticing a
// fork, passing the library on across exec, memory that is not the program's heap. Nothing here
// knows what it is used for.
//
// The program must not be able to tell that we are there. So: no heap, no exceptions, no stdio, no
// lock that another thread could hold across fork, errno kept, never an exit. Our own system calls
// go straight to the kernel (syscall.h): they cannot reach a hook, ours or another library's, and
// do not touch errno. The build links without a C++ runtime and tools/check_preload.py looks at
// what came out.
#pragma once
