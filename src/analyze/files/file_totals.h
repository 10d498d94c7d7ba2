// FileTotals: the I/O on one file. Kept small, because there may be millions of files.
//
// All members are sums, minima, maxima and bit sets, so neither order nor grouping matters.
// Coverage records which bytes were read and by which group, in cells of 64 KiB, or about a
// thousandth of the file if that is more. For the first 4 MiB it only records whether one group or
// several read there.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "analyze/profile/profile.h"
#include "base/bytes.h"
#include "base/result.h"

namespace millrace::analyze {

struct SmallAccess {
  uint32_t count = 0;
  uint32_t transitions = 0;
  uint32_t consecutive = 0;
  uint32_t sequential = 0;
  uint32_t unaligned_offset = 0;
  uint32_t unaligned_size = 0;
  uint32_t small = 0;
  uint32_t at_end = 0;
  uint32_t lines = 0;

  void merge(const SmallAccess& other);
  AccessCounts counts() const;
};

// What reading uses comes first: the entry of a file that is only read then takes three cache
// lines, not four.
struct FileTotals {
  uint64_t first_ns = ~uint64_t{0};  // on the clock of the trace
  uint64_t last_ns = 0;
  uint64_t bytes_read = 0;
  uint64_t read_ns = 0;
  uint64_t metadata_ns = 0;
  uint64_t size_bytes = 0;
  uint64_t epochs = 0;   // bit n: read in an epoch whose number modulo 64 is n
  uint64_t readers = 0;  // bits of groups, see group_bit()
  uint64_t users = 0;
  uint32_t opens = 0;
  uint32_t reads = 0;
  uint32_t metadata = 0;
  uint32_t size_known = 0;
  SmallAccess read;
  uint32_t seeks = 0;
  uint32_t maps = 0;
  uint32_t errors = 0;
  uint32_t direct_opens = 0;
  uint32_t unaligned_sector = 0;  // transfers not aligned to 512 bytes
  uint32_t writes = 0;
  uint32_t syncs = 0;
  uint64_t bytes_written = 0;
  uint64_t write_ns = 0;
  SmallAccess write;

  bool used() const { return last_ns != 0; }
  void merge(const FileTotals& other);
  IoTotals io(uint64_t begin_ns) const;
};
static_assert(std::is_trivially_copyable_v<FileTotals>);

struct Extent {
  uint64_t begin = 0;
  uint64_t end = 0;

  bool empty() const { return begin >= end; }
  bool touches(const Extent& other) const { return begin <= other.end && other.begin <= end; }
};

class Coverage {
 public:
  void add(Extent extent, uint32_t group);
  void merge(const Coverage& other);

  uint64_t unique_bytes() const;
  uint64_t shared_bytes() const;  // part of unique_bytes() that several groups read

  void save(std::vector<std::byte>& out) const;
  static Result<Coverage> load(ByteReader& in);

 private:
  static constexpr size_t kCells = 1024;
  static constexpr uint16_t kSeveral = 0xffff;
  // Who read a cell: 0 nobody, kSeveral several groups, otherwise a number derived from the group.
  struct Cells {
    uint32_t shift = 16;  // a cell has 2^shift bytes
    std::array<uint16_t, kCells> owner = {};
  };

  void add_to_head(Extent extent, uint16_t owner);
  void add_to_cells(Extent extent, uint16_t owner);
  void widen();

  Extent hull_;
  uint64_t head_ = 0;             // the first 64 cells; most files have no more
  uint16_t head_owner_ = 0;       // of all these cells together
  std::unique_ptr<Cells> cells_;  // everything beyond
};

// The bit of a group. With up to 64 groups each has its own, otherwise neighboring groups share
// one.
constexpr uint64_t group_bit(uint32_t group, size_t group_count) {
  return uint64_t{1} << (group_count <= 64 ? group : uint64_t{group} * 64 / group_count);
}

// The number of groups in `bits`. An estimate above 64 groups.
uint32_t count_groups(uint64_t bits, size_t group_count);

}  // namespace millrace::analyze
