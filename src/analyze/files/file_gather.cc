#include "analyze/files/file_gather.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

namespace millrace::analyze {
namespace {

using wire::Call;
using wire::CallKind;

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kSectorBytes = 512;
constexpr uint64_t kSmallBytes = 64 << 10;

uint32_t hash_of(trace::NameIndex file) {
  return static_cast<uint32_t>((static_cast<uint64_t>(file) * 0x9e3779b97f4a7c15U) >> 32);
}

bool is_stat(Call call) {
  return call == Call::kStat || call == Call::kLstat || call == Call::kFstat ||
         call == Call::kFstatat || call == Call::kStatx;
}

// Per block.
constexpr size_t kCommonMax = 64;

}  // namespace

void CommonCounts::add_block(std::vector<uint64_t>& values) {
  std::vector<CommonValue> counts = count_values(values);
  keep_most(counts, kCommonMax);
  for (const CommonValue& common : counts) add(common.value, common.count);
}

void CommonCounts::merge(const CommonCounts& other) {
  for (const auto& [value, count] : other.values_) add(value, count);
}

std::vector<CommonValue> CommonCounts::most(size_t count) const {
  std::vector<CommonValue> values;
  for (const auto& [value, times] : values_) values.push_back({value, times});
  keep_most(values, count);
  return values;
}

void PatternTotals::clear() {
  sizes = {};
  common_sizes.clear();
  common_strides.clear();
}

void PatternTotals::merge(const PatternTotals& other) {
  sizes.merge(other.sizes);
  common_sizes.merge(other.common_sizes);
  common_strides.merge(other.common_strides);
}

// Compares an access with the previous one after the same open.
void FileGatherer::note_access(Extent now, Extent& last, SmallAccess& access, Accesses& all) {
  ++access.count;
  const uint64_t size = now.end - now.begin;
  if (now.begin % kPageBytes != 0) ++access.unaligned_offset;
  if (size % kPageBytes != 0) ++access.unaligned_size;
  if (size < kSmallBytes) ++access.small;
  all.sizes.push_back(size);
  if (!last.empty()) {
    ++access.transitions;
    if (now.begin == last.end) {
      ++access.consecutive;
      ++access.sequential;
    } else if (now.begin > last.end) {
      ++access.sequential;
      all.strides.push_back(now.begin - last.begin);
    }
  }
  last = now;
}

void FileGatherer::count(Accesses& accesses, PatternTotals& totals) {
  for (const uint64_t size : accesses.sizes) totals.sizes.add(size);
  totals.common_sizes.add_block(accesses.sizes);
  totals.common_strides.add_block(accesses.strides);
}

struct FileGatherer::Event {
  const CallTraits& traits;
  Call call;
  uint64_t begin_ns;
  uint64_t duration_ns;
  uint64_t offset;
  uint64_t size;
  int64_t result;
  uint32_t detail;
  bool failed;
  bool may_be_data;  // the file is not a system file
  uint64_t epoch_bit;
};

FileUse& FileGatherer::use_of(trace::NameIndex file) {
  if (used_ * 2 >= table_.size()) grow_table();
  const auto mask = static_cast<uint32_t>(table_.size() - 1);
  uint32_t at = hash_of(file) & mask;
  while (table_[at].round == round_) {
    if (uses_[table_[at].use].file == file) return uses_[table_[at].use];
    at = (at + 1) & mask;
  }
  table_[at] = {round_, static_cast<uint32_t>(used_)};
  if (used_ == uses_.size()) uses_.emplace_back();
  FileUse& use = uses_[used_++];
  use.file = file;
  use.totals = {};
  use.extents.clear();
  use.sizes.clear();
  use.position = 0;
  use.last_read = use.last_write = {};
  return use;
}

void FileGatherer::grow_table() {
  table_.assign(std::max<size_t>(1024, table_.size() * 2), {});
  round_ = 1;
  const auto mask = static_cast<uint32_t>(table_.size() - 1);
  for (uint32_t i = 0; i < used_; ++i) {
    uint32_t at = hash_of(uses_[i].file) & mask;
    while (table_[at].round == round_) at = (at + 1) & mask;
    table_[at] = {round_, i};
  }
}

void FileGatherer::gather(const Block& block) {
  used_ = 0;
  ++round_;
  for (Accesses* accesses : {&read_accesses_, &write_accesses_}) {
    accesses->sizes.clear();
    accesses->strides.clear();
  }
  gather_events(block);
  reads_.clear();
  writes_.clear();
  count(read_accesses_, reads_);
  count(write_accesses_, writes_);
  for (FileUse& use : files()) use.read_sizes.assign(use.sizes);
}

void FileGatherer::gather_events(const Block& block) {
  const trace::EventColumns& columns = block.columns;
  const Context& context = block.context;
  EpochCursor epochs(context.epochs.reading(static_cast<uint32_t>(block.group)));
  const bool below = context.bytes_below_posix;
  FileUse* use = nullptr;
  for (size_t i = 0; i < columns.size_events(); ++i) {
    const CallTraits& traits = traits_of(columns.call[i]);
    if (!traits.io || columns.file[i] == trace::NameIndex{}) continue;
    // What a library does to a file is recorded again in the layer below.
    if (below && (traits.layer == Layer::kFormat || traits.layer == Layer::kMpiio)) continue;
    if (use == nullptr || use->file != columns.file[i]) use = &use_of(columns.file[i]);
    const int64_t epoch = epochs.at(columns.begin_ns[i]);
    const Event event{.traits = traits,
                      .call = columns.call[i],
                      .begin_ns = columns.begin_ns[i],
                      .duration_ns = columns.duration_ns[i],
                      .offset = columns.offset[i],
                      .size = columns.size[i],
                      .result = columns.result[i],
                      .detail = columns.detail[i],
                      .failed = columns.error[i] != 0,
                      .may_be_data = !context.system_file[static_cast<size_t>(columns.file[i])],
                      .epoch_bit = epoch < 0 ? 0 : uint64_t{1} << (epoch % 64)};
    note(event, *use);
    if (traits.kind == CallKind::kTransfer && columns.other_file[i] != trace::NameIndex{}) {
      Event written = event;
      written.offset = columns.other_offset[i];
      note_write(written, use_of(columns.other_file[i]));
      use = nullptr;  // uses_ may have been reallocated
    }
  }
}

void FileGatherer::note(const Event& event, FileUse& use) {
  FileTotals& totals = use.totals;
  totals.first_ns = std::min(totals.first_ns, event.begin_ns);
  totals.last_ns = std::max(totals.last_ns, event.begin_ns + event.duration_ns);
  if (event.failed) ++totals.errors;
  switch (event.traits.kind) {
    case CallKind::kRead:
    case CallKind::kTransfer:
      note_read(event, use);
      break;
    case CallKind::kWrite:
      note_write(event, use);
      break;
    default:
      note_other(event, use);
  }
}

void FileGatherer::note_read(const Event& event, FileUse& use) {
  FileTotals& totals = use.totals;
  ++totals.reads;
  totals.read_ns += event.duration_ns;
  if (event.failed || event.result < 0) return;
  const auto moved = static_cast<uint64_t>(event.result);
  const bool known = event.offset != wire::kNoOffset;
  const uint64_t begin = known ? event.offset : use.position;
  use.position = begin + moved;
  if (event.traits.line) ++totals.read.lines;
  if (moved == 0) {
    ++totals.read.count;
    ++totals.read.at_end;
    // A pipe ends too, but has no file size.
    if (known && totals.bytes_read > 0) totals.size_known = 1;
    return;
  }
  totals.bytes_read += moved;
  totals.epochs |= event.epoch_bit;
  const Extent now{begin, begin + moved};
  totals.size_bytes = std::max(totals.size_bytes, now.end);
  if (known && moved < event.size && !event.traits.line) totals.size_known = 1;
  if (now.begin % kSectorBytes != 0 || moved % kSectorBytes != 0) ++totals.unaligned_sector;
  if (event.may_be_data) use.sizes.push_back(moved);
  note_access(now, use.last_read, totals.read, read_accesses_);
  if (!use.extents.empty() && use.extents.back().touches(now)) {
    use.extents.back().begin = std::min(use.extents.back().begin, now.begin);
    use.extents.back().end = std::max(use.extents.back().end, now.end);
  } else {
    use.extents.push_back(now);
  }
}

void FileGatherer::note_write(const Event& event, FileUse& use) {
  FileTotals& totals = use.totals;
  totals.first_ns = std::min(totals.first_ns, event.begin_ns);
  totals.last_ns = std::max(totals.last_ns, event.begin_ns + event.duration_ns);
  ++totals.writes;
  totals.write_ns += event.duration_ns;
  if (event.failed || event.result <= 0) return;
  const auto moved = static_cast<uint64_t>(event.result);
  const uint64_t begin = event.offset != wire::kNoOffset ? event.offset : use.position;
  use.position = begin + moved;
  totals.bytes_written += moved;
  totals.size_bytes = std::max(totals.size_bytes, begin + moved);
  if (begin % kSectorBytes != 0 || moved % kSectorBytes != 0) ++totals.unaligned_sector;
  note_access({begin, begin + moved}, use.last_write, totals.write, write_accesses_);
}

void FileGatherer::note_other(const Event& event, FileUse& use) {
  FileTotals& totals = use.totals;
  if (event.traits.kind == CallKind::kSync) {
    ++totals.syncs;
    totals.write_ns += event.duration_ns;
    return;
  }
  totals.metadata_ns += event.duration_ns;
  switch (event.traits.kind) {
    case CallKind::kOpen:
      ++totals.opens;
      if ((event.detail & O_DIRECT) != 0 && event.traits.layer == Layer::kPosix) {
        ++totals.direct_opens;
      }
      use.last_read = use.last_write = {};
      use.position = 0;
      break;
    case CallKind::kSeek:
      ++totals.seeks;
      if (event.detail == SEEK_END && event.offset == 0 && event.result > 0) {
        totals.size_bytes = std::max(totals.size_bytes, static_cast<uint64_t>(event.result));
        totals.size_known = 1;
      }
      break;
    case CallKind::kMap:
      ++totals.maps;
      break;
    case CallKind::kMetadata:
      ++totals.metadata;
      if (event.size > 0 && event.result == 0 && !event.failed && is_stat(event.call)) {
        totals.size_bytes = std::max(totals.size_bytes, event.size);
        totals.size_known = 1;
      }
      break;
    case CallKind::kDirectory:
    case CallKind::kOther:
      ++totals.metadata;
      break;
    default:
      break;
  }
}

}  // namespace millrace::analyze
