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

// The rows of a row group, from which single rows are taken.
struct GroupRows {
  uint64_t row_count = 0;
  // If all rows have the same shapes: the fields of row after row, as they are in a sample. A row
  // of 200 columns would otherwise be 200 cache misses.
  data::Buffer rows;
  const std::byte* bytes = nullptr;  // in `rows`
  // Per row: 1 + the field that is null and must not be, or 0. Empty: there is none.
  std::vector<uint32_t> refused;
  RowGroupColumns columns = {};  // if shapes differ; otherwise empty

  uint64_t memory_bytes() const;
};

class RowFields {
 public:
  // The fields with these names, in this order, or those of all columns.
  static Result<RowFields> make(const ParquetFile& file, std::span<const std::string> names);

  // Which columns must be read: indexes into file.columns().
  const std::vector<size_t>& chosen() const { return chosen_; }
  const std::vector<RowField>& list() const { return fields_; }

  // Turns columns into rows, on the threads of `pool` if it is not null and on the caller's.
  // REQUIRES: `columns` are the chosen columns of this file.
  Result<GroupRows> arrange(RowGroupColumns columns, ThreadPool* pool) const;

  // The bytes of a row as a sample. Both fail if it has a null that it must not have.
  // REQUIRES: `group` is from arrange(); row < group.row_count
  Result<ByteView> pack(const GroupRows& group, uint64_t row, data::Buffer& room) const;
  // Fails with kExhausted if it does not fit.
  Result<size_t> pack_into(const GroupRows& group, uint64_t row, MutableByteView out) const;

 private:
  Result<data::Shape> shape_of(const RowField& field, ByteView bytes) const;
  std::vector<uint32_t> refused_rows(const RowGroupColumns& group) const;
  Status check_nulls(const GroupRows& group, uint64_t row) const;
  void fill(const FieldsPacker& packer, const RowGroupColumns& group, uint64_t row,
            MutableByteView out) const;
  bool has_fixed_rows() const { return !head_.empty(); }
  size_t fixed_bytes() const { return head_.size() + row_bytes_; }
  void fill_fixed(const GroupRows& group, uint64_t row, std::byte* out) const;
  void spread(const RowGroupColumns& group, uint64_t begin, uint64_t end, std::byte* rows) const;
  Result<FieldsPacker> packer_of(const RowGroupColumns& group, uint64_t row) const;

  std::vector<size_t> chosen_;
  std::vector<RowField> fields_;
  // If all rows have the same shapes: what comes before the fields of a sample, their length, and
  // where each is in it. Empty if not.
  std::vector<std::byte> head_;
  size_t row_bytes_ = 0;
  std::vector<size_t> places_;
};

}  // namespace millrace::format::parquet
