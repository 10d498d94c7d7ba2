#include "bench/generate/verify.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/text/text.h"
#include "bench/generate/file_job.h"
#include "bench/generate/images/image_seal.h"
#include "format/arrays/integer_types.h"

namespace millrace::bench {
namespace {

using data::ElementType;

constexpr size_t kPieceBytes = 32 * 1024;

std::string sample_text(const SampleRef& sample) {
  return fmt::format("sample {} of {} file {}", sample.sample, split_name(sample.file.split),
                     sample.file.index);
}

Error wrong_length(const ContentArray& array, const data::ArrayView& found) {
  return fail(Errc::kCorrupt, "it has {} bytes ({}), but {} ({}) were generated",
              found.bytes.size(), data::description(found.type, found.shape), array.size_bytes(),
              data::description(array.type, array.shape));
}

Error wrong_byte(uint64_t at, std::byte found, std::byte wanted) {
  return fail(Errc::kCorrupt, "its byte {} is {:02x}, but {:02x} was generated", at,
              std::to_integer<int>(found), std::to_integer<int>(wanted));
}

// Calls `check(offset, wanted)` for pieces of what was generated.
template <typename Check>
Status for_pieces(const Content& content, const ContentArray& array, Check check) {
  std::array<std::byte, kPieceBytes> piece;
  const uint64_t size = array.size_bytes();
  for (uint64_t at = 0; at < size; at += piece.size()) {
    const auto wanted =
        std::span(piece).first(static_cast<size_t>(std::min<uint64_t>(piece.size(), size - at)));
    content.fill(array, at, wanted);
    RETURN_IF_ERROR(check(at, ByteView(wanted)));
  }
  return {};
}

// Compares element i of the array with element first + i * step of `found`; in bytes.
Status compare_bytes(const Content& content, const ContentArray& array, ByteView found) {
  return for_pieces(content, array, [&](uint64_t at, ByteView wanted) -> Status {
    const ByteView part = found.subspan(static_cast<size_t>(at), wanted.size());
    if (std::memcmp(part.data(), wanted.data(), wanted.size()) == 0) return {};
    const auto differs = std::mismatch(part.begin(), part.end(), wanted.begin());
    const auto place = static_cast<uint64_t>(differs.first - part.begin());
    return wrong_byte(at + place, *differs.first, *differs.second);
  });
}

// The same if the elements of all samples of a file alternate.
Status compare_alternating(const Content& content, const ContentArray& array, ByteView found,
                           uint64_t samples_per_file) {
  const size_t element_bytes = data::element_bytes(array.type);
  const auto stride = static_cast<size_t>(samples_per_file) * element_bytes;
  const std::byte* first = found.data() + array.sample.sample * element_bytes;
  return for_pieces(content, array, [&](uint64_t at, ByteView wanted) -> Status {
    const std::byte* each = first + static_cast<size_t>(at) / element_bytes * stride;
    for (size_t i = 0; i < wanted.size(); i += element_bytes, each += stride) {
      if (std::memcmp(each, wanted.data() + i, element_bytes) != 0) {
        return wrong_byte(at + i, *each, wanted[i]);
      }
    }
    return {};
  });
}

template <typename T>
double number_as(ByteView bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return static_cast<double>(value);
}

// NaN for types that text does not have.
double number_at(ElementType type, ByteView bytes, size_t index) {
  const auto number = [&](auto zero) { return number_as<decltype(zero)>(bytes, index); };
  if (type == ElementType::kBool) return number(uint8_t{});
  if (type == ElementType::kF32) return number(float{});
  if (type == ElementType::kF64) return number(double{});
  return format::with_integer_type(type, std::nan(""), number);
}

// Formats of text return their own types of numbers, with the digits that were written.
Status compare_numbers(const Content& content, const ContentArray& array,
                       const data::ArrayView& found) {
  const size_t element_bytes = data::element_bytes(array.type);
  return for_pieces(content, array, [&](uint64_t at, ByteView wanted) -> Status {
    const size_t first = static_cast<size_t>(at) / element_bytes;
    for (size_t i = 0; i < wanted.size() / element_bytes; ++i) {
      const double expected = number_at(array.type, wanted, i);
      const double there = number_at(found.type, found.bytes, first + i);
      if (std::abs(there - expected) <= 1e-6 * std::max(1.0, std::abs(expected))) continue;
      return fail(Errc::kCorrupt, "its number {} is {}, but {} was generated", first + i, there,
                  expected);
    }
    return {};
  });
}

Status compare(const Content& content, const ContentArray& array, const data::ArrayView& found) {
  const bool is_same_type = found.type == array.type || found.type == ElementType::kU8;
  if (is_same_type && found.bytes.size() == array.size_bytes()) {
    return compare_bytes(content, array, found.bytes);
  }
  const size_t found_count = found.bytes.size() / data::element_bytes(found.type);
  if (found.type != array.type && found_count == array.shape.element_count()) {
    return compare_numbers(content, array, found);
  }
  return wrong_length(array, found);
}

const format::Field* field_named(std::span<const format::Field> fields, std::string_view name) {
  for (const format::Field& field : fields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

// Whether a field has the arrays of all samples of a file, and how many times longer it is.
bool has_all_samples(const DatasetConfig& dataset, const Layout& layout, const ContentArray& array,
                     const format::Field& field) {
  return dataset.traits().stacks_samples && layout.samples_per_file() > 1 &&
         field.array.type == array.type &&
         field.array.bytes.size() == array.size_bytes() * layout.samples_per_file();
}

}  // namespace

Result<Verifier> Verifier::of(const Workload& workload) {
  ASSIGN_OR_RETURN(Layout layout, Layout::of(workload));
  return Verifier(workload.dataset, std::move(layout));
}

Status Verifier::verify(const SampleRef& sample, std::span<const format::Field> fields) const {
  ASSIGN_OR_RETURN(const std::vector<SampleArray> arrays, sample_arrays(dataset_, layout_, sample));
  size_t compared_count = 0;
  for (size_t i = 0; i < arrays.size(); ++i) {
    ContentArray array = arrays[i].content;
    const format::Field* field = field_named(fields, arrays[i].name);
    if (field == nullptr) continue;
    ++compared_count;
    const std::string place = fmt::format("'{}'", printable(arrays[i].name));
    if (!has_all_samples(dataset_, layout_, array, *field)) {
      RETURN_IF_ERROR(
          compare(content_, array, field->array).within(place).within(sample_text(sample)));
      continue;
    }
    for (uint64_t each = 0; each < layout_.samples_per_file(); ++each) {
      array.sample.sample = each;
      const auto size = static_cast<size_t>(array.size_bytes());
      const Status same =
          i == 0
              ? compare_alternating(content_, array, field->array.bytes, layout_.samples_per_file())
              : compare_bytes(content_, array,
                              field->array.bytes.subspan(static_cast<size_t>(each) * size, size));
      RETURN_IF_ERROR(Status(same).within(place).within(sample_text(array.sample)));
    }
  }
  if (compared_count > 0) return {};
  return fail(Errc::kInvalidArgument, "{}: none of its fields was generated; expected '{}'",
              sample_text(sample), arrays.empty() ? "" : arrays[0].name);
}

Status Verifier::verify_file(FileId file, ByteView bytes) const {
  const std::string place = sample_text({.file = file});
  if (dataset_.traits().is_image) {
    return check_image_seal(dataset_.format, bytes, image_identity(dataset_, file)).within(place);
  }
  const data::ArrayView array{.type = ElementType::kU8, .shape = {bytes.size()}, .bytes = bytes};
  return verify_sample(layout_, content_, {.file = file}, array);
}

Status verify_sample(const Layout& layout, const Content& content, const SampleRef& sample,
                     const data::ArrayView& record) {
  return compare(content, record_of(layout, sample), record).within(sample_text(sample));
}

}  // namespace millrace::bench
