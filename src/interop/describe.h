// Describe: the names of processes, calls and errors, and the tags of events, the same in all
// exports.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "interop/event.h"
#include "trace/trace.h"

namespace millrace::interop {

// "pread". "call_0x1ff" for a call that this version does not know.
std::string call_name(wire::Call call);

// "posix". "none" for a level that this version does not know.
std::string_view level_name(wire::Call call);

// The name that a viewer shows: that of the region or of the call.
std::string event_name(const trace::Trace& trace, const Event& event);

// "ENOENT", or the number if libc has no name for it.
std::string error_name(uint16_t error);

// "rank 3 python train.py (node7)": identifies a process at a glance.
std::string process_title(const trace::Trace& trace, const trace::Process& process);

// Empty if the session is not in the table.
std::string_view host_of(const trace::Trace& trace, const trace::Process& process);

// The process of a thread. Null if the tables do not have it.
const trace::Process* process_of(const trace::Trace& trace, trace::ThreadIndex thread);

// Appends "key":value,"key":value without braces. Duplicate keys are all written; JSON readers may
// keep the last.
void append_tags(const trace::Trace& trace, std::span<const trace::RegionTag> tags,
                 std::string& out);

// Appends one value: an integer, a number with a point or exponent (null for NaN), or a text.
void append_tag_value(const trace::Trace& trace, const trace::RegionTag& tag, std::string& out);

}  // namespace millrace::interop
