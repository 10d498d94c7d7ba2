#include "loader/tiers/tiered_source.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <optional>

#include "base/text/units.h"
#include "loader/order/occurrences.h"
#include "loader/tiers/tiered_reads.h"

namespace millrace::loader::tiers {

using data::Epoch;
using data::SampleId;

namespace {

constexpr uint64_t kRefreshEvery = 256;  // reads
// How many reads of this rank may still be in progress when a later one is done.
constexpr uint64_t kReadsAhead = 4096;
// A disk read for a peer that takes longer than this is followed by a pause.
constexpr std::chrono::nanoseconds kQuickRead = std::chrono::milliseconds(2);

}  // namespace

struct TieredSource::Tiers {
  explicit Tiers(const Options& options) : clock(*options.clock), memory(options.memory_bytes) {}

  const Clock& clock;
  Memory memory;
  std::unique_ptr<Disk> disk;  // null: none
  std::atomic<uint64_t> served{0};
  std::atomic<uint64_t> not_served{0};          // held, but the disk was too slow recently
  std::chrono::nanoseconds serves_disk_from{};  // only for the thread that answers

  // Appends the bytes of a sample to a message to a peer.
  bool answer(SampleId sample, std::string& message) {
    if (const SampleBytes bytes = memory.find(sample)) {
      message.append(text_of(bytes.view()));
    } else if (!answer_from_disk(sample, message)) {
      return false;
    }
    ++served;
    return true;
  }

