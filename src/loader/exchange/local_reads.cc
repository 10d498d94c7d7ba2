#include "loader/exchange/local_reads.h"

#include <utility>

namespace millrace::loader {

LocalReads::LocalReads(const LocalSource& source, std::shared_ptr<const io::Reader> samples,
                       std::unique_ptr<io::ReadQueue> queue)
    : QueuedReads(source, std::move(queue)),
      source_(source),
      samples_(std::move(samples)),
      entries_(capacity()) {}

Status LocalReads::begin(size_t index) {
  Slot& own = slot(index);
  data::Buffer* const room = own.request.room;
  const auto entry = source_.storage_->entry_of(own.request.sample);
  const bool fits = entry.ok() && source_.epoch_now().ok() &&
                    (room != nullptr || entry->size_bytes <= own.request.out.size());
  if (!fits) {
    finish_at_once(index, read_alone(own.request));
    return {};
  }
  entries_[index] = *entry;
  const auto size_bytes = static_cast<size_t>(entry->size_bytes);
  own.place = room != nullptr ? room->room(size_bytes) : own.request.out.first(size_bytes);
  return queue().submit({samples_.get(), entry->offset_bytes, own.place, index});
}

Result<ByteView> LocalReads::outcome(size_t index, Result<size_t> read) {
  const Slot& own = slot(index);
  const bool is_good = read.ok() && *read == own.place.size() &&
                       source_.storage_->check(entries_[index], own.place).ok();
  return is_good ? Result<ByteView>(own.place) : read_alone(own.request);
}

}  // namespace millrace::loader
