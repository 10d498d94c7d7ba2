#include "analyze/files/file_totals.h"

#include <bit>

#include "trace/pack/bytes_out.h"

namespace millrace::analyze {
namespace {

constexpr uint32_t kCellShift = 16;
constexpr uint64_t kHeadBytes = uint64_t{64} << kCellShift;

uint16_t owner_of(uint32_t group) { return static_cast<uint16_t>(group % 0xfffe + 1); }

constexpr uint16_t kBoth = 0xffff;

uint16_t joined(uint16_t a, uint16_t b) {
  if (a == 0 || a == b) return b;
  return b == 0 ? a : kBoth;
}

void extend(Extent& hull, const Extent& extent) {
  if (extent.empty()) return;
  hull = hull.empty() ? extent
                      : Extent{std::min(hull.begin, extent.begin), std::max(hull.end, extent.end)};
}

}  // namespace

void SmallAccess::merge(const SmallAccess& other) {
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

AccessCounts SmallAccess::counts() const {
  return {.count = count,
          .transitions = transitions,
          .consecutive = consecutive,
          .sequential = sequential,
          .unaligned_offset = unaligned_offset,
          .unaligned_size = unaligned_size,
          .small = small,
          .at_end = at_end,
          .lines = lines};
}

void FileTotals::merge(const FileTotals& other) {
  first_ns = std::min(first_ns, other.first_ns);
  last_ns = std::max(last_ns, other.last_ns);
  bytes_read += other.bytes_read;
  read_ns += other.read_ns;
  metadata_ns += other.metadata_ns;
  size_bytes = std::max(size_bytes, other.size_bytes);
  epochs |= other.epochs;
  readers |= other.readers;
  users |= other.users;
  opens += other.opens;
  reads += other.reads;
  metadata += other.metadata;
  size_known |= other.size_known;
  if (other.read.count != 0) read.merge(other.read);
  seeks += other.seeks;
  maps += other.maps;
  errors += other.errors;
  direct_opens += other.direct_opens;
  unaligned_sector += other.unaligned_sector;
  if (other.writes == 0 && other.syncs == 0) return;
  writes += other.writes;
  syncs += other.syncs;
  bytes_written += other.bytes_written;
  write_ns += other.write_ns;
  write.merge(other.write);
}

IoTotals FileTotals::io(uint64_t begin_ns) const {
  IoTotals io;
  io.opens = opens;
  io.reads = reads;
  io.writes = writes;
  io.seeks = seeks;
  io.syncs = syncs;
  io.metadata = metadata;
  io.maps = maps;
  io.errors = errors;
  io.bytes_read = bytes_read;
  io.bytes_written = bytes_written;
  io.read_ns = read_ns;
  io.write_ns = write_ns;
  io.metadata_ns = metadata_ns;
  io.first_ns = first_ns - std::min(first_ns, begin_ns);
  io.last_ns = last_ns - std::min(last_ns, begin_ns);
  return io;
}

void Coverage::add(Extent extent, uint32_t group) {
  if (extent.empty()) return;
  const uint16_t owner = owner_of(group);
  extend(hull_, extent);
  add_to_head({extent.begin, std::min(extent.end, kHeadBytes)}, owner);
  add_to_cells({std::max(extent.begin, kHeadBytes), extent.end}, owner);
}

void Coverage::add_to_head(Extent extent, uint16_t owner) {
  if (extent.empty()) return;
  const uint64_t first = extent.begin >> kCellShift;
  const uint64_t last = (extent.end - 1) >> kCellShift;
  head_ |= (~uint64_t{0} << first) & (~uint64_t{0} >> (63 - last));
  head_owner_ = joined(head_owner_, owner);
}

// Doubles the size of a cell.
void Coverage::widen() {
  auto& owner = cells_->owner;
  for (size_t i = 0; i < kCells / 2; ++i) owner[i] = joined(owner[2 * i], owner[2 * i + 1]);
  std::fill(owner.begin() + kCells / 2, owner.end(), uint16_t{0});
  ++cells_->shift;
}

void Coverage::add_to_cells(Extent extent, uint16_t owner) {
  if (extent.empty()) return;
  if (cells_ == nullptr) cells_ = std::make_unique<Cells>();
  while ((extent.end - 1) >> cells_->shift >= kCells) widen();
  const auto first = static_cast<size_t>(extent.begin >> cells_->shift);
  const auto last = static_cast<size_t>((extent.end - 1) >> cells_->shift);
  for (size_t i = first; i <= last; ++i) cells_->owner[i] = joined(cells_->owner[i], owner);
}

void Coverage::merge(const Coverage& other) {
  extend(hull_, other.hull_);
  head_ |= other.head_;
  head_owner_ = joined(head_owner_, other.head_owner_);
  if (other.cells_ == nullptr) return;
  if (cells_ == nullptr) cells_ = std::make_unique<Cells>();
  while (cells_->shift < other.cells_->shift) widen();
  const uint32_t wider = cells_->shift - other.cells_->shift;
  for (size_t i = 0; i < kCells; ++i) {
    uint16_t& cell = cells_->owner[i >> wider];
    cell = joined(cell, other.cells_->owner[i]);
  }
}

uint64_t Coverage::unique_bytes() const {
  uint64_t bytes = static_cast<uint64_t>(std::popcount(head_)) << kCellShift;
  if (cells_ != nullptr) {
    const auto free = std::count(cells_->owner.begin(), cells_->owner.end(), uint16_t{0});
    bytes += static_cast<uint64_t>(kCells - static_cast<size_t>(free)) << cells_->shift;
  }
  return hull_.empty() ? 0 : std::min(bytes, hull_.end - hull_.begin);
}

uint64_t Coverage::shared_bytes() const {
  uint64_t bytes = 0;
  if (head_owner_ == kSeveral) bytes += static_cast<uint64_t>(std::popcount(head_)) << kCellShift;
  if (cells_ != nullptr) {
    bytes += static_cast<uint64_t>(std::count(cells_->owner.begin(), cells_->owner.end(), kSeveral))
             << cells_->shift;
  }
  return std::min(bytes, unique_bytes());
}

void Coverage::save(std::vector<std::byte>& out) const {
  trace::BytesOut bytes;
  bytes.put(hull_);
  bytes.put(head_);
  bytes.put(head_owner_);
  bytes.put(static_cast<uint8_t>(cells_ != nullptr));
  if (cells_ != nullptr) bytes.put(*cells_);
  out.insert(out.end(), bytes.view().begin(), bytes.view().end());
}

Result<Coverage> Coverage::load(ByteReader& in) {
  Coverage coverage;
  ASSIGN_OR_RETURN(coverage.hull_, in.read<Extent>());
  ASSIGN_OR_RETURN(coverage.head_, in.read<uint64_t>());
  ASSIGN_OR_RETURN(coverage.head_owner_, in.read<uint16_t>());
  ASSIGN_OR_RETURN(const auto has_cells, in.read<uint8_t>());
  if (has_cells == 0) return coverage;
  coverage.cells_ = std::make_unique<Cells>();
  ASSIGN_OR_RETURN(*coverage.cells_, in.read<Cells>());
  if (coverage.cells_->shift < kCellShift || coverage.cells_->shift > 54) {
    return fail(Errc::kCorrupt, "invalid cell size of 2^{} bytes", coverage.cells_->shift);
  }
  return coverage;
}

uint32_t count_groups(uint64_t bits, size_t group_count) {
  const auto count = static_cast<uint32_t>(std::popcount(bits));
  if (group_count <= 64) return count;
  return static_cast<uint32_t>((uint64_t{count} * group_count + 63) / 64);
}

}  // namespace millrace::analyze
