#include "format/file_reads.h"

#include <algorithm>
#include <utility>

namespace millrace::format {

using data::Extent;

FileReads::FileReads(const FileSource& source, std::unique_ptr<io::ReadQueue> queue)
    : QueuedReads(source, std::move(queue)), source_(source), parts_(capacity()) {}

Status FileReads::begin(size_t index) {
  Slot& own = slot(index);
  const Extent extent = source_.dataset_.extent(own.request.sample);
  parts_[index].extent = extent;
  if (extent.size_bytes != Extent::kToTheEnd) return begin_part(index);
  own.place = own.request.out;
  if (data::Buffer* const room = own.request.room) {
    own.place = room->room(std::max({room->capacity_bytes(), kFirstRoomBytes, largest_bytes_}));
  }
  return queue().submit_whole({source_.dataset_.path(extent.file), own.place, index});
}

Status FileReads::begin_part(size_t index) {
  Slot& own = slot(index);
  const Extent& extent = parts_[index].extent;
  data::Buffer* const room = own.request.room;
  if (room == nullptr && extent.size_bytes > own.request.out.size()) {
    finish_at_once(index, source_.too_long(own.request.sample, own.request.out.size()));
    return {};
  }
  auto reader = source_.readers_.get(extent.file);
  if (!reader.ok()) {
    finish_at_once(index, source_.named(own.request.sample, reader.error()));
    return {};
  }
  const auto size_bytes = static_cast<size_t>(extent.size_bytes);
  own.place = room != nullptr ? room->room(size_bytes) : own.request.out.first(size_bytes);
  parts_[index].reader = *std::move(reader);
  return queue().submit({parts_[index].reader.get(), extent.offset_bytes, own.place, index});
}

Result<ByteView> FileReads::outcome(size_t index, Result<size_t> read) {
  const Slot& own = slot(index);
  const Extent& extent = parts_[index].extent;
  const data::SampleRequest& request = own.request;
  if (extent.size_bytes == Extent::kToTheEnd) {
    // The buffer was too small: read() enlarges it.
    if (!read.ok() && read.error().code() == Errc::kExhausted && request.room != nullptr) {
      auto bytes = read_alone(request);
      if (bytes.ok()) largest_bytes_ = std::max(largest_bytes_, bytes->size());
      return bytes;
    }
    if (!read.ok()) return source_.changed_if_gone(std::move(read).error());
    return ByteView(own.place).first(*read);
  }
  if (!read.ok()) return source_.named(request.sample, std::move(read).error());
  if (*read < own.place.size()) {
    return source_.named(request.sample, source_.ends_early(extent, *read));
  }
  const Status checked = source_.check(request.sample, own.place);
  if (!checked.ok()) return source_.named(request.sample, checked.error());
  return ByteView(own.place);
}

}  // namespace millrace::format
