// Rings of io_uring that the program uses: seen when they are set up, or found when it ends.
//
// What goes through a ring is not a call and is not itemised. liburing calls the kernel by itself,
// so its functions are hooked; a ring made in another way (liburing linked statically, another
// library) is found among the open descriptors, where those are looked at.
#pragma once

#include <cstdint>

namespace millrace::trace {

// Of a io_uring_setup event: the ring was found open, its setup was not seen.
inline constexpr uint32_t kFoundOpen = 1;

// A ring's setup has been recorded: it is not to be found again.
void note_ring(int fd);

// The same, where the descriptor is not known: all rings that are open now.
void note_new_rings();

// Records the rings that are open and were not seen being set up.
void record_found_rings();

}  // namespace millrace::trace
