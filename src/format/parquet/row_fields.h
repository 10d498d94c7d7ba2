// row_fields: the fields that a row of a Parquet file has as a sample, and a row in the form of
// packed_fields.h.
//
// A null is NaN in a column of floats, and empty in one of strings or lists. In other columns it is
// an error, unless the field "<column>.valid" was chosen too: then it is 0.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/base.h"
#include "base/result.h"
#include "data/buffer.h"
#include "format/packed_fields.h"
#include "format/parquet/parquet_file.h"

namespace millrace::format::parquet {

// The property of a file that says the shape of a column of arrays: "2,3". If the first axis of its
// arrays differs: "-1,4".
std::string shape_property(std::string_view column);

struct RowField {
  std::string name;
  size_t column = 0;  // into the chosen columns
  data::ElementType type{};
  size_t item_bytes = 0;     // of the column; 0: byte arrays
  bool is_validity = false;  // "<column>.valid"
  bool refuses_nulls = false;
  bool is_list = false;
  std::vector<int64_t> shape;  // of a row; the first may be -1; empty: a number

  bool operator==(const RowField&) const = default;
};

class RowFields {
 public:
  // The fields with these names, in this order, or those of all columns.
  static Result<RowFields> make(const ParquetFile& file, std::span<const std::string> names);

  // Which columns must be read: indexes into file.columns().
  const std::vector<size_t>& chosen() const { return chosen_; }
  const std::vector<RowField>& list() const { return fields_; }

  // The bytes of a row as a sample. Both fail if it has a null that it must not have.
  // REQUIRES: `group` has the chosen columns of this file; row < group.row_count
  Result<ByteView> pack(const RowGroupColumns& group, uint64_t row, data::Buffer& room) const;
  // Fails with kExhausted if it does not fit.
  Result<size_t> pack_into(const RowGroupColumns& group, uint64_t row, MutableByteView out) const;

 private:
  Result<data::Shape> shape_of(const RowField& field, ByteView bytes) const;
  Status check_nulls(const RowGroupColumns& group, uint64_t row) const;
  void fill(const FieldsPacker& packer, const RowGroupColumns& group, uint64_t row,
            MutableByteView out) const;
  void fill_fixed(const RowGroupColumns& group, uint64_t row, std::byte* out) const;
  Result<FieldsPacker> packer_of(const RowGroupColumns& group, uint64_t row) const;

  std::vector<size_t> chosen_;
  std::vector<RowField> fields_;
  // If all rows have the same shapes: a row of zeros, and where each field is in it. Empty if not.
  std::vector<std::byte> zeros_;
  std::vector<size_t> places_;
};

}  // namespace millrace::format::parquet
