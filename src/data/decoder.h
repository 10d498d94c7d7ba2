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

// Makes room for the ragged fields of rows. Different rows may ask on different threads.
class RaggedRoom {
 public:
  virtual ~RaggedRoom() = default;

  // Room for `length` items, or for fewer if the field truncates. Fails if that is more than is
  // allowed; the error names the field. The last call counts.
  virtual Result<MutableByteView> room(size_t field, uint64_t row, uint64_t length) = 0;
};

// Where one field of one sample goes.
class Output {
 public:
  Output() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): the bytes of a field are the usual output.
  Output(MutableByteView bytes) : bytes_(bytes) {}
  Output(RaggedRoom& ragged, size_t field, uint64_t row)
      : ragged_(&ragged), field_(field), row_(row) {}

  // The bytes of a field that is not ragged.
  MutableByteView bytes() const { return bytes_; }

  // Room for the items of a ragged field. A sample that does not ask has none.
  Result<MutableByteView> room(uint64_t length) const {
    return ragged_->room(field_, row_, length);
  }

 private:
  MutableByteView bytes_;
  RaggedRoom* ragged_ = nullptr;
  size_t field_ = 0;
  uint64_t row_ = 0;
};

class Decoder {
 public:
  virtual ~Decoder() = default;

  // The fields of a decoded sample; the same for all samples of a source.
  virtual std::vector<FieldSpec> fields() const = 0;

  // True if the only field is the encoded bytes themselves, and all samples have equally many. The
  // loader then reads straight into the batch and does not call decode().
  virtual bool is_verbatim() const { return false; }

  virtual std::unique_ptr<Scratch> make_scratch() const { return nullptr; }

  // Fills outputs[i], which has fields()[i].size_bytes() bytes or, if that field is ragged, makes
  // room. Errors do not name the sample: the caller adds its name.
  virtual Status decode(ByteView sample, const DecodeContext& context,
                        std::span<const Output> outputs, Scratch* scratch) const = 0;
};

}  // namespace millrace::data
