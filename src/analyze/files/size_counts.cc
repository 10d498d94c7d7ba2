#include "analyze/files/size_counts.h"

#include <algorithm>
#include <functional>

#include "base/numbers/radix_sort.h"
#include "trace/pack/bytes_out.h"

namespace millrace::analyze {
namespace {

constexpr size_t kCommonMax = 64;                 // per block
constexpr uint64_t kOnlyBin = uint64_t{1} << 63;  // no call moves this many bytes

bool is_commoner(const CommonValue& a, const CommonValue& b) {
  return a.count != b.count ? a.count > b.count : a.value < b.value;
}

// Combines entries with the same value.
void combine(std::vector<CommonValue>& counts) {
  std::sort(counts.begin(), counts.end(),
            [](const CommonValue& a, const CommonValue& b) { return a.value < b.value; });
  size_t kept = 0;
  for (const CommonValue& count : counts) {
    if (kept > 0 && counts[kept - 1].value == count.value) {
      counts[kept - 1].count += count.count;
    } else {
      counts[kept++] = count;
    }
  }
  counts.resize(kept);
}

}  // namespace

std::vector<CommonValue> count_values(std::vector<uint64_t>& values) {
  radix_sort(std::span(values), [](uint64_t value) { return value; });
  std::vector<CommonValue> counts;
  for (size_t i = 0; i < values.size();) {
    size_t end = i + 1;
    while (end < values.size() && values[end] == values[i]) ++end;
    counts.push_back({values[i], end - i});
    i = end;
  }
  return counts;
}

std::vector<CommonValue> most_common(std::vector<CommonValue> values, size_t count) {
  combine(values);
  keep_most(values, count);
  return values;
}

void keep_most(std::vector<CommonValue>& values, size_t count) {
  const size_t kept = std::min(count, values.size());
  std::partial_sort(values.begin(), values.begin() + static_cast<ptrdiff_t>(kept), values.end(),
                    is_commoner);
  values.resize(kept);
}

void SizeCounts::assign(std::vector<uint64_t>& sizes) {
  // Most files are read with a single size.
  if (std::adjacent_find(sizes.begin(), sizes.end(), std::not_equal_to()) == sizes.end()) {
    counts_.clear();
    if (!sizes.empty()) counts_.push_back({sizes.front(), sizes.size()});
    return;
  }
  counts_ = count_values(sizes);
  if (counts_.size() <= kCommonMax) return;
  std::nth_element(counts_.begin(), counts_.begin() + kCommonMax, counts_.end(), is_commoner);
  for (size_t i = kCommonMax; i < counts_.size(); ++i) {
    counts_[i].value = kOnlyBin | LogHistogram::bin_of(counts_[i].value);
  }
  combine(counts_);
}

void SizeCounts::merge(const SizeCounts& other) {
  if (counts_.size() == 1 && other.counts_.size() == 1 &&
      counts_.front().value == other.counts_.front().value) {
    counts_.front().count += other.counts_.front().count;
    return;
  }
  counts_.insert(counts_.end(), other.counts_.begin(), other.counts_.end());
  // Only now and then: a file with many sizes in many blocks would otherwise be sorted again for
  // each.
  if (counts_.size() < 2 * combined_count_ + 8) return;
  combine(counts_);
  combined_count_ = counts_.size();
}

void SizeCounts::add_to(LogHistogram& histogram, std::vector<CommonValue>& values) const {
  for (const CommonValue& count : counts_) {
    if ((count.value & kOnlyBin) != 0) {
      histogram.add(LogHistogram::least_of(count.value & ~kOnlyBin), count.count);
    } else {
      histogram.add(count.value, count.count);
      values.push_back(count);
    }
  }
}

void SizeCounts::save(std::vector<std::byte>& out) const {
  trace::BytesOut bytes;
  bytes.put_varint(counts_.size());
  for (const CommonValue& count : counts_) {
    bytes.put_varint(count.value);
    bytes.put_varint(count.count);
  }
  out.insert(out.end(), bytes.view().begin(), bytes.view().end());
}

Result<SizeCounts> SizeCounts::load(ByteReader& in) {
  SizeCounts loaded;
  ASSIGN_OR_RETURN(const uint64_t size, in.read_varint());
  for (uint64_t i = 0; i < size; ++i) {
    CommonValue count;
    ASSIGN_OR_RETURN(count.value, in.read_varint());
    ASSIGN_OR_RETURN(count.count, in.read_varint());
    if ((count.value & kOnlyBin) != 0 && (count.value & ~kOnlyBin) >= LogHistogram::kBinCount) {
      return fail(Errc::kCorrupt, "a histogram has no bin {}", count.value & ~kOnlyBin);
    }
    loaded.counts_.push_back(count);
  }
  return loaded;
}

}  // namespace millrace::analyze
