// QueuedReads: reads of a source under way at once, through the queue of an engine.
//
// What sources have in common that read files: which requests are in flight, and what becomes of
// them. A queue that fails as a whole, and not for one of its reads, is given up: what was in
// flight is read one at a time, and so is all that follows. A job does not end for want of a ring.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "data/reads.h"
#include "data/source.h"
#include "io/engine.h"

namespace millrace::data {

// How a source reads that does so by `engine` alone.
ReadWays ways_of(const io::Engine& engine);

class QueuedReads : public SampleReads {
 public:
  size_t capacity() const final { return slots_.size(); }
  size_t in_flight() const final { return slots_.size() - free_.size(); }
  void submit(const SampleRequest& request) final;
  void wait(std::vector<SampleDone>& done) final;

 protected:
  // A derived class says how its samples are read. The source outlives this.
  QueuedReads(const SampleSource& source, std::unique_ptr<io::ReadQueue> queue);

  struct Slot {
    SampleRequest request;
    MutableByteView place;  // where the queue reads it to
  };

  // Hands the read of a slot to the queue, with its index as tag. Fails where the queue does; what
  // is known of the sample without it goes to finish_at_once().
  virtual Status begin(size_t index) = 0;
  // What a read that the queue has made means for the sample.
  virtual Result<ByteView> outcome(size_t index, Result<size_t> read) = 0;
  // The slot is free again.
  virtual void release(size_t index) { static_cast<void>(index); }

  Slot& slot(size_t index) { return slots_[index]; }
  io::ReadQueue& queue() { return *queue_; }
  void finish_at_once(size_t index, Result<ByteView> bytes) {
    at_once_.emplace_back(index, std::move(bytes));
  }
  Result<ByteView> read_alone(const SampleRequest& request) const;
  // Before what the queue reads into goes: for the destructor of a derived class.
  void close() { queue_.reset(); }

 private:
  void finish(size_t index, Result<ByteView> bytes, std::vector<SampleDone>& done);
  void give_up();

  const SampleSource& source_;
  std::vector<Slot> slots_;
  std::vector<size_t> free_;
  std::vector<std::pair<size_t, Result<ByteView>>> at_once_;  // done without the queue
  std::vector<io::ReadDone> read_;
  std::unique_ptr<io::ReadQueue> queue_;  // null: given up
};

}  // namespace millrace::data
