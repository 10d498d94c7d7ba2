// array_decoder: decodes samples that consist of arrays: raw bytes, npy, npz, the features of
// TFRecords, the members of a tar.
//
// Every sample must have the types and shapes of the first one, or those that were requested. If
// one does not, the error says its shape and the expected one. A ragged field may have any length.
// Images within such samples go to an image decoder (FieldChoice::decoder, decode_field), and masks
// and boxes follow them.
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
#include "format/images/box_decoder.h"
#include "format/images/mask_decoder.h"

namespace millrace::format {

// Samples whose bytes are their elements. The loader reads them straight into the batch, unless the
// field is ragged.
std::shared_ptr<const data::Decoder> make_raw_decoder(data::FieldSpec field);

// Which field of a sample becomes which field of a batch.
struct FieldChoice {
  std::string from;      // the name in the sample; of several ("jpg;png"), the first that exists
  data::FieldSpec spec;  // the field in the batch
  // Decodes the bytes of the field, for example an image; its only field must be like `spec`. Null
  // if the bytes are the elements. Shared with the caller.
  std::shared_ptr<const data::Decoder> decoder = nullptr;
  // Decodes a mask or boxes, like `spec`, that follow the image `follows`. At most one of the three
  // decoders is set. Shared with the caller.
  std::shared_ptr<const MaskDecoder> mask = nullptr;
  std::shared_ptr<const BoxDecoder> boxes = nullptr;
  // For a mask or boxes: `from` of their image. For another ragged field: `from` of the boxes that
  // it has one item each for; the items of dropped boxes are dropped too. Empty: it follows
  // nothing.
  std::string follows = {};
  // For boxes whose numbers are lists of their own, as in TensorFlow's object detection: the names
  // of the four lists, in the order of the format. Then `from` is only the name that others follow.
  std::vector<std::string> columns = {};
};

// A field fits its spec if
//  - it has that type and shape (npy, npz), or that type and as many elements (TFRecord's lists);
//  - it is plain bytes, exactly as many as the spec needs;
//  - its name is "npy" or ends in ".npy" (tar), and the array in it has that type and shape;
//  - it is a tar's "cls", "id", "index" or "txt", the spec is one integer, and its text is one.
// For a ragged spec, "that shape" means any length of the first axis, and "as many" means a
// multiple of an item. An empty list may have any type. A ragged feature that an Example of
// TFRecord lacks has no items, as in TensorFlow.
//
// Fails if a field follows one that is not there or of the wrong kind.
Result<std::shared_ptr<const data::Decoder>> make_field_decoder(
    std::shared_ptr<const Format> format, std::vector<FieldChoice> choices);

// The fields of this sample as they would be in a batch: the default for all samples.
Result<std::vector<FieldChoice>> describe_sample(const Format& format, ByteView sample);

// Decodes all samples with the fields of the first one. Fails if the source is empty.
Result<std::shared_ptr<const data::Decoder>> make_decoder_by_first(
    const data::SampleSource& source, std::shared_ptr<const Format> format);

// Decodes one field of the sample with another decoder, for example an image in a tar or a
// TFRecord.
std::shared_ptr<const data::Decoder> decode_field(std::shared_ptr<const Format> format,
                                                  std::string from,
                                                  std::shared_ptr<const data::Decoder> decoder);

}  // namespace millrace::format
