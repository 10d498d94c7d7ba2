#include "loader/pipeline/flight.h"

#include <algorithm>
#include <utility>

namespace millrace::loader::pipeline {

Result<std::unique_ptr<Flight>> Flight::open(const data::SampleSource& source, size_t depth,
                                             bool is_verbatim) {
  ASSIGN_OR_RETURN(auto reads, source.open_reads(depth));
  if (!reads) return std::unique_ptr<Flight>();
  return std::unique_ptr<Flight>(new Flight(std::move(reads), depth, is_verbatim));
}

Flight::Flight(std::unique_ptr<data::SampleReads> reads, size_t depth, bool is_verbatim)
    : is_verbatim_(is_verbatim),
      rows_(std::min(depth, reads->capacity())),
      rooms_(is_verbatim ? 0 : rows_.size()),
      reads_(std::move(reads)) {
  for (size_t place = rows_.size(); place-- > 0;) free_.push_back(place);
}

// The size of samples is known only after some have been read. So allow at most twice as many
// places as were released before: the first samples of a gigabyte each must not fill the memory.
size_t Flight::places_allowed() const {
  if (is_verbatim_) return rows_.size();
  const size_t that_fit = kRoomBytesMax / std::max<size_t>(largest_room_bytes_, 1);
  return std::clamp<size_t>(2 * released_count_, 1, std::max<size_t>(that_fit, 1));
}

void Flight::begin(Row row) {
  const size_t place = free_.back();
  const data::SampleId sample = row.work->sample(row.row);
  data::SampleRequest request{.sample = sample, .tag = place};
  if (is_verbatim_) {
    request.out = row.work->place(0, row.row);
  } else {
    request.room = &rooms_[place];
  }
  reads_->submit(request);
  free_.pop_back();
  rows_[place] = std::move(row);
}

void Flight::release(size_t place) {
  rows_[place].work.reset();
  free_.push_back(place);
  ++released_count_;
  if (!is_verbatim_) {
    largest_room_bytes_ = std::max(largest_room_bytes_, rooms_[place].capacity_bytes());
  }
}

std::vector<Flight::Row> Flight::abandon() {
  reads_.reset();
  std::vector<Row> rows;
  for (Row& row : rows_) {
    if (row.work) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace millrace::loader::pipeline
