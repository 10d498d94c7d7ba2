// Writes samples as rows of datasets, or one sample as the datasets of a file, with libhdf5.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/text/text.h"
#include "format/hdf5/calls.h"
#include "format/hdf5/handle.h"
#include "format/hdf5/types.h"

namespace millrace::format {
namespace {

constexpr unsigned kTruncate = 2;  // not HDF5's constant, which may call abort()

// A dataset that grows row by row.
struct Column {
  std::string name;
  data::ElementType type = data::ElementType::kU8;
  data::Shape shape;  // of a row
  uint64_t row_bytes = 0;
  uint64_t piece_rows = 1;     // written at once
  bool is_growing = false;     // otherwise all rows are there from the start
  std::vector<hsize_t> chunk;  // lengths; empty: contiguous
  uint64_t rows_written = 0;
  std::vector<std::byte> pending;
  Hdf5Id dataset;
  Hdf5Id memory_type;
};

std::vector<hsize_t> with_rows(uint64_t rows, const data::Shape& shape) {
  std::vector<hsize_t> lengths = {rows};
  for (const uint64_t length : shape.lengths()) lengths.push_back(length);
  return lengths;
}

// Lengths that an option gives for all axes, or for those of a row. Empty if they are of other
// datasets: those of labels and other scalars are never given.
std::vector<hsize_t> given_lengths(const std::vector<uint64_t>& given, uint64_t rows,
                                   const data::Shape& shape) {
  const size_t axis_count = shape.lengths().size() + 1;
  std::vector<hsize_t> lengths(given.begin(), given.end());
  if (!given.empty() && given.size() + 1 == axis_count) lengths.insert(lengths.begin(), rows);
  if (lengths.size() != axis_count || axis_count == 1) lengths.clear();
  return lengths;
}

Hdf5Id simple_space(const std::vector<hsize_t>& lengths, const hsize_t* limits = nullptr) {
  if (lengths.empty()) return {H5Screate(H5S_SCALAR), H5Sclose};
  return {H5Screate_simple(static_cast<int>(lengths.size()), lengths.data(), limits), H5Sclose};
}

class Hdf5Writer final : public SampleWriter {
 public:
  Hdf5Writer(std::string path, const FormatOptions::Hdf5& options, Hdf5Id file)
      : path_(std::move(path)), options_(options), file_(std::move(file)) {}

  // Without finish(), some rows may lack their elements: such a file must not be mistaken for data.
  ~Hdf5Writer() override {
    const Hdf5Use use;
    const bool is_complete = !file_.ok();
    columns_.clear();
    file_.close();
    std::error_code error;
    if (!is_complete && std::filesystem::is_regular_file(path_, error)) unlink(path_.c_str());
  }

  Status add(std::string_view key, std::span<const Field> fields) override {
    static_cast<void>(key);  // rows have no names
    return add_fields(fields).within(path_);
  }

  Status finish() override { return finish_file().within(path_); }

 private:
  Status finish_file();
  Status add_fields(std::span<const Field> fields);
  Status begin(std::span<const Field> fields);
  Status write_whole(const Field& field);
  void plan_chunk(Column& column, const std::vector<hsize_t>& limits) const;
  Result<Hdf5Id> creation(const Column& column) const;
  Result<Hdf5Id> make_dataset(const std::string& name, hid_t type, hid_t space, hid_t creation);
  Status open_column(Column& column);
  Status append(Column& column, const Field& field);
  Status flush(Column& column);

