// Verifier: whether a sample that was read is what was generated.
//
// Contents are generated again and compared, so nothing is stored for it. That costs about as much
// as reading the bytes from memory (bench_generate_speed prints it). Images have a checksum of
// their own (image_seal.h). Datasets that another program generated cannot be verified.
// Thread-safe.
#pragma once

#include <cstdint>
#include <span>

#include "base/base.h"
#include "base/result.h"
#include "bench/generate/content.h"
#include "bench/generate/layout.h"
#include "bench/workload/workload.h"
#include "format/format.h"

namespace millrace::bench {

class Verifier {
 public:
  static Result<Verifier> of(const Workload& workload);

  const Layout& layout() const { return layout_; }

  // The fields of a sample, as Format::split() returns them. Only arrays with generated content are
  // compared, so a reader may leave out some, but not all. npz and npy: the array may have all
  // samples of its file, with a last axis more; then `sample.sample` does not matter.
  Status verify(const SampleRef& sample, std::span<const format::Field> fields) const;

  // The bytes of a file that is one sample without fields: jpeg, png, raw.
  Status verify_file(FileId file, ByteView bytes) const;

 private:
  Verifier(DatasetConfig dataset, Layout layout)
      : dataset_(std::move(dataset)), layout_(std::move(layout)), content_(dataset_) {}

  DatasetConfig dataset_;
  Layout layout_;
  Content content_;
};

// Compares the record of a sample with what was generated. The error says where they differ.
Status verify_sample(const Layout& layout, const Content& content, const SampleRef& sample,
                     const data::ArrayView& record);

}  // namespace millrace::bench
