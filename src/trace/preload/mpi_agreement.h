// MpiAgreement: whether all ranks of a job on several nodes are traced, so that our collective
// calls reach all of them.
//
// MPI itself cannot tell: an untraced rank (a script may trace rank 0 only) would not answer, and a
// hanging job is worse than clocks that are milliseconds apart. So the ranks agree through symbolic
// links in the trace's directory, which all nodes see if it is on a shared file system.
//
// Before MPI_Init, every traced rank creates a link with its number: a promise to obey the verdict.
// No rank leaves MPI_Init before all have entered it. So afterwards all links exist, and each rank
// checks once. If it sees the links of all ranks, it creates the link `verdict` with the content
// "go", otherwise with "no". Only one rank succeeds, and all obey its verdict. Nobody waits. If
// some ranks are not traced, nodes do not share the directory, or an MPI does not synchronise its
// ranks in MPI_Init, the verdict is "no".
#pragma once

namespace millrace::trace {

// Call before MPI_Init. Does nothing on a single node, or if the launcher's variables do not
// suffice.
void promise_to_agree();

struct MpiPlace {
  int rank;
  int world_size;
};

// Call after MPI_Init, on every rank that promised. False on other ranks.
bool all_ranks_agree(const MpiPlace& place);

// Call after MPI_Finalize: removes this rank's links. Not earlier, because a rank that has not
// checked yet must find the verdict.
void end_agreement();

}  // namespace millrace::trace
