// MpiAgreement: whether all ranks of a job on several nodes are being traced, so that a collective
// call of ours meets all of them.
//
// It cannot be asked by MPI: a rank that is not traced (a script that traces rank 0 alone) would
// not answer, and a job that hangs is worse than clocks that are milliseconds apart. So it is
// settled by links in the trace's directory, which all nodes see if it lies on a shared file
// system.
//
// Before MPI_Init every traced rank leaves a link with its number: the promise to obey the verdict.
// No rank leaves MPI_Init before all have entered it, so afterwards all links are there, and each
// rank looks once. If it sees the links of all ranks it makes the link `verdict` with the content
// "go", otherwise with "no". Making a link succeeds for one rank alone, and all obey what that one
// wrote. Nobody waits: where ranks are not traced, or nodes do not share the directory, or an MPI
// does not hold its ranks together in MPI_Init, the verdict is "no".
#pragma once

namespace millrace::trace {

// Before MPI_Init. Does nothing if the launcher says that there is one node, or says too little.
void promise_to_agree();

struct MpiPlace {
  int rank;
  int world_size;
};

// After MPI_Init, by every rank that promised. False also for one that did not.
bool all_ranks_agree(const MpiPlace& place);

// After MPI_Finalize: removes what this rank has left. Not before, because a rank that has not
// looked yet must find the verdict.
void end_agreement();

}  // namespace millrace::trace
