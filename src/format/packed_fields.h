// packed_fields: the fields of one sample as one run of bytes, for sources that assemble samples.
//
// Rows of HDF5 and Parquet are not ranges of bytes of a file. Their sources read a row into this
// form, and Format::split() of theirs is split_packed(). It exists only in memory.
//
//   FieldsPacker packer(specs);                  // once per file: names, types, shapes
//   MutableByteView sample = room of packer.size_bytes();
//   packer.write_head(sample);
//   read into packer.field(sample, i);           // straight to its place
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/base.h"
#include "base/result.h"
#include "format/format.h"

namespace millrace::format {

struct PackedField {
  std::string name;
  data::ElementType type = data::ElementType::kU8;
  data::Shape shape;
};

class FieldsPacker {
 public:
  explicit FieldsPacker(std::span<const PackedField> fields);

  size_t size_bytes() const { return size_bytes_; }
  size_t head_bytes() const;  // before the first field; equal for all samples
  // Writes everything but the fields, so that equal samples have equal bytes.
  // REQUIRES: sample.size() >= size_bytes(), here and below.
  void write_head(MutableByteView sample) const;
  MutableByteView field(MutableByteView sample, size_t index) const;

 private:
  std::string head_;
  std::vector<data::Span> places_;
  size_t size_bytes_ = 0;
};

// Fields whose shapes differ between samples: what FieldsPacker does, with the bytes. The sample is
// in `room`.
ByteView pack_fields(std::span<const Field> fields, data::Buffer& room);

// Checks every length, since the bytes may come from another process.
Status split_packed(ByteView sample, SampleFields& fields);

}  // namespace millrace::format
