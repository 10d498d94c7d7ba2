// MpiAgreement: whether all ranks of a job on several nodes are being traced, so that a collective
// call of ours meets all of them.
//
// It cannot be asked by MPI: a rank that is not traced (a script that traces rank 0 alone) would
// not answer, and a job that hangs is worse than clocks that are milliseconds apart. So it is
// settled by files in the trace's directory, which all nodes see where traces are written to a
// shared file system. Every rank leaves a link with its number. Rank 0 waits for all of them and
// makes the link `verdict` to "go"; whoever has waited too long makes it to "no". Making a link
// succeeds for one alone, and everybody obeys what it says; where nobody else can be seen there is
// no "go".
#pragma once

namespace millrace::trace {

struct MpiPlace {
  int rank;
  int world_size;
};

// Called by every traced rank after MPI_Init. False at once where the launcher says that there is
// one node, or says too little. May wait some seconds where a rank is missing.
bool all_ranks_agree(const MpiPlace& place);

// At MPI_Finalize: removes what this rank has left.
void end_agreement();

}  // namespace millrace::trace
