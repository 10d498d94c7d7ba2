// DecodedSample: the fields of one decoded sample, in memory of their own. For one sample without a
// batch; a batch has all its rows in one buffer.
//
//   DecodedSample sample(decoder.fields());
//   RETURN_IF_ERROR(decoder.decode(bytes, context, sample.outputs(), scratch));
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/base.h"
#include "base/result.h"
#include "data/array.h"
#include "data/buffer.h"
#include "data/decoder.h"

namespace millrace::data {

class DecodedSample final : public RaggedRoom {
 public:
  // A ragged field of one sample may take this many bytes.
  static constexpr uint64_t kRaggedBytesMax = uint64_t{1} << 32;

  explicit DecodedSample(std::vector<FieldSpec> fields);
  DecodedSample(const DecodedSample&) = delete;
  DecodedSample& operator=(const DecodedSample&) = delete;

  std::span<const Output> outputs() const { return outputs_; }
  Result<MutableByteView> room(size_t field, uint64_t row, uint64_t length) override;

  const std::vector<FieldSpec>& fields() const { return fields_; }
  MutableByteView bytes(size_t field) const { return places_[field]; }
  uint64_t length(size_t field) const { return lengths_[field]; }  // in items; of a ragged field

 private:
  std::vector<FieldSpec> fields_;
  std::vector<Buffer> buffers_;
  std::vector<MutableByteView> places_;
  std::vector<uint64_t> lengths_;
  std::vector<Output> outputs_;
};

// How many items a sample gets that has `length` of them. Fails if the field neither allows nor
// truncates them, or if they take more than `bytes_max`.
Result<uint64_t> allowed_length(const FieldSpec& spec, uint64_t length, uint64_t bytes_max);

}  // namespace millrace::data
