#include "loader/exchange/shard_source.h"

#include <cassert>
#include <utility>
#include <vector>

#include "data/queued_reads.h"

namespace millrace::loader::exchange {

// Reads in flight, through the queue of the source's engine. The results are checked like those of
// single reads. A failed read is repeated as a single read, which returns the same error message.
class ShardReads final : public data::QueuedReads {
 public:
  // `samples` reads the samples file of the storage.
  ShardReads(const ShardSource& source, std::shared_ptr<const io::Reader> samples,
             std::unique_ptr<io::ReadQueue> queue)
      : QueuedReads(source, std::move(queue)),
        source_(source),
        samples_(std::move(samples)),
        entries_(capacity()) {}
  ~ShardReads() override { close(); }

 private:
  Status begin(size_t index) override;
  Result<ByteView> outcome(size_t index, Result<size_t> read) override;

  const ShardSource& source_;
  std::shared_ptr<const io::Reader> samples_;  // shared with the source
  std::vector<Ownership::Entry> entries_;      // by slot
};

Status ShardReads::begin(size_t index) {
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

Result<ByteView> ShardReads::outcome(size_t index, Result<size_t> read) {
  const Slot& own = slot(index);
  const bool is_good = read.ok() && *read == own.place.size() &&
                       source_.storage_->check(entries_[index], own.place).ok();
  return is_good ? Result<ByteView>(own.place) : read_alone(own.request);
}

ShardSource::ShardSource(std::shared_ptr<const ShardStorage> storage,
                         std::shared_ptr<const data::SampleSource> dataset)
    : storage_(std::move(storage)),
      dataset_(std::move(dataset)),
      moves_(storage_->options().order) {
  assert(dataset_->sample_count() == storage_->options().order.sample_count);
  if (auto engine = io::open_engine("auto"); engine.ok()) engine_ = *std::move(engine);
}

data::ReadWays ShardSource::ways() const {
  return engine_ ? data::ways_of(*engine_) : data::ReadWays();
}

Result<std::unique_ptr<data::SampleReads>> ShardSource::open_reads(size_t capacity) const {
  if (!engine_ || engine_->ways().in_flight.empty()) return std::unique_ptr<data::SampleReads>();
  ASSIGN_OR_RETURN(std::shared_ptr<const io::Reader> samples,
                   engine_->open(storage_->samples_path()));
  ASSIGN_OR_RETURN(auto queue, engine_->open_queue(capacity));
  return std::unique_ptr<data::SampleReads>(
      std::make_unique<ShardReads>(*this, std::move(samples), std::move(queue)));
}

Result<ByteView> ShardSource::read(data::SampleId sample, data::Buffer& room) const {
  ASSIGN_OR_RETURN(const data::Epoch epoch, epoch_now());
  const auto size_bytes = storage_->size_bytes(sample);
  if (!size_bytes) return not_held(sample, epoch);
  const MutableByteView bytes = room.room(*size_bytes);
  const auto read = storage_->read_into(sample, bytes);
  if (!read.ok()) return failed(sample, epoch, read.error());
  return ByteView(bytes.first(*read));
}

Result<size_t> ShardSource::read_into(data::SampleId sample, MutableByteView out) const {
  ASSIGN_OR_RETURN(const data::Epoch epoch, epoch_now());
  auto read = storage_->read_into(sample, out);
  if (!read.ok()) return failed(sample, epoch, read.error());
  return read;
}

void ShardSource::start_epoch(data::Epoch epoch, uint64_t /*done*/) const {
  begun_epoch_ = data::number_of(epoch);
}

Result<data::Epoch> ShardSource::epoch_now() const {
  const auto held = storage_->epoch();
  if (!held) {
    return fail(Errc::kInvalidArgument, "{}: it holds no samples yet; stage them first",
                storage_->options().directory.string());
  }
  const uint64_t begun = begun_epoch_;
  if (begun == kAnyEpoch || begun == data::number_of(*held)) return *held;
  return fail(Errc::kInvalidArgument,
              "{}: epoch {} was started, but it holds the samples of epoch {}; {}",
              storage_->options().directory.string(), begun, data::number_of(*held),
              begun > data::number_of(*held) ? "finish the exchange of the previous epoch first"
                                             : "samples that were sent away do not come back");
}

Error ShardSource::not_held(data::SampleId sample, data::Epoch epoch) const {
  if (data::index_of(sample) >= sample_count()) {
    return fail(Errc::kInvalidArgument, "sample {} does not exist: there are {} samples",
                data::index_of(sample), sample_count());
  }
  return fail(Errc::kNotFound,
              "{} (sample {}) is held by rank {} in epoch {}, and this is rank {}; a rank can read "
              "only its own shard: use as many ranks as shards, each with its own positions",
              name(sample), data::index_of(sample), moves_.slot_of(epoch, sample).shard,
              data::number_of(epoch), storage_->options().rank);
}

// Explains a failed read of the storage to the user.
Error ShardSource::failed(data::SampleId sample, data::Epoch epoch, const Error& error) const {
  if (storage_->epoch() != epoch) {
    return fail(Errc::kInvalidArgument,
                "{} (sample {}) was read while epoch {} ended; finish the exchange after the reads",
                name(sample), data::index_of(sample), data::number_of(epoch));
  }
  if (error.code() == Errc::kNotFound) return not_held(sample, epoch);
  return Error(error.code(), fmt::format("{}: {}", name(sample), error.message()));
}

}  // namespace millrace::loader::exchange
