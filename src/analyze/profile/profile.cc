#include "analyze/profile/profile.h"

#include <algorithm>

namespace millrace::analyze {

void IoTotals::merge(const IoTotals& other) {
  opens += other.opens;
  reads += other.reads;
  writes += other.writes;
  seeks += other.seeks;
  syncs += other.syncs;
  metadata += other.metadata;
  maps += other.maps;
  errors += other.errors;
  bytes_read += other.bytes_read;
  bytes_written += other.bytes_written;
  read_ns += other.read_ns;
  write_ns += other.write_ns;
  metadata_ns += other.metadata_ns;
  first_ns = std::min(first_ns, other.first_ns);
  last_ns = std::max(last_ns, other.last_ns);
}

void AccessCounts::merge(const AccessCounts& other) {
  count += other.count;
  transitions += other.transitions;
  consecutive += other.consecutive;
  sequential += other.sequential;
  unaligned_offset += other.unaligned_offset;
  unaligned_size += other.unaligned_size;
  small += other.small;
  at_end += other.at_end;
  lines += other.lines;
}

}  // namespace millrace::analyze
