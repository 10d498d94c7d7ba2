// CallTraits: what analyses need to know about a call, found with one table lookup.
#pragma once

#include <array>
#include <cstddef>

#include "analyze/vocabulary.h"
#include "wire/trace_call.h"

namespace millrace::analyze {

struct CallTraits {
  Layer layer = Layer::kPosix;
  wire::CallKind kind = wire::CallKind::kOther;
  bool io = false;  // does I/O: not a region, not process control, not an estimate
  bool region = false;
  bool line = false;   // reads one line, character or word at a time
  bool opens = false;  // opens a file; in HDF5, opening a dataset within a file does not count
};

inline constexpr size_t kCallTableSize = 0x600;

namespace detail {

constexpr bool reads_lines(wire::Call call) {
  switch (call) {
    case wire::Call::kFgets:
    case wire::Call::kFgetc:
    case wire::Call::kGetline:
    case wire::Call::kGetdelim:
    case wire::Call::kFscanf:
    case wire::Call::kFgetws:
    case wire::Call::kFgetwc:
      return true;
    default:
      return false;
  }
}

constexpr CallTraits traits(wire::Call call) {
  CallTraits traits;
  const wire::CallInfo* info = wire::call_info(call);
  if (info == nullptr) return traits;
  traits.kind = info->kind;
  traits.region = wire::level_of(call) == wire::Level::kApp;
  traits.layer = traits.region ? Layer::kApplication : layer_of(wire::level_of(call));
  traits.io =
      !traits.region && info->kind != wire::CallKind::kProcess && call != wire::Call::kMapped;
  traits.line = reads_lines(call);
  traits.opens = info->kind == wire::CallKind::kOpen && call != wire::Call::kH5Dopen &&
                 call != wire::Call::kH5Dcreate;
  return traits;
}

constexpr std::array<CallTraits, kCallTableSize> make_table() {
  std::array<CallTraits, kCallTableSize> table{};
  for (size_t i = 0; i < table.size(); ++i) table[i] = traits(static_cast<wire::Call>(i));
  return table;
}

// Not constexpr: with UBSan, gcc 12 does not treat comparing an address with null as constant.
// Without UBSan the compiler still computes the table at compile time.
inline const std::array<CallTraits, kCallTableSize> kTraits = make_table();

}  // namespace detail

// A call that this version does not know has empty traits: no I/O, no region.
inline const CallTraits& traits_of(wire::Call call) {
  const auto number = static_cast<size_t>(call);
  return detail::kTraits[number < kCallTableSize ? number : 0];
}

}  // namespace millrace::analyze
