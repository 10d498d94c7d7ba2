// Tags: writes the key=value pairs of an event as members of a JSON object.
#pragma once

#include <span>
#include <string>

#include "trace/trace.h"

namespace millrace::interop {

// Appends "key":value,"key":value without braces. Duplicate keys are all written; JSON readers may
// keep the last.
void append_tags(const trace::Trace& trace, std::span<const trace::RegionTag> tags,
                 std::string& out);

// Appends one value: an integer, a number with a point or exponent (null for NaN), or a text.
void append_tag_value(const trace::Trace& trace, const trace::RegionTag& tag, std::string& out);

}  // namespace millrace::interop
