#include "data/decoded_sample.h"

#include "base/text/text.h"
#include "base/text/units.h"

namespace millrace::data {

DecodedSample::DecodedSample(std::vector<FieldSpec> fields)
    : fields_(std::move(fields)),
      buffers_(fields_.size()),
      places_(fields_.size()),
      lengths_(fields_.size()) {
  for (size_t i = 0; i < fields_.size(); ++i) {
    if (fields_[i].is_ragged()) {
      outputs_.emplace_back(*this, i, 0);
    } else {
      places_[i] = buffers_[i].room(fields_[i].size_bytes());
      outputs_.emplace_back(places_[i]);
    }
  }
}

Result<MutableByteView> DecodedSample::room(size_t field, uint64_t row, uint64_t length) {
  static_cast<void>(row);
  ASSIGN_OR_RETURN(lengths_[field], allowed_length(fields_[field], length, kRaggedBytesMax));
  places_[field] = buffers_[field].room(lengths_[field] * fields_[field].size_bytes());
  return places_[field];
}

Result<uint64_t> allowed_length(const FieldSpec& spec, uint64_t length, uint64_t bytes_max) {
  const uint64_t most = spec.ragged->length_max;
  if (most != 0 && length > most) {
    if (!spec.ragged->truncates) {
      return fail(Errc::kInvalidArgument,
                  "'{}' has {} items, but at most {} are allowed; raise max_length, or truncate",
                  printable(spec.name), length, most);
    }
    length = most;
  }
  uint64_t size_bytes = 0;
  if (__builtin_mul_overflow(length, spec.size_bytes(), &size_bytes) || size_bytes > bytes_max) {
    return fail(Errc::kExhausted,
                "'{}' has {} items of {} bytes, but one sample may take {} of a batch's memory; "
                "raise the memory of the prefetch, or limit the length",
                printable(spec.name), length, spec.size_bytes(), format_bytes(bytes_max));
  }
  return length;
}

}  // namespace millrace::data
