// Detects the io_uring rings of the program: when they are set up, or when the program ends.
//
// I/O through a ring is not a call and not itemised. liburing calls the kernel directly, so its
// functions are hooked. Rings made in another way (a static liburing, another library) are found
// when the open descriptors are checked.
#pragma once

#include <cstdint>

namespace millrace::trace {

// Detail of an io_uring_setup event: the ring was found open, and its setup was not seen.
inline constexpr uint32_t kFoundOpen = 1;

// The setup of a ring was recorded: do not report it again.
void note_ring(int fd);

// The same for an unknown descriptor: all rings that are open now.
void note_new_rings();

// Records open rings whose setup was not seen.
void record_found_rings();

}  // namespace millrace::trace
