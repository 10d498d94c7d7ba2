#include "loader/pipeline/lane.h"

#include <millrace/trace.h>
#include <time.h>

#include <exception>
#include <new>
#include <utility>

#include "base/clock.h"

namespace millrace::loader {
namespace {

constinit Name fetch_region{MILLRACE_FETCH};
constinit Name read_region{MILLRACE_READ};
constinit Name decode_region{MILLRACE_DECODE};

// Only the lane itself writes its counters, so that no locked instruction is needed.
template <typename T>
void add(std::atomic<T>& counter, T value) {
  counter.store(counter.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
}

std::chrono::nanoseconds thread_cpu_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

void place_region(Region& region, const ScheduledBatch& batch) {
  region.epoch(static_cast<uint32_t>(data::number_of(batch.epoch))).step(batch.index);
}

Error thrown(const std::exception& exception) {
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr) {
    return fail(Errc::kExhausted, "no memory left to read or decode it");
  }
  return fail(Errc::kIo, "reading or decoding it threw: {}", exception.what());
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
      outputs_(field_count_) {}

bool Lane::fill(BatchWork& work) {
  RowRange rows = work.claim();
  if (rows.is_empty()) return false;
  Region region(fetch_region);
  place_region(region, work.scheduled());
  bool is_last = false;
  for (; !rows.is_empty(); rows = work.claim()) {
    fill_rows(work, rows);
    // Before the rows are reported: whoever sees the batch done has all counts of it.
    since_ns_.store(0, std::memory_order_relaxed);
    is_last = work.finish(rows.end - rows.begin);
  }
  region.end();
  measure_cpu();
  return is_last;
}

void Lane::fill_rows(BatchWork& work, RowRange rows) {
  for (uint64_t row = rows.begin; row < rows.end && !work.is_dropped(); ++row) {
    // The code of others may throw: a decoder of the user's, a vector that finds no memory. The
    // thread must go on.
    try {
      auto filled = fill_row(work, row);
      if (!filled.ok()) work.add_bad(row, std::move(filled).error());
    } catch (const std::exception& exception) {
      work.add_bad(row, thrown(exception).within(options_.source->name(work.sample(row))));
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
  const auto began = begin(sample, /*is_decoding=*/false);
  Region region(read_region);
  place_region(region, work.scheduled());
  const auto size_bytes = options_.source->read_into(sample, place);
  region.end();
  add(read_ns_, (monotonic_now() - began).count());
  if (!size_bytes.ok()) return Error(size_bytes.error());
  add(bytes_read_, uint64_t{*size_bytes});
  if (*size_bytes == place.size()) return {};
  return fail(Errc::kCorrupt,
              "{}: it has {} bytes, but every sample is to have {}; take a decoder that does not "
              "need samples of one length",
              options_.source->name(sample), *size_bytes, place.size());
}

Status Lane::read_and_decode(const BatchWork& work, uint64_t row) {
  const data::SampleId sample = work.sample(row);
  const auto began = begin(sample, /*is_decoding=*/false);
  Region reading(read_region);
  place_region(reading, work.scheduled());
  const auto bytes = options_.source->read(sample, room_);
  reading.end();
  const auto read = begin(sample, /*is_decoding=*/true);
  add(read_ns_, (read - began).count());
  if (!bytes.ok()) return Error(bytes.error());
  add(bytes_read_, uint64_t{bytes->size()});
  for (size_t field = 0; field < field_count_; ++field) outputs_[field] = work.place(field, row);
  Region decoding(decode_region);
  place_region(decoding, work.scheduled());
  const data::DecodeContext context{
      .sample = sample, .epoch = work.scheduled().epoch, .seed = options_.seed};
  auto decoded = options_.decoder->decode(*bytes, context, outputs_, scratch_.get());
  decoding.end();
  add(decode_ns_, (monotonic_now() - read).count());
  if (decoded.ok()) return {};
  return std::move(decoded).error().within(options_.source->name(sample));
}

std::chrono::nanoseconds Lane::begin(data::SampleId sample, bool is_decoding) {
  const auto now = monotonic_now();
  doing_.store(data::index_of(sample) * 2 + (is_decoding ? 1 : 0), std::memory_order_relaxed);
  since_ns_.store(now.count(), std::memory_order_release);
  return now;
}

void Lane::measure_cpu() {
  if (options_.measures_cpu) cpu_ns_.store(thread_cpu_time().count(), std::memory_order_relaxed);
}

LaneCounts Lane::counts() const {
  return {.bytes_read = bytes_read_.load(std::memory_order_relaxed),
          .read = std::chrono::nanoseconds(read_ns_.load(std::memory_order_relaxed)),
          .decode = std::chrono::nanoseconds(decode_ns_.load(std::memory_order_relaxed)),
          .cpu = std::chrono::nanoseconds(cpu_ns_.load(std::memory_order_relaxed))};
}

std::optional<LaneActivity> Lane::activity() const {
  const int64_t since = since_ns_.load(std::memory_order_acquire);
  const uint64_t doing = doing_.load(std::memory_order_relaxed);
  if (since == 0) return std::nullopt;
  return LaneActivity{.sample = data::SampleId{doing / 2},
                      .is_decoding = doing % 2 != 0,
                      .since = std::chrono::nanoseconds(since)};
}

}  // namespace millrace::loader
