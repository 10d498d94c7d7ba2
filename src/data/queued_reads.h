// QueuedReads: reads of a source that are in flight in the queue of an engine.
//
// The part that all sources of files share: it tracks the requests in flight and their results. If
// the queue itself fails, and not just one read, QueuedReads abandons it. It then reads what was in
// flight, and everything later, one at a time. A job must not fail because a ring does.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "data/reads.h"
#include "data/source.h"
#include "io/engine.h"

namespace millrace::data {

// The ways of a source that reads only through `engine`.
ReadWays ways_of(const io::Engine& engine);

class QueuedReads : public SampleReads {
 public:
  size_t capacity() const final { return slots_.size(); }
  size_t in_flight() const final { return slots_.size() - free_.size(); }
  void submit(const SampleRequest& request) final;
  void wait(std::vector<SampleDone>& done) final;

 protected:
  // A derived class defines how samples are read. The source must outlive this.
  QueuedReads(const SampleSource& source, std::unique_ptr<io::ReadQueue> queue);

  struct Slot {
    SampleRequest request;
    MutableByteView place;  // where the queue writes the bytes
  };

  // Submits the read of a slot to the queue, with its index as tag. Fails only if the queue fails;
  // a result that needs no read goes to finish_at_once().
  virtual Status begin(size_t index) = 0;
  // The result for the sample once the queue has completed its read.
  virtual Result<ByteView> outcome(size_t index, Result<size_t> read) = 0;
  // Called when the slot is free again.
  virtual void release(size_t index) { static_cast<void>(index); }

  Slot& slot(size_t index) { return slots_[index]; }
  io::ReadQueue& queue() { return *queue_; }
  void finish_at_once(size_t index, Result<ByteView> bytes) {
    at_once_.emplace_back(index, std::move(bytes));
  }
  Result<ByteView> read_alone(const SampleRequest& request) const;
  // A derived class calls this in its destructor, before it frees memory that the queue writes to.
  void close() { queue_.reset(); }

 private:
  void finish(size_t index, Result<ByteView> bytes, std::vector<SampleDone>& done);
  void abandon_queue();

  const SampleSource& source_;
  std::vector<Slot> slots_;
  std::vector<size_t> free_;
  std::vector<std::pair<size_t, Result<ByteView>>> at_once_;  // done without the queue
  std::vector<io::ReadDone> read_;
  std::unique_ptr<io::ReadQueue> queue_;  // null: abandoned
};

}  // namespace millrace::data