  // Other requests to this rank, and its own messages, wait during the read. So a slow read is
  // followed by a pause of the same length, in which requests are refused and the peer reads the
  // source. At most half of the thread's time goes to a slow disk, and nobody waits for more than
  // one read.
  bool answer_from_disk(SampleId sample, std::string& message) {
    if (!disk || !disk->contains(sample)) return false;
    const auto start = clock.monotonic();
    if (start < serves_disk_from) {
      ++not_served;
      return false;
    }
    const size_t before = message.size();
    const auto bytes = disk->read(sample, [&](size_t size_bytes) -> std::optional<MutableByteView> {
      message.resize(before + size_bytes);
      return std::as_writable_bytes(std::span(message)).subspan(before);
    });
    const auto end = clock.monotonic();
    if (end - start > kQuickRead) serves_disk_from = end + (end - start);
    return bytes.has_value();
  }
};

std::optional<MutableByteView> TieredSource::Target::place_for(size_t size_bytes) const {
  if (room != nullptr) return room->room(size_bytes);
  if (size_bytes > out.size()) return std::nullopt;
  return out.first(size_bytes);
}

Result<std::unique_ptr<TieredSource>> TieredSource::open(Options options) {
  const order::Order& order = *options.order;
  if (order.sample_count() != options.source->sample_count()) {
    return fail(Errc::kInvalidArgument, "the order has {} samples, but the source has {}",
                order.sample_count(), options.source->sample_count());
  }
  if (!order.is_permutation() &&
      std::max(order.size(), order.sample_count()) > order::Occurrences::kCountMax) {
    return fail(Errc::kUnsupported,
                "tiers serve orders that draw at most {} of at most {} samples; this one draws {} "
                "of {}",
                order::Occurrences::kCountMax, order::Occurrences::kCountMax, order.size(),
                order.sample_count());
  }
  if (options.world.size == 0 || options.world.rank >= options.world.size ||
      options.batch_size == 0) {
    return fail(Errc::kInvalidArgument, "tiers cannot serve rank {} of {} with batches of {}",
                options.world.rank, options.world.size, options.batch_size);
  }
  if (options.messages && (comm::index_of(options.messages->rank()) != options.world.rank ||
                           options.messages->size() != options.world.size)) {
    return fail(Errc::kInvalidArgument,
                "the tiers are of rank {} of {}, but their messages are of rank {} of {}",
                options.world.rank, options.world.size, comm::index_of(options.messages->rank()),
                options.messages->size());
  }
  if (options.horizon_epochs == 0) {
    options.horizon_epochs = std::clamp<uint32_t>(2 * std::min(options.world.size, 64u), 8, 64);
  }
  options.horizon_epochs = std::min(options.horizon_epochs, order.horizon_max());
  if (options.clock == nullptr) options.clock = &system_clock();
  std::unique_ptr<TieredSource> source(new TieredSource(std::move(options)));
  RETURN_IF_ERROR(source->open_tiers());
  source->start_epoch(Epoch{0}, 0);
  return source;
}

TieredSource::TieredSource(Options options)
    : options_(std::move(options)), tiers_(std::make_shared<Tiers>(options_)) {}

TieredSource::~TieredSource() = default;

Status TieredSource::open_tiers() {
  if (options_.disk_bytes > 0) {
    if (!options_.disk_engine) {
      ASSIGN_OR_RETURN(options_.disk_engine, io::open_engine("posix"));
    }
    ASSIGN_OR_RETURN(tiers_->disk, Disk::open({.engine = options_.disk_engine,
                                               .directory = options_.disk_directory,
                                               .capacity_bytes = options_.disk_bytes}));
  }
  if (options_.messages && options_.world.size > 1) {
    // Weak: a request that arrives after this is destroyed is answered with "not here".
    const std::weak_ptr<Tiers> tiers = tiers_;
    peers_ = std::make_unique<Peer>(*options_.messages, options_.tag,
                                    [tiers](SampleId sample, std::string& message) {
                                      const std::shared_ptr<Tiers> here = tiers.lock();
                                      return here && here->answer(sample, message);
                                    });
  }
  return {};
}

// ---- the position of reads ----

void TieredSource::follow(std::shared_ptr<const order::Order> order) {
  assert(order->size() == options_.order->size());
  const MutexLock lock(mutex_);
  options_.order = std::move(order);
}

void TieredSource::set_batch_size(uint64_t batch_size) {
  const MutexLock lock(mutex_);
  options_.batch_size = batch_size;
}

void TieredSource::start_epoch(Epoch epoch, uint64_t done) const {
  if (position_count() == 0) return;
  options_.source->start_epoch(epoch, done);
  const MutexLock lock(mutex_);
  auto placement = std::make_shared<const Placement>(
      PlacementOptions{.order = options_.order,
                       .world = options_.world,
                       .batch_size = options_.batch_size,
                       .tail = options_.tail,
                       .horizon_epochs = options_.horizon_epochs,
                       .epoch_limit = options_.epoch_limit,
                       .shares = peers_ != nullptr,
                       .resumed_epoch = epoch,
                       .resumed_done = std::min(done, position_count())});
  placement_ = std::move(placement);
  epoch_ = epoch;
  reads_left_ = placement_->reads_in(epoch);
  now_ = static_cast<UseTime>(data::number_of(epoch) * position_count() +
                              std::min(done, position_count()));
}

// How far apart reads in progress may be.
uint64_t TieredSource::slack() const {
  return std::min(kReadsAhead * options_.world.size, position_count() / 4);
}

// Counting reads is not enough: several threads make those at the end of one epoch and the start of
// the next in any order.
Epoch TieredSource::epoch_of_read(SampleId sample) const {
  const uint64_t now = static_cast<uint64_t>(now_);
  const uint64_t number = data::number_of(epoch_);
  const uint64_t begin = number * position_count();
  const auto distance = [&](uint64_t of_epoch) REQUIRES(mutex_) {
    const auto found = placement_->time_near(Epoch{of_epoch}, sample, now_);
    if (!found) return ~uint64_t{0};
    const auto time = static_cast<uint64_t>(*found);
    return time > now ? time - now : now - time;
  };
  std::optional<uint64_t> neighbour;  // considered only near its boundary
  if (now - begin <= slack()) {
    if (number > data::number_of(placement_->options().resumed_epoch)) neighbour = number - 1;
  } else if (begin + position_count() - now <= slack()) {
    neighbour = number + 1;
  }
  if (!neighbour) return epoch_;
  const uint64_t from_neighbour = distance(*neighbour);
  return from_neighbour <= slack() && from_neighbour < distance(number) ? Epoch{*neighbour}
                                                                        : epoch_;
}

// Moves now_ by a limited step, forwards or backwards, so that a single outlier (a read in progress
// during a jump, or padding) does not mislead it for long.
void TieredSource::move_towards(UseTime time) const {
  const auto now = static_cast<uint64_t>(now_);
  const uint64_t step = std::max<uint64_t>(options_.world.size, slack() / 4);
  const uint64_t near =
      std::clamp(static_cast<uint64_t>(time), now - std::min(now, step), now + step);
  now_ = static_cast<UseTime>(std::max(near, data::number_of(epoch_) * position_count()));
}

TieredSource::Use TieredSource::begin_use(SampleId sample) const {
  Use use{.sample = sample};
  bool refreshes = false;
  UseTime passed{};
  {
    const MutexLock lock(mutex_);
    const Epoch after{data::number_of(epoch_) + 1};
    // The epoch ends when all its reads are done (the tail may leave out samples), or at the first
    // read of the next epoch.
    const bool is_over = reads_left_ == 0;
    use.epoch = epoch_of_read(sample);
    if (use.epoch == after || (is_over && use.epoch == epoch_)) {
      use.epoch = epoch_ = after;
      reads_left_ = placement_->reads_in(epoch_);
    }
    if (use.epoch == epoch_ && reads_left_ > 0) --reads_left_;
    use.placement = placement_;
    use.time = placement_->time_near(use.epoch, sample, now_).value_or(now_);
    move_towards(use.time);
    refreshes = reads_until_refresh_ == 0;
    reads_until_refresh_ = refreshes ? kRefreshEvery : reads_until_refresh_ - 1;
    passed = static_cast<UseTime>(static_cast<uint64_t>(now_) -
                                  std::min(static_cast<uint64_t>(now_), slack()));
  }
  use.next = use.placement->next_use(sample, use.time);
  if (refreshes) {
    const auto next_use = [&](SampleId held) { return use.placement->next_use(held, passed); };
    tiers_->memory.refresh(passed, next_use);
    if (tiers_->disk) tiers_->disk->refresh(passed, next_use);
  }
  return use;
}

// ---- reading ----

Result<ByteView> TieredSource::read(SampleId sample, data::Buffer& room) const {
  Target target{.room = &room};
  return fetch(sample, target);
}

Result<size_t> TieredSource::read_into(SampleId sample, MutableByteView out) const {
  Target target{.out = out};
  ASSIGN_OR_RETURN(const ByteView bytes, fetch(sample, target));
  return bytes.size();
}

Result<ByteView> TieredSource::fetch(SampleId sample, Target& target) const {
  const Use use = begin_use(sample);
  ASSIGN_OR_RETURN(const auto bytes, from_tiers(use, target));
  if (bytes) return *bytes;
  return from_source(use, target);
}

Result<std::optional<ByteView>> TieredSource::from_tiers(const Use& use, Target& target) const {
  if (const auto bytes = from_memory(use, target)) return bytes;
  if (const auto bytes = from_disk(use, target)) return bytes;
  return from_peer(use, target);
}

Result<std::unique_ptr<data::SampleReads>> TieredSource::open_reads(size_t capacity) const {
  ASSIGN_OR_RETURN(auto slow, options_.source->open_reads(capacity));
  if (!slow) return slow;
  return std::unique_ptr<data::SampleReads>(std::make_unique<TieredReads>(*this, std::move(slow)));
}

// Also nullopt if the sample does not fit: the source then returns its own error.
std::optional<ByteView> TieredSource::from_memory(const Use& use, Target& target) const {
  const auto start = clock_now();
  const SampleBytes held = tiers_->memory.find(use.sample);
  if (!held) return std::nullopt;
  const auto place = target.place_for(held.size_bytes);
  if (!place) return std::nullopt;
  if (!place->empty()) std::memcpy(place->data(), held.data.get(), held.size_bytes);
  tiers_->memory.used(use.sample, use.next);
  count(Tier::kMemory, held.size_bytes, clock_now() - start);
  return *place;
}

std::optional<ByteView> TieredSource::from_disk(const Use& use, Target& target) const {
  if (!tiers_->disk || !tiers_->disk->contains(use.sample)) return std::nullopt;
  if (!speeds_.prefers(Tier::kDisk, Tier::kSource)) return std::nullopt;
  const auto start = clock_now();
  const auto bytes = tiers_->disk->read(
      use.sample, [&](size_t size_bytes) { return target.place_for(size_bytes); });
  if (!bytes) return std::nullopt;
  count(Tier::kDisk, bytes->size(), clock_now() - start);
  keep(use, *bytes, Tier::kDisk);
  return bytes;
}

Result<std::optional<ByteView>> TieredSource::from_peer(const Use& use, Target& target) const {
  constexpr std::optional<ByteView> kNothing;
  if (!peers_) return kNothing;
  const auto keeper = use.placement->keeper_for(use.epoch, use.sample, use.time);
  if (!keeper || *keeper == options_.world.rank) return kNothing;
  if (!speeds_.prefers(Tier::kPeer, Tier::kSource)) return kNothing;
  const auto start = clock_now();
  ASSIGN_OR_RETURN(const auto sample, peers_->ask(*keeper, use.sample).within(name(use.sample)));
  if (!sample) {
    ++peer_refusals_;
    speeds_.add(Tier::kPeer, 0, clock_now() - start);
    return kNothing;
  }
  const auto place = target.place_for(sample->bytes().size());
  if (!place) return kNothing;
  if (!place->empty()) std::memcpy(place->data(), sample->bytes().data(), place->size());
  count(Tier::kPeer, place->size(), clock_now() - start);
  keep(use, *place, Tier::kPeer);
  return std::optional<ByteView>(*place);
}

Result<ByteView> TieredSource::from_source(const Use& use, Target& target) const {
  const auto start = clock_now();
  ByteView bytes;
  if (target.room != nullptr) {
    ASSIGN_OR_RETURN(bytes, options_.source->read(use.sample, *target.room));
  } else {
    ASSIGN_OR_RETURN(const size_t size_bytes, options_.source->read_into(use.sample, target.out));
    bytes = target.out.first(size_bytes);
  }
  count(Tier::kSource, bytes.size(), clock_now() - start);
  keep(use, bytes, Tier::kSource);
  return bytes;
}

void TieredSource::prepare(std::span<const SampleId> soon) const {
  std::vector<SampleId> from_source;
  for (const SampleId sample : soon) {
    if (tiers_->memory.find(sample)) continue;
    if (tiers_->disk && tiers_->disk->contains(sample)) continue;
    from_source.push_back(sample);
  }
  options_.source->prepare(from_source);
}

// ---- keeping ----

void TieredSource::keep(const Use& use, ByteView bytes, Tier from) const {
  Disk* const disk = tiers_->disk.get();
  std::vector<KeptSample> gone;
  const bool in_memory = use.next && options_.memory_bytes > 0 &&
                         tiers_->memory.offer(use.sample, bytes, *use.next, gone);
  if (disk == nullptr) return;
  for (KeptSample& kept : gone) {
    // It is still needed: memory dropped it for a sample that is used sooner.
    const auto next = use.placement->next_use(kept.sample, use.time);
    if (next) disk->offer(kept.sample, std::move(kept.bytes), *next);
  }
  if (in_memory || !use.next) {
    disk->used(use.sample, std::nullopt);  // one copy is enough
  } else if (from == Tier::kDisk) {
    disk->used(use.sample, use.next);
  } else if (disk->would_take(bytes.size(), *use.next)) {
    disk->offer(use.sample, SampleBytes::copy_of(bytes), *use.next);
  }
}

// ---- statistics ----

void TieredSource::count(Tier tier, uint64_t size_bytes, std::chrono::nanoseconds took) const {
  Counts& counts = counts_[static_cast<size_t>(tier)];
  ++counts.samples;
  counts.bytes += size_bytes;
  speeds_.add(tier, size_bytes, took);
}

void TieredSource::settle() const {
  if (tiers_->disk) tiers_->disk->settle();
}

Stats TieredSource::stats() const {
  Stats stats;
  for (const Tier tier : kTiers) {
    const Counts& counts = counts_[static_cast<size_t>(tier)];
    stats.tiers[static_cast<size_t>(tier)] = {counts.samples, counts.bytes,
                                              speeds_.bytes_per_second(tier)};
  }
  stats.memory_held_bytes = tiers_->memory.used_bytes();
  stats.peer_refusals = peer_refusals_;
  stats.served = tiers_->served;
  stats.not_served = tiers_->not_served;
  if (tiers_->disk) stats.disk = tiers_->disk->stats();
  return stats;
}

std::string Stats::text() const {
  std::string lines;
  for (const Tier tier : kTiers) {
    const TierUse& use = of(tier);
    if (use.samples == 0) continue;
    lines += fmt::format("{}: {} samples, {}, {}\n", tier_name(tier), format_exact(use.samples),
                         format_bytes(use.bytes), format_bandwidth(use.bytes_per_second));
  }
  if (!disk.ended_by.empty()) {
    lines += fmt::format("disk: takes no more samples: {}\n", disk.ended_by);
  }
  if (disk.read_errors > 0) {
    lines +=
        fmt::format("disk: {} reads failed and were repeated from the source\n", disk.read_errors);
  }
  return lines;
}

}  // namespace millrace::loader::tiers
