// Decoder: turns the encoded bytes of a sample into the elements of its row in a batch.
//
// Stateless, and used by many threads at once. All randomness comes from the context, so that a
// resumed run produces the same pixels. Anything kept between samples belongs in the thread's
// Scratch.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/base.h"
#include "base/result.h"
#include "data/array.h"
#include "data/sample.h"
#include "data/source.h"

namespace millrace::data {

struct DecodeContext {
  SampleId sample{};
  Epoch epoch{};
  uint64_t seed = 0;  // of the run. Sample, epoch and seed determine everything random.
};

// What a thread keeps between samples, such as handles and row buffers. Made by the decoder.
class Scratch {
 public:
  virtual ~Scratch() = default;
};

class Decoder {
 public:
  virtual ~Decoder() = default;

  // The fields of a decoded sample; the same for all samples of a source.
  virtual std::vector<FieldSpec> fields() const = 0;

  // True if the only field is the encoded bytes themselves. The loader then reads straight into the
  // batch and does not call decode().
  virtual bool is_verbatim() const { return false; }

  virtual std::unique_ptr<Scratch> make_scratch() const { return nullptr; }

  // Fills outputs[i], which has fields()[i].size_bytes() bytes. Errors do not name the sample: the
  // caller adds its name.
  virtual Status decode(ByteView sample, const DecodeContext& context,
                        std::span<const MutableByteView> outputs, Scratch* scratch) const = 0;
};

}  // namespace millrace::data
