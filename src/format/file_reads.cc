#include "format/file_reads.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

namespace millrace::format {

using data::Extent;
using data::SampleDone;
using data::SampleRequest;

FileReads::FileReads(const FileSource& source, std::unique_ptr<io::ReadQueue> queue)
    : source_(source), slots_(queue->capacity()), queue_(std::move(queue)) {
  for (size_t index = slots_.size(); index-- > 0;) free_.push_back(index);
}

void FileReads::submit(const SampleRequest& request) {
  assert(in_flight() < capacity());
  const size_t index = free_.back();
  free_.pop_back();
  slots_[index] = {.request = request, .extent = source_.dataset_.extent(request.sample)};
  try {
    if (!queue_) {
      at_once_.emplace_back(index, read_alone(request));
    } else if (!begin(index).ok()) {
      give_up();
    }
  } catch (const std::bad_alloc&) {
    free_.push_back(index);  // there was no room for it, and nothing has begun
    throw;
  }
}

// Fails where the queue does; what is wrong with the sample is kept for wait().
Status FileReads::begin(size_t index) {
  Slot& slot = slots_[index];
  if (slot.extent.size_bytes != Extent::kToTheEnd) return begin_part(index);
  slot.place = slot.request.out;
  if (data::Buffer* const room = slot.request.room) {
    slot.place = room->room(std::max({room->capacity_bytes(), kFirstRoomBytes, largest_bytes_}));
  }
  return queue_->submit_whole({source_.dataset_.path(slot.extent.file), slot.place, index});
}

Status FileReads::begin_part(size_t index) {
  Slot& slot = slots_[index];
  const Extent& extent = slot.extent;
  data::Buffer* const room = slot.request.room;
  if (room == nullptr && extent.size_bytes > slot.request.out.size()) {
    at_once_.emplace_back(index, source_.too_long(slot.request.sample, slot.request.out.size()));
    return {};
  }
  auto reader = source_.readers_.get(extent.file);
  if (!reader.ok()) {
    at_once_.emplace_back(index, source_.named(slot.request.sample, reader.error()));
    return {};
  }
  const auto size_bytes = static_cast<size_t>(extent.size_bytes);
  slot.place = room != nullptr ? room->room(size_bytes) : slot.request.out.first(size_bytes);
  slot.reader = *std::move(reader);
  return queue_->submit({slot.reader.get(), extent.offset_bytes, slot.place, index});
}

void FileReads::wait(std::vector<SampleDone>& done) {
  const size_t before = done.size();
  for (auto& [index, bytes] : std::exchange(at_once_, {})) finish(index, std::move(bytes), done);
  while (queue_ && done.size() == before && in_flight() > 0) {
    read_.clear();
    const Status waited = queue_->wait(read_);
    for (io::ReadDone& one : read_) {
      finish(one.tag, outcome(slots_[one.tag], std::move(one.bytes_read)), done);
    }
    if (!waited.ok()) {
      give_up();
      for (auto& [index, bytes] : std::exchange(at_once_, {})) {
        finish(index, std::move(bytes), done);
      }
    }
  }
}

Result<ByteView> FileReads::outcome(const Slot& slot, Result<size_t> read) {
  const SampleRequest& request = slot.request;
  if (slot.extent.size_bytes == Extent::kToTheEnd) {
    // The room was guessed too small: read() makes it grow.
    if (!read.ok() && read.error().code() == Errc::kExhausted && request.room != nullptr) {
      auto bytes = read_alone(request);
      if (bytes.ok()) largest_bytes_ = std::max(largest_bytes_, bytes->size());
      return bytes;
    }
    if (!read.ok()) return source_.changed_where_gone(std::move(read).error());
    return ByteView(slot.place).first(*read);
  }
  if (!read.ok()) return source_.named(request.sample, std::move(read).error());
  if (*read < slot.place.size()) {
    return source_.named(request.sample, source_.ends_early(slot.extent, *read));
  }
  const Status checked = source_.check(request.sample, slot.place);
  if (!checked.ok()) return source_.named(request.sample, checked.error());
  return ByteView(slot.place);
}

Result<ByteView> FileReads::read_alone(const SampleRequest& request) const {
  if (request.room != nullptr) return source_.read(request.sample, *request.room);
  ASSIGN_OR_RETURN(const size_t size_bytes, source_.read_into(request.sample, request.out));
  return ByteView(request.out).first(size_bytes);
}

void FileReads::finish(size_t index, Result<ByteView> bytes, std::vector<SampleDone>& done) {
  done.push_back({slots_[index].request.tag, std::move(bytes)});
  slots_[index].reader.reset();
  free_.push_back(index);
}

void FileReads::give_up() {
  queue_.reset();  // waits: nothing is written by it any more
  std::vector<bool> is_done(slots_.size(), false);
  for (const size_t index : free_) is_done[index] = true;
  for (const auto& [index, bytes] : at_once_) is_done[index] = true;
  for (size_t index = 0; index < slots_.size(); ++index) {
    if (!is_done[index]) at_once_.emplace_back(index, read_alone(slots_[index].request));
  }
}

}  // namespace millrace::format
