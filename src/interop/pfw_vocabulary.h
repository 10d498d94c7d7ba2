// Pfw vocabulary: what DFTracer calls things in its .pfw files, for the exporter and the importer.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "wire/trace_call.h"

namespace millrace::interop {

// DFTracer's category of a call: POSIX, STDIO, ...; APP for regions, which is ours.
std::string_view pfw_category(wire::Call call);
inline constexpr std::string_view kPfwOwnCategory = "dftracer";  // of its metadata
inline constexpr std::string_view kPfwAppCategory = "APP";

// The number it writes as "type": which of its layers saw the event.
uint32_t pfw_type(wire::Call call);

// The call of a category and name, also under the names of older C libraries (open64, __xstat).
// None for what has no number of its own here: such events are kept as regions.
std::optional<wire::Call> pfw_call(std::string_view category, std::string_view name);

// Nanoseconds in the unit of time that a file declares (CM time_metric): US, NS, MS or SEC.
uint64_t pfw_unit_ns(std::string_view metric);

// The arguments that become columns. Others are kept as tags.
enum class PfwArgument : uint8_t {
  kNone,  // not one of these
  kHostHash,
  kFileHash,
  kFileName,  // the path itself, in the oldest files
  kResult,
  kOffset,
  kCount,
  kSize,
  kOtherHash,
  kOtherOffset,
  kFlags,
  kWhence,
  kDetail,
  kErrno,
  kEpoch,
  kStep,
  // Ours, which DFTracer's tools pass over.
  kNameBytes,
  kEventFlags,
  kNanoseconds,
  kProcess,
  kTags,
  kCall,
};
PfwArgument pfw_argument(std::string_view key);

}  // namespace millrace::interop
