// array_decoder: samples that are arrays become the rows of a batch: raw bytes, npy, npz, the
// features of TFRecords, the members of a tar.
//
// Every sample must be what the first one was, or what was asked for; one that is not is an error
// with its shape and the expected one. Images within such samples go to an image decoder
// (FieldChoice::decoder, decode_field).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/array.h"
#include "data/decoder.h"
#include "data/source.h"
#include "format/format.h"

namespace millrace::format {

// Samples whose bytes are their elements. The loader reads them straight into the batch.
std::shared_ptr<const data::Decoder> make_raw_decoder(data::FieldSpec field);

// What field of a sample becomes what field of a batch.
struct FieldChoice {
  std::string from;      // its name in the sample; several: the first that is there ("jpg;png")
  data::FieldSpec spec;  // in the batch
  // What makes it of the field's bytes, such as an image; its one field is like `spec`. Null: the
  // field is the elements. Shared with the caller.
  std::shared_ptr<const data::Decoder> decoder = nullptr;
};

// A field fits its spec where
//  - it has that type and shape (npy, npz), or that type and as many elements (TFRecord's lists);
//  - it is plain bytes, as many as the spec takes;
//  - its name is "npy" or ends in ".npy" (tar), and the array in it has that type and shape;
//  - it is a tar's "cls", "id", "index" or "txt", the spec is one integer, and its text is one.
std::shared_ptr<const data::Decoder> make_field_decoder(std::shared_ptr<const Format> format,
                                                        std::vector<FieldChoice> choices);

// What the fields of this sample would become: what to decode all samples by, where nobody says.
Result<std::vector<FieldChoice>> describe_sample(const Format& format, ByteView sample);

// As the first sample of the source has them. An empty source is an error.
Result<std::shared_ptr<const data::Decoder>> make_decoder_by_first(
    const data::SampleSource& source, std::shared_ptr<const Format> format);

// One field of the sample, decoded by another decoder: an image in a tar or a TFRecord.
std::shared_ptr<const data::Decoder> decode_field(std::shared_ptr<const Format> format,
                                                  std::string from,
                                                  std::shared_ptr<const data::Decoder> decoder);

}  // namespace millrace::format
