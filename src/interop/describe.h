// Describe: what processes, calls and errors are called in exports, the same in all of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "interop/event.h"
#include "trace/trace.h"

namespace millrace::interop {

// "pread"; of a number this version does not know "call_0x1ff".
std::string call_name(wire::Call call);

// "posix"; "none" for a number this version does not know.
std::string_view level_name(wire::Call call);

// The name a viewer shows: the region's for a region, else the call's.
std::string event_name(const trace::Trace& trace, const Event& event);

// "ENOENT", or the number where libc knows no name.
std::string error_name(uint16_t error);

// "rank 3 python train.py (node7)": what tells a process from others at a glance.
std::string process_title(const trace::Trace& trace, const trace::Process& process);

// Empty for a session number that is not in the table.
std::string_view host_of(const trace::Trace& trace, const trace::Process& process);

// The process of a thread; null where the tables do not have it.
const trace::Process* process_of(const trace::Trace& trace, trace::ThreadIndex thread);

}  // namespace millrace::interop
