#include "data/fingerprint.h"

#include <sys/stat.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "base/hash/crc32c.h"

namespace millrace::data {
namespace {

constexpr uint64_t kNameCountMax = uint64_t{1} << 20;

// "/data/train/" for "/data/train/cat/7.jpg" and "/data/train/dog/1.jpg".
size_t shared_directory_length(std::string_view first, std::string_view last) {
  const auto differs = std::ranges::mismatch(first, last).in1;
  const auto shared = first.substr(0, static_cast<size_t>(differs - first.begin()));
  return shared.rfind('/') + 1;  // npos + 1 is 0: no directory
}

uint32_t add_number(uint64_t number, uint32_t before) {
  char digits[8];
  for (char& digit : digits) {
    digit = static_cast<char>(number & 0xff);
    number >>= 8;
  }
  return crc32c(std::as_bytes(std::span(digits)), before);
}

// Of every step-th sample of [begin, end).
uint32_t add_samples(const SampleSource& source, uint64_t begin, uint64_t end, uint64_t step,
                     uint32_t sum) {
  if (begin >= end) return sum;
  const std::string first = source.name(SampleId{0});
  const size_t skipped =
      shared_directory_length(first, source.name(SampleId{source.sample_count() - 1}));
  for (uint64_t i = begin; i < end; i += step) {
    const std::string name = source.name(SampleId{i});
    // Files that were listed by hand may be outside the common directory of the first and the last.
    const bool is_inside = name.starts_with(std::string_view(first).substr(0, skipped));
    const auto rest = std::string_view(name).substr(is_inside ? skipped : 0);
    sum = crc32c(std::as_bytes(std::span(rest)), add_number(rest.size(), sum));
    sum = add_number(static_cast<uint64_t>(source.label(SampleId{i}).value_or(-1)), sum);
  }
  return sum;
}

}  // namespace

uint32_t fingerprint(const SampleSource& source) {
  const uint64_t count = source.sample_count();
  const uint64_t step = count == 0 ? 1 : (count - 1) / kNameCountMax + 1;
  return add_samples(source, 0, count, step, add_number(count, 0));
}

uint32_t fingerprint(const SampleSource& source, SampleId begin, SampleId end) {
  return add_samples(source, index_of(begin), index_of(end), 1, 0);
}

FileSums file_sums(const SampleSource& source, uint64_t begin, uint64_t end, uint64_t step) {
  FileSums sums;
  for (uint64_t group = begin; group < end; group += step) {
    struct stat status{};
    if (::stat(source.group_path(group).c_str(), &status) != 0) {
      sums.is_known = 0;
      return sums;
    }
    sums.sizes = add_number(static_cast<uint64_t>(status.st_size), sums.sizes);
    sums.times = add_number(static_cast<uint64_t>(status.st_mtim.tv_sec), sums.times);
    sums.times = add_number(static_cast<uint64_t>(status.st_mtim.tv_nsec), sums.times);
  }
  return sums;
}

uint32_t fingerprint(std::span<const uint64_t> numbers, uint32_t before) {
  uint32_t sum = add_number(numbers.size(), before);
  for (const uint64_t number : numbers) sum = add_number(number, sum);
  return sum;
}

}  // namespace millrace::data
