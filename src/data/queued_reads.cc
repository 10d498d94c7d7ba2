#include "data/queued_reads.h"

#include <cassert>
#include <new>

namespace millrace::data {

ReadWays ways_of(const io::Engine& engine) {
  const io::EngineWays ways = engine.ways();
  return {.one_at_a_time = std::string(ways.one_at_a_time),
          .in_flight = std::string(ways.in_flight),
          .is_open_choice = ways.is_open_choice,
          .refusal = ways.refusal};
}

QueuedReads::QueuedReads(const SampleSource& source, std::unique_ptr<io::ReadQueue> queue)
    : source_(source), slots_(queue->capacity()), queue_(std::move(queue)) {
  for (size_t index = slots_.size(); index-- > 0;) free_.push_back(index);
}

void QueuedReads::submit(const SampleRequest& request) {
  assert(in_flight() < capacity());
  const size_t index = free_.back();
  free_.pop_back();
  slots_[index] = {.request = request, .place = {}};
  try {
    if (!queue_) {
      finish_at_once(index, read_alone(request));
    } else if (!begin(index).ok()) {
      abandon_queue();
    }
  } catch (const std::bad_alloc&) {
    free_.push_back(index);  // out of memory before the read was submitted
    throw;
  }
}

void QueuedReads::wait(std::vector<SampleDone>& done) {
  const size_t before = done.size();
  for (auto& [index, bytes] : std::exchange(at_once_, {})) finish(index, std::move(bytes), done);
  while (queue_ && done.size() == before && in_flight() > 0) {
    read_.clear();
    const Status waited = queue_->wait(read_);
    for (io::ReadDone& one : read_) {
      finish(one.tag, outcome(one.tag, std::move(one.bytes_read)), done);
    }
    if (!waited.ok()) {
      abandon_queue();
      for (auto& [index, bytes] : std::exchange(at_once_, {})) {
        finish(index, std::move(bytes), done);
      }
    }
  }
}

Result<ByteView> QueuedReads::read_alone(const SampleRequest& request) const {
  if (request.room != nullptr) return source_.read(request.sample, *request.room);
  ASSIGN_OR_RETURN(const size_t size_bytes, source_.read_into(request.sample, request.out));
  return ByteView(request.out).first(size_bytes);
}

void QueuedReads::finish(size_t index, Result<ByteView> bytes, std::vector<SampleDone>& done) {
  done.push_back({slots_[index].request.tag, std::move(bytes)});
  release(index);
  free_.push_back(index);
}

void QueuedReads::abandon_queue() {
  queue_.reset();  // waits, so it writes nothing afterwards
  std::vector<bool> is_done(slots_.size(), false);
  for (const size_t index : free_) is_done[index] = true;
  for (const auto& [index, bytes] : at_once_) is_done[index] = true;
  for (size_t index = 0; index < slots_.size(); ++index) {
    if (!is_done[index]) finish_at_once(index, read_alone(slots_[index].request));
  }
}

}  // namespace millrace::data
