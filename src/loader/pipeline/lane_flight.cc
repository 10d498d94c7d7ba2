// A lane with many reads in flight: rows begin while there is room, and land in any order.
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/system/clock.h"
#include "loader/pipeline/lane.h"
#include "loader/pipeline/lane_regions.h"

namespace millrace::loader::pipeline {
namespace {

// Minimum of the limit in flight, for a batch with few rows for many threads.
constexpr uint64_t kFlightMin = 4;

}  // namespace

bool Lane::open_flight() {
  if (flight_) return true;
  auto opened = Flight::open(*options_.source, options_.io_depth, is_verbatim_);
  if (opened.ok() && *opened) {
    flight_ = *std::move(opened);
    return true;
  }
  // Each thread needs its own ring, and the system may be out of them.
  options_.choice->refuse(opened.ok() ? "the source has no reads in flight"
                                      : opened.error().message());
  has_turn_ = false;
  return false;
}

void Lane::run_async(std::shared_ptr<BatchWork> work, WorkQueue& queue, uint32_t thread) {
  const data::Epoch epoch = work->scheduled().epoch;
  work_ = std::move(work);
  flight_limit_ = options_.io_depth;
  is_landing_ = false;
  try {
    for (begin_rows(queue, thread); flight_->count() > 0; begin_rows(queue, thread)) {
      Region region(lane_regions::fetch);
      if (landed_at_ == landed_.size()) wait_for_reads();
      lane_regions::place(region, flight_->row(landed_[landed_at_].tag).work->scheduled());
      // Decoding takes long: land one row at a time, so that others begin in between.
      do {
        on_read_done(landed_[landed_at_++], queue);
      } while (is_verbatim_ && landed_at_ < landed_.size());
    }
  } catch (const std::exception& exception) {
    fail_all(exception, queue);
  }
  work_.reset();
  measure_cpu();
  if (has_turn_ && is_turn_over()) goes_on(epoch);
}

void Lane::begin_rows(WorkQueue& queue, uint32_t thread) {
  while (flight_->has_place(flight_limit_)) {
    if (claimed_.is_empty() && !claim_rows(queue, thread)) return;
    begin_row(claimed_.begin++, queue);
  }
}

// False: begin no rows now. All reads of a measured turn must land before the turn ends.
bool Lane::claim_rows(WorkQueue& queue, uint32_t thread) {
  if (!is_landing_ && is_turn_over()) {
    is_landing_ = turn_.trial != 0 || !work_ || !goes_on(work_->scheduled().epoch);
  }
  if (is_landing_) return false;
  claimed_ = work_ ? work_->claim() : RowRange{};
  while (claimed_.is_empty()) {
    work_ = queue.try_take(thread);
    if (!work_) return false;
    claimed_ = work_->claim();
  }
  // No more than this thread's part of a batch. A thread with most rows of the first batch in
  // flight would decode them alone, while others have nothing to do.
  flight_limit_ = std::min<uint64_t>(options_.io_depth, std::max(kFlightMin, work_->fair_share()));
  return true;
}

void Lane::begin_row(uint64_t row, WorkQueue& queue) {
  if (work_->is_dropped()) {
    finish(*work_, 1, queue);
    return;
  }
  const data::SampleId sample = work_->sample(row);
  const size_t doing = flight_->next_place() + 1;
  const auto began = begin(doing, sample, /*is_decoding=*/false);
  try {
    work_->set_label(row, options_.source->label(sample).value_or(-1));
    flight_->begin({work_, row});
  } catch (const std::exception& exception) {
    end(doing);
    work_->add_bad(row, thrown(exception, sample));
    finish(*work_, 1, queue);
  }
  add(read_ns_, (monotonic_now() - began).count());
}

void Lane::wait_for_reads() {
  landed_.clear();
  landed_at_ = 0;
  const auto began = monotonic_now();
  Region region(lane_regions::read);
  flight_->wait(landed_);
  if (landed_.empty()) throw std::runtime_error("the source lost reads in flight");
  lane_regions::place(region, flight_->row(landed_.front().tag).work->scheduled());
  region.end();
  add(read_ns_, (monotonic_now() - began).count());
}

void Lane::on_read_done(const data::SampleDone& done, WorkQueue& queue) {
  const Flight::Row& row = flight_->row(done.tag);
  end(done.tag + 1);
  try {
    auto taken = take_landed(row, done.bytes);
    if (!taken.ok()) row.work->add_bad(row.row, std::move(taken).error());
  } catch (const std::exception& exception) {
    row.work->add_bad(row.row, thrown(exception, row.work->sample(row.row)));
  }
  end(0);
  finish(*row.work, 1, queue);
  flight_->release(done.tag);
}

Status Lane::take_landed(const Flight::Row& row, const Result<ByteView>& bytes) {
  const BatchWork& work = *row.work;
  count_read(bytes.ok() ? bytes->size() : 0);
  if (work.is_dropped()) return {};
  if (!bytes.ok()) return Error(bytes.error());
  const data::SampleId sample = work.sample(row.row);
  if (is_verbatim_) return check_length(sample, bytes->size(), work.place(0, row.row).size());
  return decode(work, row.row, *bytes, begin(0, sample, /*is_decoding=*/true));
}

// The source threw, which it must not do: its reads are lost, and their rows are bad.
void Lane::fail_all(const std::exception& exception, WorkQueue& queue) {
  for (const Flight::Row& row : flight_->abandon()) {
    row.work->add_bad(row.row, thrown(exception, row.work->sample(row.row)));
    finish(*row.work, 1, queue);
  }
  flight_.reset();
  landed_.clear();
  landed_at_ = 0;
  for (size_t place = 0; place < doing_.size(); ++place) end(place);
  const RowRange rows = std::exchange(claimed_, {});
  if (rows.is_empty()) return;
  fill_rows(*work_, rows);
  end(0);
  finish(*work_, rows.end - rows.begin, queue);
}

}  // namespace millrace::loader::pipeline
