// Single copy: whether a process may copy from the memory of another one of its user
// (process_vm_readv). MPIs send large messages within a host that way. Containers often forbid it.
#pragma once

namespace millrace {

bool single_copy_is_allowed();

// The variable and value with which Open MPI 4 does without. Otherwise it tries for every large
// message, and prints a line for each.
inline constexpr char kSingleCopyVariable[] = "OMPI_MCA_btl_vader_single_copy_mechanism";
inline constexpr char kSingleCopyOff[] = "none";

}  // namespace millrace
