// Decoder: turns the encoded bytes of a sample into the elements of its place in a batch.
//
// Stateless, and used by many threads at once: all that is random comes from the context, so that a
// resumed run gives the same pixels. What needs memory between samples keeps it in the Scratch of
// the thread.
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
  uint64_t seed = 0;  // of the run; with sample and epoch the key of everything random
};

// What a thread keeps between samples: a decoder's handles and rows. Made by the decoder.
class Scratch {
 public:
  virtual ~Scratch() = default;
};

class Decoder {
 public:
  virtual ~Decoder() = default;

  // What a sample becomes: the same for all samples of a source.
  virtual std::vector<FieldSpec> fields() const = 0;

  // True where the one field is the encoded bytes themselves: the loader then reads straight into
  // the batch, and decode() is not called.
  virtual bool is_verbatim() const { return false; }

  virtual std::unique_ptr<Scratch> make_scratch() const { return nullptr; }

  // Fills outputs[i], of fields()[i].size_bytes() bytes. Errors say the fact; the caller puts the
  // name of the sample before it.
  virtual Status decode(ByteView sample, const DecodeContext& context,
                        std::span<const MutableByteView> outputs, Scratch* scratch) const = 0;
};

}  // namespace millrace::data
