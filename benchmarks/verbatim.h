// Verbatim: a decoder for samples of one size that are used as they are, so that a benchmark of the
// loader decodes nothing.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "data/decoder.h"

namespace millrace::bench {

class Verbatim final : public data::Decoder {
 public:
  explicit Verbatim(size_t sample_bytes) : sample_bytes_(sample_bytes) {}

  std::vector<data::FieldSpec> fields() const override {
    return {{"bytes", data::ElementType::kU8, {sample_bytes_}}};
  }
  bool is_verbatim() const override { return true; }
  Status decode(ByteView, const data::DecodeContext&, std::span<const data::Output>,
                data::Scratch*) const override {
    return fail(Errc::kUnsupported, "samples are not decoded");
  }

 private:
  size_t sample_bytes_;
};

}  // namespace millrace::bench
