// Flight: the rows of a lane whose samples are in flight.
//
// A row has a place here from begin() until release(): while its sample is read, and then until it
// is decoded. Verbatim samples go straight into their row of the batch. Others go into reusable
// rooms, one per place. Single-threaded. Drain it before destruction.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "data/buffer.h"
#include "data/source.h"
#include "loader/pipeline/batch_work.h"

namespace millrace::loader::pipeline {

class Flight {
 public:
  // Limit for the rooms of one lane, unless a single sample is larger.
  static constexpr size_t kRoomBytesMax = size_t{64} << 20;

  struct Row {
    std::shared_ptr<BatchWork> work;  // shared with the queue and with other lanes
    uint64_t row = 0;
  };

  // Null if the source has no reads in flight. REQUIRES: the source outlives this; depth > 0
  static Result<std::unique_ptr<Flight>> open(const data::SampleSource& source, size_t depth,
                                              bool is_verbatim);

  size_t count() const { return rows_.size() - free_.size(); }
  // Whether another row may begin, if at most `limit` are wanted.
  bool has_place(size_t limit) const { return count() < limit && count() < places_allowed(); }

  // Where begin() puts the next row: an index below the depth. REQUIRES: has_place()
  size_t next_place() const { return free_.back(); }
  void begin(Row row);

  // Waits for some reads. The tag of each is its place.
  void wait(std::vector<data::SampleDone>& done) { reads_->wait(done); }
  size_t in_flight() const { return reads_->in_flight(); }

  const Row& row(size_t place) const { return rows_[place]; }
  void release(size_t place);

  // Ends the reads in any state, and removes and returns the rows that were not released.
  std::vector<Row> abandon();

 private:
  Flight(std::unique_ptr<data::SampleReads> reads, size_t depth, bool is_verbatim);

  size_t places_allowed() const;

  const bool is_verbatim_;
  std::vector<Row> rows_;            // by place
  std::vector<data::Buffer> rooms_;  // by place
  std::vector<size_t> free_;         // places; the one released last is taken first
  size_t largest_room_bytes_ = 0;
  uint64_t released_count_ = 0;
  std::unique_ptr<data::SampleReads> reads_;  // last: destroyed before the rooms it writes to
};

}  // namespace millrace::loader::pipeline
