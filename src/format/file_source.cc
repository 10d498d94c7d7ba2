#include "format/file_source.h"

#include <algorithm>

#include "base/hash/crc32c.h"
#include "format/file_reads.h"
#include "format/file_stamp.h"

namespace millrace::format {
namespace {

using data::Extent;
using data::FileIndex;
using data::SampleId;

// A file that outgrows its buffer this often is still being written.
constexpr int kGrowthsMax = 4;

constexpr std::string_view kChanged =
    "; it has changed since the dataset was opened: open it again";

}  // namespace

FileSource::FileSource(data::Dataset dataset, std::shared_ptr<io::Engine> engine,
                       std::shared_ptr<const Format> format, size_t open_files_max)
    : dataset_(std::move(dataset)),
      engine_(std::move(engine)),
      format_(std::move(format)),
      readers_(dataset_.file_count(), ReaderTable::capacity_for(open_files_max),
               [this](FileIndex file) { return open(file); }) {}

FileSource::~FileSource() {
  engine_->expect({});  // it may call a function that uses dataset_, even if it wants no order now
}

void FileSource::expect(const data::ComingOrder& order) const {
  if (!wants_order()) return;
  engine_->expect([this, next = order()]() -> std::optional<std::string> {
    const auto sample = next();
    return sample ? std::optional(dataset_.path(dataset_.file_of(*sample))) : std::nullopt;
  });
}

void FileSource::finished(std::span<const SampleId> read) const { engine_->finished(read.size()); }

Result<std::unique_ptr<io::Reader>> FileSource::open(FileIndex file) const {
  const std::string path = dataset_.path(file);
  auto reader = engine_->open(path);
  if (!reader.ok()) return changed_if_gone(std::move(reader).error());
  const data::FileStamp then = dataset_.stamp(file);
  if (then == data::FileStamp{}) return reader;
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

Result<ByteView> FileSource::read_file(FileIndex file, data::Buffer& room) const {
  const std::string name = dataset_.path(file);
  if (const auto view = engine_->view_whole(name)) return *view;
  const std::filesystem::path path = name;
  MutableByteView place = room.room(std::max(room.capacity_bytes(), kFirstRoomBytes));
  for (int growths = 0;; ++growths) {
    const auto size = engine_->read_whole(path, place);
    if (size.ok()) return ByteView(place).first(*size);
    if (size.error().code() != Errc::kExhausted || growths == kGrowthsMax) {
      return changed_if_gone(size.error());
    }
    ASSIGN_OR_RETURN(const auto reader, engine_->open(path));
    ASSIGN_OR_RETURN(const uint64_t wanted, reader->size_bytes().within(path.string()));
    // The buffer was large enough: descriptors or memory have run out.
    if (wanted <= place.size()) return size.error();
    place = room.room(static_cast<size_t>(wanted));
  }
}

Result<size_t> FileSource::read_part(const Extent& extent, MutableByteView out) const {
  ASSIGN_OR_RETURN(const auto reader, readers_.get(extent.file));
  ASSIGN_OR_RETURN(const size_t size, reader->read_at(extent.offset_bytes, out));
  if (size < out.size()) return ends_early(extent, size);
  return size;
}

Result<ByteView> FileSource::view_or_read(const Extent& extent, data::Buffer& room) const {
  // A view is valid only as long as its reader, so use views only if readers stay open.
  if (readers_.keeps_all()) {
    ASSIGN_OR_RETURN(const auto reader, readers_.get(extent.file));
    if (const auto view = reader->view(extent.offset_bytes, extent.size_bytes)) return *view;
  }
  const MutableByteView place = room.room(static_cast<size_t>(extent.size_bytes));
  RETURN_IF_ERROR(read_part(extent, place));
  return ByteView(place);
}

Status FileSource::check(SampleId sample, ByteView bytes) const {
  const auto wanted = dataset_.checksum(sample);
  if (!wanted) return {};
  const uint32_t found = crc32c(bytes);
  if (found == *wanted) return {};
  return fail(Errc::kCorrupt,
              "its {} bytes have the checksum {:08x}, but the index says {:08x}: the file is "
              "damaged or not the one that was indexed",
              bytes.size(), found, *wanted);
}

// Makes the name only if there is an error, unlike within(name()). Errors of opening a file have
// the path already, and do not concern the sample.
Error FileSource::named(SampleId sample, Error error) const {
  if (error.message().starts_with(dataset_.path(dataset_.file_of(sample)))) return error;
  return std::move(error).within(name(sample));
}

Error FileSource::too_long(SampleId sample, size_t room_bytes) const {
  return fail(Errc::kExhausted, "{}: has {} bytes, but there is room for {}", name(sample),
              dataset_.extent(sample).size_bytes, room_bytes);
}

Error FileSource::ends_early(const Extent& extent, size_t read_bytes) {
  return fail(Errc::kIo, "the file ends at byte {}, {} bytes before the sample does{}",
              extent.offset_bytes + read_bytes, extent.size_bytes - read_bytes, kChanged);
}

Error FileSource::changed_if_gone(Error error) {
  if (error.code() != Errc::kNotFound) return error;
  return {error.code(), fmt::format("{}{}", error.message(), kChanged)};
}

data::ReadWays FileSource::ways() const { return data::ways_of(*engine_); }

Result<std::unique_ptr<data::SampleReads>> FileSource::open_reads(size_t capacity) const {
  if (engine_->ways().in_flight.empty()) return std::unique_ptr<data::SampleReads>();
  ASSIGN_OR_RETURN(auto queue, engine_->open_queue(capacity));
  return std::unique_ptr<data::SampleReads>(std::make_unique<FileReads>(*this, std::move(queue)));
}

Result<ByteView> FileSource::read(SampleId sample, data::Buffer& room) const {
  const Extent extent = dataset_.extent(sample);
  // The engine's errors begin with the path, which is the sample's name.
  if (extent.size_bytes == Extent::kToTheEnd) return read_file(extent.file, room);
  const auto bytes = view_or_read(extent, room);
  if (!bytes.ok()) return named(sample, bytes.error());
  const Status checked = check(sample, *bytes);
  if (!checked.ok()) return named(sample, checked.error());
  return *bytes;
}

Result<size_t> FileSource::read_into(SampleId sample, MutableByteView out) const {
  const Extent extent = dataset_.extent(sample);
  if (extent.size_bytes == Extent::kToTheEnd) {
    auto size = engine_->read_whole(dataset_.path(extent.file), out);
    if (!size.ok()) return changed_if_gone(std::move(size).error());
    return size;
  }
  if (extent.size_bytes > out.size()) return too_long(sample, out.size());
  const MutableByteView place = out.first(static_cast<size_t>(extent.size_bytes));
  const auto size = read_part(extent, place);
  if (!size.ok()) return named(sample, size.error());
  const Status checked = check(sample, place);
  if (!checked.ok()) return named(sample, checked.error());
  return size;
}

}  // namespace millrace::format
