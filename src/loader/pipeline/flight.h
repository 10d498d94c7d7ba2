// Flight: the rows of a lane whose samples are under way at once.
//
// A row has a place here from begin() until release(): while its sample is read, and then until it
// is decoded. Samples that are taken as they are go straight into their row of the batch; others
// into rooms, one a place, that are used again. For one thread, which lets nothing in flight
// behind.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "data/buffer.h"
#include "data/source.h"
#include "loader/pipeline/batch_work.h"

namespace millrace::loader {

class Flight {
 public:
  // The most that the rooms of one lane take, unless a single sample is larger.
  static constexpr size_t kRoomBytesMax = size_t{64} << 20;

  struct Row {
    std::shared_ptr<BatchWork> work;  // shared with the queue and with other lanes
    uint64_t row = 0;
  };

  // Null where the source has no reads in flight. REQUIRES: the source outlives it; depth > 0
  static Result<std::unique_ptr<Flight>> open(const data::SampleSource& source, size_t depth,
                                              bool is_verbatim);

  size_t count() const { return rows_.size() - free_.size(); }
  // Whether one more may begin, where `limit` at most are wanted.
  bool has_place(size_t limit) const { return count() < limit && count() < places_allowed(); }

  // Where begin() puts the next row: an index below the depth. REQUIRES: has_place()
  size_t next_place() const { return free_.back(); }
  void begin(Row row);

  // Waits for some; the tag of each is its place.
  void wait(std::vector<data::SampleDone>& done) { reads_->wait(done); }
  size_t in_flight() const { return reads_->in_flight(); }

  const Row& row(size_t place) const { return rows_[place]; }
  void release(size_t place);

  // Ends the reads, whatever they are at, and takes out the rows that were not released.
  std::vector<Row> abandon();

 private:
  Flight(std::unique_ptr<data::SampleReads> reads, size_t depth, bool is_verbatim);

  size_t places_allowed() const;

  const bool is_verbatim_;
  std::vector<Row> rows_;            // by place
  std::vector<data::Buffer> rooms_;  // likewise
  std::vector<size_t> free_;         // the place that was released last is taken first
  size_t largest_room_bytes_ = 0;
  uint64_t released_count_ = 0;
  std::unique_ptr<data::SampleReads> reads_;  // last, so that it goes before what it reads into
};

}  // namespace millrace::loader
