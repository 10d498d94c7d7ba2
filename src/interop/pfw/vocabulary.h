// Pfw vocabulary: the words that DFTracer uses in .pfw files, for the exporter and the importer.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "wire/trace_call.h"

namespace millrace::interop {

// DFTracer's category of a call: POSIX, STDIO, ... Regions have our own category APP.
std::string_view pfw_category(wire::Call call);
inline constexpr std::string_view kPfwOwnCategory = "dftracer";  // of DFTracer's metadata
inline constexpr std::string_view kPfwAppCategory = "APP";

// The number in "type": the layer of DFTracer that recorded the event.
uint32_t pfw_type(wire::Call call);

// The call for a category and name, including names of older C libraries (open64, __xstat). None if
// Millrace has no such call: the event then becomes a region.
std::optional<wire::Call> pfw_call(std::string_view category, std::string_view name);

// The number of nanoseconds in the time unit that a file declares (CM time_metric): US, NS, MS or
// SEC.
uint64_t pfw_unit_ns(std::string_view metric);

// The arguments that become columns. Others are kept as tags.
enum class PfwArgument : uint8_t {
  kNone,  // none of these
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
  // Our own, which DFTracer's tools ignore.
  kNameBytes,
  kEventFlags,
  kNanoseconds,
  kProcess,
  kTags,
  kCall,
};
PfwArgument pfw_argument(std::string_view key);

}  // namespace millrace::interop
