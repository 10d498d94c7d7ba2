#include "loader/pipeline/lane.h"

#include <millrace/trace.h>
#include <time.h>

#include <new>
#include <utility>

#include "base/system/clock.h"
#include "loader/pipeline/lane_regions.h"

namespace millrace::loader::pipeline {
namespace {

std::chrono::nanoseconds thread_cpu_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

std::chrono::nanoseconds loaded(const std::atomic<int64_t>& counter_ns) {
  return std::chrono::nanoseconds(counter_ns.load(std::memory_order_relaxed));
}

}  // namespace

LaneCounts& LaneCounts::operator+=(const LaneCounts& other) {
  bytes_read += other.bytes_read;
  read += other.read;
  decode += other.decode;
  cpu += other.cpu;
  return *this;
}

Lane::Lane(const LaneOptions& options)
    : options_(options),
      is_verbatim_(options.decoder->is_verbatim()),
      field_count_(options.decoder->fields().size()),
      scratch_(options.decoder->make_scratch()),
      outputs_(field_count_),
      doing_(1 + options.io_depth) {
  options_.choice->add_thread();
}

void Lane::run(WorkQueue& queue, uint32_t thread) {
  while (auto work = queue.take(thread)) {
    if (!has_turn_) begin_turn(work->scheduled().epoch);
    if (turn_.way == ReadWay::kInFlight && open_flight()) {
      run_async(std::move(work), queue, thread);
    } else {
      fill(*work, queue);
    }
  }
  flight_.reset();  // on the thread that used it
}

// ---- one at a time ----

void Lane::fill(BatchWork& work, WorkQueue& queue) {
  RowRange rows = work.claim();
  if (rows.is_empty()) return;
  Region region(lane_regions::fetch);
  lane_regions::place(region, work.scheduled());
  for (; !rows.is_empty(); rows = work.claim()) {
    fill_rows(work, rows);
    end(0);
    finish(work, rows.end - rows.begin, queue);
    if (is_turn_over() && !goes_on(work.scheduled().epoch)) break;
  }
  region.end();
  measure_cpu();
}

void Lane::fill_rows(BatchWork& work, RowRange rows) {
  for (uint64_t row = rows.begin; row < rows.end && !work.is_dropped(); ++row) {
    // A user's decoder or an allocation may throw. The thread must continue.
    try {
      auto filled = fill_row(work, row);
      if (!filled.ok()) work.add_bad(row, std::move(filled).error());
    } catch (const std::exception& exception) {
      work.add_bad(row, thrown(exception, work.sample(row)));
    }
  }
}

Status Lane::fill_row(const BatchWork& work, uint64_t row) {
  work.set_label(row, options_.source->label(work.sample(row)).value_or(-1));
  return is_verbatim_ ? read_into_row(work, row) : read_and_decode(work, row);
}

Status Lane::read_into_row(const BatchWork& work, uint64_t row) {
  const data::SampleId sample = work.sample(row);
  const MutableByteView place = work.place(0, row);
  const auto began = begin(0, sample, /*is_decoding=*/false);
  Region region(lane_regions::read);
  lane_regions::place(region, work.scheduled());
  const auto size_bytes = options_.source->read_into(sample, place);
  region.end();
  add(read_ns_, (monotonic_now() - began).count());
  count_read(size_bytes.ok() ? *size_bytes : 0);
  if (!size_bytes.ok()) return Error(size_bytes.error());
  return check_length(sample, *size_bytes, place.size());
}

Status Lane::read_and_decode(const BatchWork& work, uint64_t row) {
  const data::SampleId sample = work.sample(row);
  const auto began = begin(0, sample, /*is_decoding=*/false);
  Region reading(lane_regions::read);
  lane_regions::place(reading, work.scheduled());
  const auto bytes = options_.source->read(sample, room_);
  reading.end();
  const auto read = begin(0, sample, /*is_decoding=*/true);
  add(read_ns_, (read - began).count());
  count_read(bytes.ok() ? bytes->size() : 0);
  if (!bytes.ok()) return Error(bytes.error());
  return decode(work, row, *bytes, read);
}

// ---- both ----

Status Lane::check_length(data::SampleId sample, size_t size_bytes, size_t row_bytes) const {
  if (size_bytes == row_bytes) return {};
  return fail(Errc::kCorrupt,
              "{}: it has {} bytes, but every sample must have {}; use a decoder that accepts "
              "samples of different lengths",
              options_.source->name(sample), size_bytes, row_bytes);
}

Status Lane::decode(const BatchWork& work, uint64_t row, ByteView bytes,
                    std::chrono::nanoseconds began) {
  const data::SampleId sample = work.sample(row);
  for (size_t field = 0; field < field_count_; ++field) outputs_[field] = work.output(field, row);
  Region region(lane_regions::decode);
  lane_regions::place(region, work.scheduled());
  const data::DecodeContext context{.sample = sample,
                                    .epoch = work.scheduled().epoch,
                                    .seed = work.scheduled().decoding_seed(options_.seed, row)};
  auto decoded = options_.decoder->decode(bytes, context, outputs_, scratch_.get());
  region.end();
  add(decode_ns_, (monotonic_now() - began).count());
  if (decoded.ok()) return {};
  return std::move(decoded).error().within(options_.source->name(sample));
}

Error Lane::thrown(const std::exception& exception, data::SampleId sample) const {
  const bool is_full = dynamic_cast<const std::bad_alloc*>(&exception) != nullptr;
  return (is_full ? fail(Errc::kExhausted, "out of memory while reading or decoding it")
                  : fail(Errc::kIo, "reading or decoding it threw: {}", exception.what()))
      .within(options_.source->name(sample));
}

// Call this after counting the rows, so that whoever sees the batch done sees all its counts.
void Lane::finish(BatchWork& work, uint64_t row_count, WorkQueue& queue) {
  const auto began = work.has_ragged() ? monotonic_now() : std::chrono::nanoseconds(0);
  const bool is_last = work.finish(row_count);
  // Gathering counts as decoding: it is the rest of it.
  if (work.has_ragged()) add(decode_ns_, (monotonic_now() - began).count());
  if (is_last) queue.finished(work);
}

std::chrono::nanoseconds Lane::begin(size_t place, data::SampleId sample, bool is_decoding) {
  const auto now = monotonic_now();
  Doing& doing = doing_[place];
  doing.sample.store(data::index_of(sample) * 2 + (is_decoding ? 1 : 0), std::memory_order_relaxed);
  doing.since_ns.store(now.count(), std::memory_order_release);
  return now;
}

void Lane::count_read(uint64_t size_bytes) {
  ++read_count_;
  add(bytes_read_, size_bytes);
}

// ---- turns ----

void Lane::begin_turn(data::Epoch epoch) {
  turn_ = options_.choice->next_turn(epoch);
  turn_began_ = cost_so_far();
  has_turn_ = true;
}

// Excludes the decoder's time on the same thread.
ReadCost Lane::cost_so_far() const {
  return {.samples = read_count_,
          .bytes = bytes_read_.load(std::memory_order_relaxed),
          .elapsed = loaded(read_ns_),
          .cpu = thread_cpu_time() - loaded(decode_ns_)};
}

bool Lane::is_turn_over() const {
  return read_count_ - turn_began_.samples >= turn_.sample_count ||
         loaded(read_ns_) - turn_began_.elapsed >= turn_.elapsed;
}

// Reports the finished turn. Returns whether the next turn is like it.
bool Lane::goes_on(data::Epoch epoch) {
  const ReadCost now = cost_so_far();
  const ReadCost cost{.samples = now.samples - turn_began_.samples,
                      .bytes = now.bytes - turn_began_.bytes,
                      .elapsed = now.elapsed - turn_began_.elapsed,
                      .cpu = now.cpu - turn_began_.cpu};
  turn_began_ = now;
  has_turn_ = options_.choice->report(turn_, cost, epoch);
  return has_turn_;
}

// ---- for other threads ----

void Lane::measure_cpu() {
  if (options_.measures_cpu) cpu_ns_.store(thread_cpu_time().count(), std::memory_order_relaxed);
}

LaneCounts Lane::counts() const {
  return {.bytes_read = bytes_read_.load(std::memory_order_relaxed),
          .read = loaded(read_ns_),
          .decode = loaded(decode_ns_),
          .cpu = loaded(cpu_ns_)};
}

void Lane::append_activities(std::vector<LaneActivity>& activities) const {
  for (const Doing& doing : doing_) {
    const int64_t since = doing.since_ns.load(std::memory_order_acquire);
    const uint64_t sample = doing.sample.load(std::memory_order_relaxed);
    if (since == 0) continue;
    activities.push_back({.sample = data::SampleId{sample / 2},
                          .is_decoding = sample % 2 != 0,
                          .since = std::chrono::nanoseconds(since)});
  }
}

}  // namespace millrace::loader::pipeline
