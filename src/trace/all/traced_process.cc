#include "trace/all/traced_process.h"

#include <algorithm>

namespace millrace::trace {

void AddressSpace::add(const FileMapping& range) {
  remove(range.begin, range.size);
  if (range.size > 0) ranges_[range.begin] = range;
}

const FileMapping* AddressSpace::find(uint64_t begin, uint64_t size) const {
  auto next = ranges_.upper_bound(begin);
  if (next != ranges_.begin()) {
    const FileMapping& before = std::prev(next)->second;
    if (begin - before.begin < before.size) return &before;
  }
  if (next != ranges_.end() && next->first - begin < size) return &next->second;
  return nullptr;
}

std::vector<FileMapping> AddressSpace::remove(uint64_t begin, uint64_t size) {
  std::vector<FileMapping> removed;
  const uint64_t end = begin + size < begin ? ~uint64_t{0} : begin + size;
  while (const FileMapping* found = find(begin, size)) {
    const FileMapping whole = *found;
    ranges_.erase(whole.begin);
    const uint64_t whole_end = whole.begin + whole.size;
    const uint64_t from = std::max(begin, whole.begin);
    const uint64_t until = std::min(end, whole_end);
    removed.push_back({from, until - from, whole.offset + (from - whole.begin), whole.file});
    if (from > whole.begin) {
      ranges_[whole.begin] = {whole.begin, from - whole.begin, whole.offset, whole.file};
    }
    if (until < whole_end) {
      ranges_[until] = {until, whole_end - until, whole.offset + (until - whole.begin), whole.file};
    }
  }
  return removed;
}

std::vector<FileMapping> AddressSpace::all() const {
  std::vector<FileMapping> ranges;
  for (const auto& [begin, range] : ranges_) ranges.push_back(range);
  return ranges;
}

bool AddressSpace::is_own_code(uint64_t address) const {
  const auto next = own_code_.upper_bound(address);
  if (next == own_code_.begin()) return false;
  const auto& [begin, size] = *std::prev(next);
  return address - begin < size;
}

}  // namespace millrace::trace
