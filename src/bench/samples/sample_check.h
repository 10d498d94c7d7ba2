// SampleCheck: whether the bytes that were read are a complete sample of the format.
//
// A run that counts empty files measures nothing. So every sample is split into its fields, which
// checks the structure and the checksums of its format (TFRecord, npz, gzip), and must have the
// length that was generated. Its content is not compared: reader.verify does that. Images are not
// decoded (check_image()), and numbers in text are not parsed: rows of csv must have as many cells
// as were generated, and brackets in JSON must be balanced. Without a manifest of ours, samples may
// have any length above 0, unless their format has no structure but the length. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/result.h"
#include "bench/generate/dataset_format.h"
#include "bench/generate/layout.h"
#include "bench/workload/workload.h"
#include "format/format.h"

namespace millrace::bench {

// The cost of the checks of all threads.
struct CheckCost {
  std::atomic<uint64_t> sample_count = 0;
  std::atomic<uint64_t> nanoseconds = 0;
};

// Whether bytes are a whole JPEG or PNG image, without decoding it. What a cut or a hole in a file
// breaks is looked at: the markers of a JPEG up to its first scan and its end, the chunks of a PNG
// with their checksums and its end. A JPEG has no checksum, so changed bits of its scans are found
// only by decoding (reader.decode). Bytes behind the end are accepted, as image programs do.
Status check_image(ByteView image);

// What a thread keeps between samples.
struct CheckScratch {
  format::SampleFields fields;  // of the last sample; images have none
  bool fits = false;            // they have the lengths that they should have
};

class SampleCheck {
 public:
  // `format` is null for images. `is_ours`: the dataset has a manifest, so its lengths are known.
  static Result<SampleCheck> of(const Workload& workload,
                                std::shared_ptr<const format::Format> format, bool is_ours);

  Status check(const SampleRef& sample, ByteView bytes, CheckScratch& scratch) const;

 private:
  // How text is checked without parsing its numbers. kNone: it is parsed.
  enum class Text : uint8_t { kNone, kRows, kJson };

  SampleCheck(DatasetConfig dataset, Layout layout, std::shared_ptr<const format::Format> format,
              bool knows_lengths)
      : dataset_(std::move(dataset)),
        layout_(std::move(layout)),
        format_(std::move(format)),
        knows_lengths_(knows_lengths) {}

  Status check_lengths(std::span<const SampleArray> arrays,
                       std::span<const format::Field> fields) const;
  bool fits(const ContentArray& array, const data::ArrayView& found) const;
  Text text_check() const;
  bool looks_complete(std::string_view sample) const;

  DatasetConfig dataset_;
  Layout layout_;
  std::shared_ptr<const format::Format> format_;  // shared with the decoder
  bool knows_lengths_;
  std::vector<SampleArray> arrays_;  // of every sample, if all have equal lengths
  Text text_ = Text::kNone;
};

}  // namespace millrace::bench
