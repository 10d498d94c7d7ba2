#include "format/parquet/parquet_source.h"

#include <algorithm>

#include "base/system/cpus.h"
#include "base/text/text.h"
#include "format/file_stamp.h"

namespace millrace::format {
namespace {

using data::SampleId;

constexpr std::string_view kChanged =
    "; it has changed since the dataset was opened: open it again";
// How many row groups prepare() decodes ahead, at most.
constexpr size_t kAheadMax = 4;

size_t threads_of(size_t wanted) { return wanted != 0 ? wanted : usable_cpu_count(); }

Status check_same(const parquet::RowFields& first, const parquet::RowFields& other,
                  std::string_view first_path) {
  if (first.list() == other.list()) return {};
  if (first.list().size() != other.list().size()) {
    return fail(Errc::kInvalidArgument,
                "has {} columns, but {} has {}; choose those that both have", other.list().size(),
                first_path, first.list().size());
  }
  for (size_t i = 0; i < first.list().size(); ++i) {
    const parquet::RowField& left = first.list()[i];
    const parquet::RowField& right = other.list()[i];
    if (left == right) continue;
    return fail(Errc::kInvalidArgument,
                "column {} is '{}' of {}{}, but in {} it is '{}' of {}{}; choose columns that are "
                "equal in both",
                i, printable(right.name), data::element_name(right.type),
                right.is_list ? " lists" : "", first_path, printable(left.name),
                data::element_name(left.type), left.is_list ? " lists" : "");
  }
  return {};
}

}  // namespace

ParquetSource::ParquetSource(std::shared_ptr<io::Engine> engine, ParquetSourceOptions options,
                             std::vector<File> files)
    : engine_(std::move(engine)),
      options_(std::move(options)),
      files_(std::move(files)),
      readers_(files_.size(), ReaderTable::capacity_for(0),
               [this](data::FileIndex file) { return open_reader(file); }),
      footers_(options_.footer_cache_bytes, [this](uint64_t file) { return open_footer(file); }),
      groups_(options_.cache_bytes, [this](uint64_t group) { return read_group(group); }),
      pool_(threads_of(options_.thread_count)) {}

Result<std::shared_ptr<ParquetSource>> ParquetSource::open(std::shared_ptr<io::Engine> engine,
                                                           const std::vector<std::string>& paths,
                                                           ParquetSourceOptions options) {
  std::vector<File> files;
  for (const std::string& path : paths) files.push_back({.path = path, .stamp = {}});
  std::shared_ptr<ParquetSource> source(
      new ParquetSource(std::move(engine), std::move(options), std::move(files)));
  RETURN_IF_ERROR(source->index());
  return source;
}

Status ParquetSource::index() {
  std::vector<std::vector<uint64_t>> row_counts(files_.size());
  std::vector<parquet::RowFields> fields(files_.size());
  RETURN_IF_ERROR(pool_.parallel_for(files_.size(), [&](size_t i) -> Status {
    File& file = files_[i];
    // Before the bytes are read, so that a concurrent write is noticed later.
    const int64_t modified = modified_ns(file.path);
    ASSIGN_OR_RETURN(const auto reader, engine_->open(file.path));
    ASSIGN_OR_RETURN(const uint64_t size, reader->size_bytes().within(file.path));
    ASSIGN_OR_RETURN(const ParquetFile footer,
                     ParquetFile::open(*reader, options_.limits).within(file.path));
    ASSIGN_OR_RETURN(fields[i],
                     parquet::RowFields::make(footer, options_.columns).within(file.path));
    file.stamp = {.size_bytes = size, .modified_ns = modified};
    for (const parquet::RowGroup& group : footer.metadata().row_groups) {
      row_counts[i].push_back(group.row_count);
    }
    return {};
  }));
  for (size_t i = 0; i < files_.size(); ++i) {
    RETURN_IF_ERROR(check_same(fields[0], fields[i], files_[0].path).within(files_[i].path));
    files_[i].first_group = group_begins_.size() - 1;
    for (const uint64_t count : row_counts[i]) {
      group_begins_.push_back(group_begins_.back() + count);
      if (group_begins_.back() >> 62 == 0) continue;
      return fail(Errc::kCorrupt, "{}: the files claim more than 2^62 rows", files_[i].path);
    }
  }
  if (!fields.empty()) fields_ = std::move(fields[0]);
  return {};
}

Result<std::unique_ptr<io::Reader>> ParquetSource::open_reader(data::FileIndex index) const {
  const File& file = files_[data::index_of(index)];
  auto reader = engine_->open(file.path);
  if (!reader.ok()) {
    return Error(reader.error().code(), fmt::format("{}{}", reader.error().message(), kChanged));
  }
  ASSIGN_OR_RETURN(const uint64_t size, (*reader)->size_bytes().within(file.path));
  if (size != file.stamp.size_bytes || modified_ns(file.path) != file.stamp.modified_ns) {
    return fail(Errc::kIo, "{}: has {} bytes, and had {}{}", file.path, size, file.stamp.size_bytes,
                kChanged);
  }
  return reader;
}

Result<ParquetFile> ParquetSource::open_footer(uint64_t file) const {
  const data::FileIndex index{static_cast<uint32_t>(file)};
  ASSIGN_OR_RETURN(const auto reader, readers_.get(index));
  return ParquetFile::open(*reader, options_.limits).within(files_[file].path);
}

Result<parquet::GroupRows> ParquetSource::read_group(uint64_t group) const {
  const size_t file = file_of(group);
  ASSIGN_OR_RETURN(const auto footer, footers_.get(file));
  ASSIGN_OR_RETURN(const auto reader, readers_.get(data::FileIndex{static_cast<uint32_t>(file)}));
  const uint64_t within = group - files_[file].first_group;
  const uint64_t row_count = group_begins_[group + 1] - group_begins_[group];
  if (within >= footer->row_group_count() || footer->row_count(within) != row_count) {
    return fail(Errc::kIo, "{}: has other row groups than before{}", files_[file].path, kChanged);
  }
  ASSIGN_OR_RETURN(
      RowGroupColumns columns,
      footer->read_row_group(*reader, within, fields_.chosen(), &pool_).within(files_[file].path));
  return fields_.arrange(std::move(columns), &pool_).within(files_[file].path);
}

uint64_t ParquetSource::group_of(SampleId sample) const {
  const auto after =
      std::upper_bound(group_begins_.begin(), group_begins_.end(), data::index_of(sample));
  return static_cast<uint64_t>(after - group_begins_.begin()) - 1;
}

size_t ParquetSource::file_of(uint64_t group) const {
  const auto after =
      std::upper_bound(files_.begin(), files_.end(), group,
                       [](uint64_t value, const File& file) { return value < file.first_group; });
  return static_cast<size_t>(after - files_.begin()) - 1;
}

std::string ParquetSource::name(SampleId sample) const {
  const File& file = files_[file_of(group_of(sample))];
  return fmt::format("{}: row {}", file.path,
                     data::index_of(sample) - group_begins_[file.first_group]);
}

// Errors of the file or of the row group have its path already.
Error ParquetSource::named(SampleId sample, Error error) const {
  if (error.message().starts_with(files_[file_of(group_of(sample))].path)) return error;
  return std::move(error).within(name(sample));
}

Result<ByteView> ParquetSource::read(SampleId sample, data::Buffer& room) const {
  const uint64_t group = group_of(sample);
  auto rows = groups_.get(group);
  if (!rows.ok()) return named(sample, std::move(rows).error());
  auto bytes = fields_.pack(**rows, data::index_of(sample) - group_begins_[group], room);
  if (!bytes.ok()) return named(sample, std::move(bytes).error());
  return bytes;
}

Result<size_t> ParquetSource::read_into(SampleId sample, MutableByteView out) const {
  const uint64_t group = group_of(sample);
  auto rows = groups_.get(group);
  if (!rows.ok()) return named(sample, std::move(rows).error());
  auto size = fields_.pack_into(**rows, data::index_of(sample) - group_begins_[group], out);
  if (!size.ok()) return named(sample, std::move(size).error());
  return size;
}

data::ReadWays ParquetSource::ways() const {
  return {.one_at_a_time = std::string(engine_->ways().one_at_a_time),
          .in_flight = {},
          .is_open_choice = false,
          .refusal = {}};
}

void ParquetSource::prepare(std::span<const SampleId> soon) const {
  uint64_t last = group_count();
  for (const SampleId sample : soon) {
    const uint64_t group = group_of(sample);
    if (group == last) continue;
    last = group;
    if (groups_.contains(group)) continue;
    if (preparing_.fetch_add(1) >= kAheadMax) {
      preparing_.fetch_sub(1);
      return;
    }
    pool_.submit([this, group] {
      struct Ended {
        std::atomic<size_t>& preparing;
        ~Ended() { preparing.fetch_sub(1); }  // even if there is an exception
      } ended{preparing_};
      // An error is not kept: whoever reads the row gets it.
      static_cast<void>(groups_.get(group).ok());
    });
  }
}

}  // namespace millrace::format
