#include "format/hdf5/source.h"

#include <algorithm>

#include "base/text/text.h"
#include "format/file_stamp.h"

namespace millrace::format {
namespace {

using data::SampleId;
using Kind = Hdf5Dataset::Kind;

constexpr std::string_view kChanged =
    "; it has changed since the dataset was opened: open it again";

// Unlike any other source's, also of those that are gone: threads keep chunks longer.
uint64_t next_number() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

Result<data::FileStamp> stamp_of(io::Engine& engine, const std::string& path) {
  // Before the bytes are read, so that a concurrent write is noticed later.
  const int64_t modified = modified_ns(path);
  ASSIGN_OR_RETURN(const auto reader, engine.open(path));
  ASSIGN_OR_RETURN(const uint64_t size, reader->size_bytes().within(path));
  return data::FileStamp{.size_bytes = size, .modified_ns = modified};
}

// Keeps the datasets that have as many rows as the largest one. Statistics and the like have
// others, and belong to the file.
void keep_rows_of_largest(std::vector<Hdf5Dataset>& datasets) {
  std::erase_if(datasets, [](const Hdf5Dataset& dataset) { return dataset.lengths.empty(); });
  const auto largest = std::max_element(
      datasets.begin(), datasets.end(),
      [](const Hdf5Dataset& a, const Hdf5Dataset& b) { return a.size_bytes() < b.size_bytes(); });
  if (largest == datasets.end()) return;
  const uint64_t rows = largest->row_count();
  std::erase_if(datasets, [&](const Hdf5Dataset& each) { return each.row_count() != rows; });
}

Status check_same_rows(const std::vector<Hdf5Dataset>& datasets) {
  for (const Hdf5Dataset& each : datasets) {
    if (!each.lengths.empty() && each.row_count() == datasets[0].row_count()) continue;
    return fail(Errc::kInvalidArgument,
                "dataset '{}' has {} rows, but '{}' has {}: they cannot be fields of one sample",
                printable(each.name), each.lengths.empty() ? 0 : each.row_count(),
                printable(datasets[0].name), datasets[0].row_count());
  }
  return {};
}

Result<data::Shape> field_shape(const Hdf5Dataset& dataset, bool is_whole) {
  const size_t first = is_whole ? 0 : 1;
  return data::Shape::make(std::span(dataset.lengths).subspan(first));
}

Status choose_datasets(Hdf5Layout& layout, const FormatOptions::Hdf5& options) {
  if (!options.datasets.empty() && !layout.ignored.empty()) {
    return fail(Errc::kUnsupported, "dataset {} cannot be read", layout.ignored[0]);
  }
  if (!options.whole_files && !options.datasets.empty()) {
    return check_same_rows(layout.datasets);
  }
  if (!options.whole_files) keep_rows_of_largest(layout.datasets);
  if (!layout.datasets.empty()) return {};
  return fail(Errc::kInvalidArgument, "has no dataset of numbers with rows{}{}",
              layout.ignored.empty() ? "" : "; not read: ", join(layout.ignored, ", "));
}

Result<Hdf5Source::File> describe_file(Hdf5Layout layout, const data::FileStamp& stamp,
                                       const FormatOptions::Hdf5& options) {
  RETURN_IF_ERROR(choose_datasets(layout, options));
  Hdf5Source::File file;
  file.stamp = stamp;
  std::vector<PackedField> fields;
  for (size_t i = 0; i < layout.datasets.size(); ++i) {
    const Hdf5Dataset& dataset = layout.datasets[i];
    const std::string what = fmt::format("dataset '{}'", printable(dataset.name));
    RETURN_IF_ERROR(check_within_file(dataset, stamp.size_bytes).within(what));
    ASSIGN_OR_RETURN(const data::Shape shape,
                     field_shape(dataset, options.whole_files).within(what));
    fields.push_back({dataset.name, dataset.type, shape});
    const uint64_t bytes = shape.element_count() * data::element_bytes(dataset.type);
    const PackedField& largest = fields[file.largest];
    if (bytes > largest.shape.element_count() * data::element_bytes(largest.type)) {
      file.largest = i;
    }
  }
  file.packer = FieldsPacker(fields);
  file.sample_count = options.whole_files ? 1 : layout.datasets[0].row_count();
  file.datasets = std::move(layout.datasets);
  return file;
}

Result<Hdf5Source::File> open_file(io::Engine& engine, const std::string& path,
                                   const FormatOptions::Hdf5& options) {
  ASSIGN_OR_RETURN(const Hdf5Library* const library, hdf5_library());
  ASSIGN_OR_RETURN(const data::FileStamp stamp, stamp_of(engine, path));
  ASSIGN_OR_RETURN(Hdf5Layout layout, library->read_layout(path, options.datasets).within(path));
  return describe_file(std::move(layout), stamp, options).within(path);
}

}  // namespace

Hdf5Source::Hdf5Source(std::shared_ptr<io::Engine> engine, std::vector<std::string> paths,
                       FormatOptions::Hdf5 options)
    : number_(next_number()),
      engine_(std::move(engine)),
      paths_(std::move(paths)),
      options_(std::move(options)),
      files_(paths_.size()),
      readers_(paths_.size(), ReaderTable::capacity_for(0),
               [this](data::FileIndex file) { return open_reader(index_of(file)); }) {}

Result<std::shared_ptr<Hdf5Source>> Hdf5Source::open(std::shared_ptr<io::Engine> engine,
                                                     const std::vector<std::string>& paths,
                                                     const FormatOptions::Hdf5& options) {
  RETURN_IF_ERROR(hdf5_library());
  std::shared_ptr<Hdf5Source> source(new Hdf5Source(std::move(engine), paths, options));
  source->first_samples_.push_back(0);
  bool all_direct = !options.whole_files;
  for (uint64_t i = 0; i < paths.size(); ++i) {
    uint64_t count = 1;
    if (!options.whole_files) {
      ASSIGN_OR_RETURN(const File* const file, source->file_at(i));
      count = file->sample_count;
      all_direct = all_direct &&
                   (count == 0 || direct_offset(file->datasets[file->largest], {0, 1}).has_value());
    }
    source->first_samples_.push_back(source->first_samples_.back() + count);
  }
  source->has_direct_reads_ = all_direct;
  return source;
}

uint64_t Hdf5Source::file_of(SampleId sample) const {
  const auto after =
      std::upper_bound(first_samples_.begin(), first_samples_.end(), index_of(sample));
  return static_cast<uint64_t>(after - first_samples_.begin()) - 1;
}

std::string Hdf5Source::name(SampleId sample) const {
  const uint64_t file = file_of(sample);
  if (options_.whole_files) return paths_[file];
  return fmt::format("{}: row {}", paths_[file], index_of(sample) - first_samples_[file]);
}

Result<const Hdf5Source::File*> Hdf5Source::file_at(uint64_t index) const {
  if (const File* file = files_[index].load(std::memory_order_acquire)) return file;
  ASSIGN_OR_RETURN(File opened, open_file(*engine_, paths_[index], options_));
  auto owned = std::make_unique<const File>(std::move(opened));
  const MutexLock lock(mutex_);
  if (const File* file = files_[index].load(std::memory_order_relaxed)) {
    return file;  // another thread was first
  }
  const File* const file = owned.get();
  opened_.push_back(std::move(owned));
  files_[index].store(file, std::memory_order_release);
  return file;
}

Result<std::unique_ptr<io::Reader>> Hdf5Source::open_reader(uint64_t index) const {
  const std::string& path = paths_[index];
  auto reader = engine_->open(path);
  if (!reader.ok() && reader.error().code() == Errc::kNotFound) {
    return fail(Errc::kNotFound, "{}{}", reader.error().message(), kChanged);
  }
  if (!reader.ok()) return reader;
  const data::FileStamp then = files_[index].load(std::memory_order_acquire)->stamp;
  ASSIGN_OR_RETURN(const uint64_t size, (*reader)->size_bytes().within(path));
  if (size != then.size_bytes) {
    return fail(Errc::kIo, "{}: has {} bytes now, but had {}{}", path, size, then.size_bytes,
                kChanged);
  }
  const int64_t modified = modified_ns(path);
  if (modified != 0 && then.modified_ns != 0 && modified != then.modified_ns) {
    return fail(Errc::kIo, "{}: was written to or replaced{}", path, kChanged);
  }
  return reader;
}

Result<Hdf5Source::Spot> Hdf5Source::spot_of(SampleId sample) const {
  Spot spot;
  spot.index = file_of(sample);
  ASSIGN_OR_RETURN(spot.file, file_at(spot.index));
  ASSIGN_OR_RETURN(spot.reader, readers_.get(data::FileIndex{static_cast<uint32_t>(spot.index)}));
  spot.row = index_of(sample) - first_samples_[spot.index];
  return spot;
}

Hdf5Rows Hdf5Source::rows_of(const Hdf5Dataset& dataset, uint64_t row) const {
  if (options_.whole_files) return {0, dataset.row_count()};
  return {row, 1};
}

Status Hdf5Source::read_field(const Spot& spot, size_t field, MutableByteView sample) const {
  const Hdf5Dataset& dataset = spot.file->datasets[field];
  const Hdf5Place place{&paths_[spot.index],
                        spot.reader.get(),
                        {.source = number_, .file = spot.index, .dataset = field}};
  Status read =
      read_rows(dataset, place, rows_of(dataset, spot.row), spot.file->packer.field(sample, field));
  // The name is made only if there is an error.
  if (read.ok()) return read;
  return std::move(read).within(fmt::format("dataset '{}'", printable(dataset.name)));
}

Status Hdf5Source::read_all(const Spot& spot, MutableByteView sample) const {
  spot.file->packer.write_head(sample);
  for (size_t field = 0; field < spot.file->datasets.size(); ++field) {
    RETURN_IF_ERROR(read_field(spot, field, sample));
  }
  return {};
}

// Errors of opening a file have the path already.
Error Hdf5Source::named(SampleId sample, Error error) const {
  if (error.message().starts_with(paths_[file_of(sample)])) return error;
  return std::move(error).within(name(sample));
}

Error Hdf5Source::too_long(SampleId sample, const File& file, size_t room_bytes) const {
  return fail(Errc::kExhausted, "{}: has {} bytes, but there is room for {}", name(sample),
              file.packer.size_bytes(), room_bytes);
}

Result<ByteView> Hdf5Source::read(SampleId sample, data::Buffer& room) const {
  const auto spot = spot_of(sample);
  if (!spot.ok()) return named(sample, spot.error());
  const MutableByteView place = room.room(spot->file->packer.size_bytes());
  const Status read = read_all(*spot, place);
  if (!read.ok()) return named(sample, read.error());
  return ByteView(place);
}

Result<size_t> Hdf5Source::read_into(SampleId sample, MutableByteView out) const {
  const auto spot = spot_of(sample);
  if (!spot.ok()) return named(sample, spot.error());
  const size_t size_bytes = spot->file->packer.size_bytes();
  if (size_bytes > out.size()) return too_long(sample, *spot->file, out.size());
  const Status read = read_all(*spot, out.first(size_bytes));
  if (!read.ok()) return named(sample, read.error());
  return size_bytes;
}

// Rows that must be decoded keep the CPUs busy: threads do that better than one queue.
data::ReadWays Hdf5Source::ways() const {
  if (has_direct_reads_) return data::ways_of(*engine_);
  return {.one_at_a_time = std::string(engine_->ways().one_at_a_time)};
}

Result<std::unique_ptr<data::SampleReads>> Hdf5Source::open_reads(size_t capacity) const {
  if (ways().in_flight.empty()) return std::unique_ptr<data::SampleReads>();
  ASSIGN_OR_RETURN(auto queue, engine_->open_queue(capacity));
  return std::unique_ptr<data::SampleReads>(std::make_unique<Hdf5Reads>(*this, std::move(queue)));
}

// ---- reads in flight ----

Hdf5Reads::Hdf5Reads(const Hdf5Source& source, std::unique_ptr<io::ReadQueue> queue)
    : QueuedReads(source, std::move(queue)),
      source_(source),
      spots_(capacity()),
      samples_(capacity()) {}

Status Hdf5Reads::begin(size_t index) {
  Slot& own = slot(index);
  auto spot = source_.spot_of(own.request.sample);
  const Hdf5Source::File* const file = spot.ok() ? spot->file : nullptr;
  const auto offset =
      file == nullptr ? std::nullopt
                      : direct_offset(file->datasets[file->largest],
                                      source_.rows_of(file->datasets[file->largest], spot->row));
  const size_t size_bytes = file == nullptr ? 0 : file->packer.size_bytes();
  data::Buffer* const room = own.request.room;
  // Errors, and rows that are not a run of bytes, need no queue.
  if (!offset || (room == nullptr && size_bytes > own.request.out.size())) {
    finish_at_once(index, read_alone(own.request));
    return {};
  }
  samples_[index] = room != nullptr ? room->room(size_bytes) : own.request.out.first(size_bytes);
  own.place = file->packer.field(samples_[index], file->largest);
  spots_[index] = *std::move(spot);
  return queue().submit({spots_[index].reader.get(), *offset, own.place, index});
}

Result<ByteView> Hdf5Reads::outcome(size_t index, Result<size_t> read) {
  const Slot& own = slot(index);
  const Hdf5Source::Spot& spot = spots_[index];
  const SampleId sample = own.request.sample;
  // read() says what is wrong.
  if (!read.ok() || *read < own.place.size()) return read_alone(own.request);
  spot.file->packer.write_head(samples_[index]);
  for (size_t field = 0; field < spot.file->datasets.size(); ++field) {
    if (field == spot.file->largest) continue;
    const Status rest = source_.read_field(spot, field, samples_[index]);
    if (!rest.ok()) return source_.named(sample, rest.error());
  }
  return ByteView(samples_[index]);
}

}  // namespace millrace::format
