// count_io: adds one call to IoTotals, by the rules of that struct.
#pragma once

#include <algorithm>
#include <cstdint>

#include "analyze/call_traits.h"
#include "analyze/profile.h"
#include "trace/read/columns.h"

namespace millrace::analyze {

// Times stay on the clock of the trace. REQUIRES: the event is a call that does I/O.
inline void count_io(const trace::EventColumns& columns, size_t i, const CallTraits& traits,
                     IoTotals& totals) {
  using wire::CallKind;
  const uint64_t begin_ns = columns.begin_ns[i];
  const uint64_t duration_ns = columns.duration_ns[i];
  const bool failed = columns.error[i] != 0;
  const bool moved = !failed && columns.result[i] > 0;
  const uint64_t bytes = moved ? static_cast<uint64_t>(columns.result[i]) : 0;
  totals.first_ns = std::min(totals.first_ns, begin_ns);
  totals.last_ns = std::max(totals.last_ns, begin_ns + duration_ns);
  totals.errors += failed ? 1 : 0;
  switch (traits.kind) {
    case CallKind::kTransfer:
      ++totals.writes;
      totals.bytes_written += bytes;
      [[fallthrough]];
    case CallKind::kRead:
      ++totals.reads;
      totals.read_ns += duration_ns;
      totals.bytes_read += bytes;
      return;
    case CallKind::kWrite:
      ++totals.writes;
      totals.write_ns += duration_ns;
      totals.bytes_written += bytes;
      return;
    case CallKind::kSync:
      ++totals.syncs;
      totals.write_ns += duration_ns;
      return;
    case CallKind::kOpen:
      ++totals.opens;
      break;
    case CallKind::kSeek:
      ++totals.seeks;
      break;
    case CallKind::kMap:
      ++totals.maps;
      break;
    case CallKind::kMetadata:
    case CallKind::kDirectory:
    case CallKind::kOther:
      ++totals.metadata;
      break;
    default:
      break;
  }
  totals.metadata_ns += duration_ns;
}

}  // namespace millrace::analyze
