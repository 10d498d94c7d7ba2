// Settings: the environment variables of the recorder.
//
//   MILLRACE_TRACE_DIR      where traces go; without it and without a session nothing is recorded
//   MILLRACE_TRACE_SESSION  the session's directory, if a launcher created one
//   MILLRACE_TRACE_LEVELS   posix,stdio,mpiio,hdf5,app; all if it is not set
//   MILLRACE_TRACE_INCLUDE  globs, separated by ':' (write "\:" for a colon within a glob)
//   MILLRACE_TRACE_EXCLUDE  the same
//   MILLRACE_TRACE_MPI_CLOCK  0, 1 or not set: whether MPI ranks compare clocks (mpi_clock.cc)
//   MILLRACE_TRACE=0        switches recording off, also for children
//   MILLRACE_STEPS          a window of steps that the program opens itself (_window.py): every
//                           process begins paused. Not MILLRACE_TRACE_...: `millrace trace` removes
//                           those of an outer trace
#pragma once

#include <cstdint>
#include <string_view>

#include "wire/launchers.h"

namespace millrace::trace {

struct Settings {
  bool wanted = false;
  bool paused = false;        // begins paused
  uint32_t levels = 0;        // bit n: wire::Level n
  char directory[4096] = {};  // MILLRACE_TRACE_DIR, absolute; empty if only a session is given
  char session[4096] = {};    // absolute; empty if there is none yet
  char include[4096] = {};
  char exclude[4096] = {};
};

void read_settings(char* const* environment, Settings& settings);

// Whether the globs exclude this file.
bool is_filtered(const Settings& settings, std::string_view path);

// Rank and world size from the variables of a launcher; -1: unknown.
struct RankInfo {
  int32_t rank = -1;
  int32_t world_size = -1;
  wire::RankOrigin origin{};
};
RankInfo read_rank(char* const* environment);

}  // namespace millrace::trace