  std::string path_;
  FormatOptions::Hdf5 options_;
  std::vector<Column> columns_;
  uint64_t count_ = 0;
  Hdf5Id file_;
};

Status Hdf5Writer::add_fields(std::span<const Field> fields) {
  const Hdf5Use use;
  if (!file_.ok()) return fail(Errc::kInvalidArgument, "the file is already finished");
  if (options_.whole_files) {
    if (count_++ > 0) return fail(Errc::kInvalidArgument, "the file is one sample already");
    for (const Field& field : fields) RETURN_IF_ERROR(write_whole(field));
    return {};
  }
  if (count_ == 0) RETURN_IF_ERROR(begin(fields));
  if (fields.size() != columns_.size()) {
    return fail(Errc::kInvalidArgument, "sample {} has {} fields, but the first has {}", count_,
                fields.size(), columns_.size());
  }
  if (options_.sample_count != 0 && count_ >= options_.sample_count) {
    return fail(Errc::kInvalidArgument, "there are more than the {} samples that were announced",
                options_.sample_count);
  }
  for (size_t i = 0; i < fields.size() && !options_.without_rows; ++i) {
    RETURN_IF_ERROR(append(columns_[i], fields[i])
                        .within(fmt::format("dataset '{}'", printable(columns_[i].name))));
  }
  ++count_;
  return {};
}

Result<Hdf5Id> Hdf5Writer::make_dataset(const std::string& name, hid_t type, hid_t space,
                                        hid_t creation) {
  const Hdf5Id links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(links.get(), 1);  // "train/x"
  Hdf5Id made(
      H5Dcreate2(file_.get(), name.c_str(), type, space, links.get(), creation, H5P_DEFAULT),
      H5Dclose);
  if (!made.ok()) {
    return fail_hdf5(Errc::kInvalidArgument,
                     fmt::format("dataset '{}' cannot be created", printable(name)));
  }
  return made;
}

Result<Hdf5Id> Hdf5Writer::creation(const Column& column) const {
  Hdf5Id made(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_obj_track_times(made.get(), false);  // equal samples give equal files
  const bool is_chunked = !column.chunk.empty();
  // All rows are written, but not all of the last chunk.
  H5Pset_fill_time(made.get(), is_chunked ? H5D_FILL_TIME_ALLOC : H5D_FILL_TIME_NEVER);
  if (options_.without_rows) H5Pset_alloc_time(made.get(), H5D_ALLOC_TIME_EARLY);
  if (!is_chunked) return made;
  bool is_set =
      H5Pset_chunk(made.get(), static_cast<int>(column.chunk.size()), column.chunk.data()) >= 0;
  if (options_.shuffle) is_set = is_set && H5Pset_shuffle(made.get()) >= 0;
  if (options_.gzip_level != 0) {
    const auto level = static_cast<unsigned>(std::clamp(options_.gzip_level, 1, 9));
    is_set = is_set && H5Pset_deflate(made.get(), level) >= 0;
  }
  if (!is_set) return fail_hdf5(Errc::kInvalidArgument, "its chunks are not possible");
  return made;
}

// `limits` are the lengths to which the dataset may grow.
void Hdf5Writer::plan_chunk(Column& column, const std::vector<hsize_t>& limits) const {
  const std::vector<hsize_t> lengths = with_rows(column.piece_rows, column.shape);
  column.chunk = given_lengths(options_.chunk_dims, 1, column.shape);
  const bool is_chunked = column.is_growing || options_.chunk_rows != 0 ||
                          options_.gzip_level != 0 ||
                          !given_lengths(options_.max_dims, 0, column.shape).empty();
  if (column.chunk.empty() && is_chunked) column.chunk = lengths;
  for (size_t axis = 0; axis < column.chunk.size(); ++axis) {
    column.chunk[axis] =
        std::clamp<hsize_t>(column.chunk[axis], 1, std::max<hsize_t>(limits[axis], 1));
  }
}

Status Hdf5Writer::open_column(Column& column) {
  column.memory_type = hdf5_type_of(column.type);
  const uint64_t rows_at_once = options_.buffer_bytes / std::max<uint64_t>(column.row_bytes, 1);
  column.piece_rows = std::max<uint64_t>(rows_at_once, 1);
  column.is_growing = options_.sample_count == 0;
  // Whole chunks are written at once, so that libhdf5 compresses each of them only once.
  if (options_.chunk_rows != 0) column.piece_rows = options_.chunk_rows;
  const std::vector<hsize_t> wanted = given_lengths(options_.chunk_dims, 1, column.shape);
  if (!wanted.empty()) column.piece_rows = std::max<uint64_t>(wanted[0], 1);
  const uint64_t rows = column.is_growing ? 0 : options_.sample_count;
  if (!column.is_growing) column.piece_rows = std::min(column.piece_rows, rows);
  const std::vector<hsize_t> lengths = with_rows(rows, column.shape);
  std::vector<hsize_t> limits = given_lengths(options_.max_dims, rows, column.shape);
  if (limits.empty()) limits = lengths;
  for (size_t axis = 0; axis < lengths.size(); ++axis) {
    if (limits[axis] >= lengths[axis]) continue;
    return fail(Errc::kInvalidArgument, "axis {} has {} entries, more than its maximum, {}", axis,
                lengths[axis], limits[axis]);
  }
  if (column.is_growing) limits[0] = H5S_UNLIMITED;
  const Hdf5Id space = simple_space(lengths, limits.data());
  if (!space.ok()) return fail_hdf5(Errc::kInvalidArgument, "its shape is not possible");
  plan_chunk(column, limits);
  ASSIGN_OR_RETURN(const Hdf5Id how, creation(column));
  ASSIGN_OR_RETURN(column.dataset,
                   make_dataset(column.name, column.memory_type.get(), space.get(), how.get()));
  return {};
}

Status Hdf5Writer::begin(std::span<const Field> fields) {
  columns_.clear();
  if (fields.empty()) return fail(Errc::kInvalidArgument, "the sample has no fields");
  for (const Field& field : fields) {
    Column column;
    column.name = std::string(field.name);
    column.type = field.array.type;
    column.shape = field.array.shape;
    column.row_bytes = field.array.bytes.size();
    RETURN_IF_ERROR(open_column(column));
    columns_.push_back(std::move(column));
  }
  return {};
}

Status Hdf5Writer::append(Column& column, const Field& field) {
  if (field.name != column.name || field.array.type != column.type ||
      field.array.shape != column.shape) {
    return fail(Errc::kInvalidArgument,
                "sample {} has '{}', {}, but its rows are {}; samples of other shapes need a file "
                "each",
                count_, printable(field.name),
                data::description(field.array.type, field.array.shape),
                data::description(column.type, column.shape));
  }
  column.pending.insert(column.pending.end(), field.array.bytes.begin(), field.array.bytes.end());
  const uint64_t rows_pending = count_ + 1 - column.rows_written;
  return rows_pending < column.piece_rows ? Status() : flush(column);
}

// Writes the pending rows: those up to the last sample whose field was appended.
Status Hdf5Writer::flush(Column& column) {
  const uint64_t rows = column.row_bytes == 0 ? 0 : column.pending.size() / column.row_bytes;
  if (rows == 0) return {};
  std::vector<hsize_t> counts = with_rows(rows, column.shape);
  std::vector<hsize_t> first(counts.size(), 0);
  first[0] = column.rows_written;
  const std::vector<hsize_t> grown = with_rows(column.rows_written + rows, column.shape);
  if (column.is_growing && H5Dset_extent(column.dataset.get(), grown.data()) < 0) {
    return fail_hdf5(Errc::kIo, "cannot grow");
  }
  const Hdf5Id space(H5Dget_space(column.dataset.get()), H5Sclose);
  const Hdf5Id memory = simple_space(counts);
  if (H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, first.data(), nullptr, counts.data(),
                          nullptr) < 0 ||
      H5Dwrite(column.dataset.get(), column.memory_type.get(), memory.get(), space.get(),
               H5P_DEFAULT, column.pending.data()) < 0) {
    return fail_hdf5(Errc::kIo, "cannot be written");
  }
  column.rows_written += rows;
  column.pending.clear();
  return {};
}

Status Hdf5Writer::write_whole(const Field& field) {
  const auto axes = field.array.shape.lengths();
  const std::vector<hsize_t> lengths(axes.begin(), axes.end());
  const Hdf5Id space = simple_space(lengths);
  const Hdf5Id type = hdf5_type_of(field.array.type);
  Hdf5Id how(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_obj_track_times(how.get(), false);
  ASSIGN_OR_RETURN(const Hdf5Id dataset,
                   make_dataset(std::string(field.name), type.get(), space.get(), how.get()));
  if (field.array.bytes.empty()) return {};
  if (H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, field.array.bytes.data()) <
      0) {
    return fail_hdf5(Errc::kIo,
                     fmt::format("dataset '{}' cannot be written", printable(field.name)));
  }
  return {};
}

Status Hdf5Writer::finish_file() {
  const Hdf5Use use;
  if (!file_.ok()) return fail(Errc::kInvalidArgument, "the file is already finished");
  const bool is_counted = options_.sample_count != 0 && !options_.whole_files;
  if (is_counted && count_ != options_.sample_count && !options_.without_rows) {
    return fail(Errc::kInvalidArgument, "{} samples were announced, but {} were added",
                options_.sample_count, count_);
  }
  bool is_closed = true;
  for (Column& column : columns_) {
    RETURN_IF_ERROR(flush(column).within(fmt::format("dataset '{}'", printable(column.name))));
    if (column.is_growing && column.row_bytes == 0) {
      is_closed = H5Dset_extent(column.dataset.get(), with_rows(count_, column.shape).data()) >= 0;
    }
    is_closed = column.dataset.close() && is_closed;
  }
  columns_.clear();
  if (H5Fflush(file_.get(), H5F_SCOPE_LOCAL) < 0 || !is_closed) {
    return fail_hdf5(Errc::kIo, "its last bytes cannot be written");
  }
  if (!file_.close()) return fail_hdf5(Errc::kIo, "cannot be closed");
  return {};
}

}  // namespace

Result<std::unique_ptr<SampleWriter>> create_hdf5(const std::string& path,
                                                  const FormatOptions& options) {
  const Hdf5Use use;
  Hdf5Id file(H5Fcreate(path.c_str(), kTruncate, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
  if (!file.ok()) return fail_hdf5(Errc::kIo, "cannot be created").within(path);
  return std::unique_ptr<SampleWriter>(new Hdf5Writer(path, options.hdf5, std::move(file)));
}

}  // namespace millrace::format
