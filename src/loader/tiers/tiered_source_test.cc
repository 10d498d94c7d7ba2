#include "loader/tiers/tiered_source.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "base/numbers/random.h"
#include "comm/testing/threads.h"
#include "data/testing/source_contract.h"
#include "io/testing/memory_engine.h"
#include "loader/testing/fakes.h"

namespace millrace::loader::tiers {
namespace {

using namespace std::chrono_literals;
using data::Epoch;
using data::SampleId;
using testing::HasSubstr;

// Samples of 0 to 4,000 distinctive bytes. Counts its reads.
class CountingSource final : public data::SampleSource {
 public:
  explicit CountingSource(uint64_t count) : count_(count) {}

  static std::string content(SampleId sample) {
    Random random(data::index_of(sample));
    std::string bytes(random.below(4'000), '\0');
    for (char& byte : bytes) byte = static_cast<char>(random.below(256));
    return bytes;
  }

  uint64_t sample_count() const override { return count_; }
  std::string name(SampleId sample) const override {
    return fmt::format("sample {}", data::index_of(sample));
  }
  std::optional<int64_t> label(SampleId) const override { return std::nullopt; }
  Result<ByteView> read(SampleId sample, data::Buffer& room) const override {
    const std::string bytes = content(sample);
    ASSIGN_OR_RETURN(const size_t size_bytes, read_into(sample, room.room(bytes.size())));
    return ByteView(room.room(size_bytes));
  }
  Result<size_t> read_into(SampleId sample, MutableByteView out) const override {
    ++reads;
    const std::string bytes = content(sample);
    if (bytes.size() > out.size()) return fail(Errc::kExhausted, "{} is longer", name(sample));
    std::ranges::copy(bytes_of(bytes), out.begin());
    return bytes.size();
  }
  data::ReadWays ways() const override {
    return {.one_at_a_time = "slow", .in_flight = flies ? "late" : ""};
  }
  Result<std::unique_ptr<data::SampleReads>> open_reads(size_t capacity) const override {
    if (!flies) return std::unique_ptr<data::SampleReads>();
    return std::unique_ptr<data::SampleReads>(std::make_unique<LateReads>(*this, capacity));
  }
  bool can_read_ahead() const override { return reads_ahead; }
  uint64_t group_count() const override { return 1; }
  SampleId group_begin(uint64_t group) const override { return SampleId{group * count_}; }

  bool reads_ahead = true;
  mutable std::atomic<uint64_t> reads{0};
  bool flies = false;  // has reads in flight; set it before use

 private:
  uint64_t count_;
};

std::shared_ptr<const order::Order> order_of(uint64_t count) {
  auto order = order::make_order({.sample_count = count, .seed = 9});
  EXPECT_TRUE(order.ok());
  return *std::move(order);
}

// Reads an epoch with some threads that take turns, like a loader, and checks the bytes.
Status read_epoch(const TieredSource& tiered, const Options& options, Epoch epoch,
                  size_t thread_count = 1) {
  tiered.start_epoch(epoch, 0);
  const uint32_t size = options.world.size;
  std::atomic<uint64_t> next = options.world.rank;
  std::vector<Status> outcomes(thread_count);
  {
    std::vector<std::jthread> threads;
    for (Status& outcome : outcomes) {
      threads.emplace_back([&] {
        data::Buffer room;
        for (uint64_t at = next.fetch_add(size); at < options.order->size() && outcome.ok();
             at = next.fetch_add(size)) {
          const SampleId sample = options.order->at(epoch, at);
          auto bytes = tiered.read(sample, room);
          if (!bytes.ok()) {
            outcome = bytes.error();
          } else if (text_of(*bytes) != CountingSource::content(sample)) {
            outcome = fail(Errc::kCorrupt, "sample {} has wrong bytes", data::index_of(sample));
          }
        }
      });
    }
  }
  for (Status& outcome : outcomes) RETURN_IF_ERROR(std::move(outcome));
  return {};
}

void expect_ok(const Status& status) { EXPECT_TRUE(status.ok()) << status.error().message(); }

std::unique_ptr<TieredSource> must_open(const Options& options) {
  auto tiered = TieredSource::open(options);
  EXPECT_TRUE(tiered.ok()) << tiered.error().message();
  return *std::move(tiered);
}

// Time stands still, so all tiers are equally fast and the nearest one with the sample is read.
const FakeClock kNoTime;

TEST(TieredSource, SamplesReadInFlightAreKeptInMemory) {
  const auto source = std::make_shared<CountingSource>(200);
  source->flies = true;
  const Options options{.source = source, .order = order_of(200), .memory_bytes = 10 << 20};
  const auto tiered = must_open(options);
  const auto reads = *tiered->open_reads(16);
  std::vector<data::Buffer> rooms(200);
  for (const Epoch epoch : {Epoch{0}, Epoch{1}, Epoch{2}}) {
    tiered->start_epoch(epoch, 0);
    std::vector<data::SampleDone> done;
    for (uint64_t at = 0; at < 200; ++at) {
      while (reads->in_flight() == reads->capacity()) reads->wait(done);
      const SampleId sample = options.order->at(epoch, at);
      const uint64_t index = data::index_of(sample);
      reads->submit({.sample = sample, .room = &rooms[index], .tag = index});
    }
    while (reads->in_flight() > 0) reads->wait(done);
    ASSERT_EQ(done.size(), 200u);
    for (const data::SampleDone& one : done) {
      ASSERT_TRUE(one.bytes.ok()) << one.bytes.error().message();
      ASSERT_EQ(text_of(*one.bytes), CountingSource::content(SampleId{one.tag}));
    }
  }
  EXPECT_EQ(source->reads, 200u);
  EXPECT_EQ(tiered->stats().of(Tier::kSource).samples, 200u);
  EXPECT_EQ(tiered->stats().of(Tier::kMemory).samples, 400u);
}

TEST(TieredSource, ReadsWhatFitsInMemoryFromTheSourceOnce) {
  const auto source = std::make_shared<CountingSource>(200);
  const Options options{.source = source, .order = order_of(200), .memory_bytes = 10 << 20};
  const auto tiered = must_open(options);
  for (const Epoch epoch : {Epoch{0}, Epoch{1}, Epoch{2}}) {
    expect_ok(read_epoch(*tiered, options, epoch));
  }
  EXPECT_EQ(source->reads, 200u);
  const Stats stats = tiered->stats();
  EXPECT_EQ(stats.of(Tier::kMemory).samples, 400u);
  EXPECT_EQ(stats.of(Tier::kSource).samples, 200u);
  EXPECT_EQ(stats.of(Tier::kMemory).bytes, 2 * stats.of(Tier::kSource).bytes);
}

TEST(TieredSource, WithManyThreadsBytesAreCorrectAndCapacitiesHold) {
  constexpr uint64_t kMemory = 100'000;
  constexpr uint64_t kDisk = 40 * Extents::kBlockBytes;
  const auto source = std::make_shared<CountingSource>(300);
  const Options options{.source = source,
                        .order = order_of(300),
                        .memory_bytes = kMemory,
                        .disk_bytes = kDisk,
                        .disk_directory = "/tmp",
                        .disk_engine = std::make_shared<io::MemoryEngine>()};
  const auto tiered = must_open(options);
  std::atomic<bool> ends = false;
  std::jthread watcher([&] {
    while (!ends) {
      const Stats stats = tiered->stats();
      EXPECT_LE(stats.memory_held_bytes, kMemory);
      EXPECT_LE(stats.disk.held_bytes, kDisk);
      std::this_thread::sleep_for(1ms);
    }
  });
  for (uint64_t epoch = 0; epoch < 5; ++epoch) {
    expect_ok(read_epoch(*tiered, options, Epoch{epoch}, 4));
  }
  ends = true;
  watcher.join();
  tiered->settle();
  const Stats stats = tiered->stats();
  EXPECT_GT(stats.of(Tier::kMemory).samples, 0u);
  EXPECT_GT(stats.disk.written_samples, 0u);
}

// Without peers, one rank of four reads a quarter of the samples per epoch. With memory for a
// quarter of all samples, keeping any fixed ones serves a quarter of the reads; keeping those read
// most often serves about a third.
TEST(TieredSource, KeepsWhatIsUsedSoonest) {
  const auto source = std::make_shared<CountingSource>(400);
  uint64_t all_bytes = 0;
  for (uint64_t i = 0; i < 400; ++i) {
    all_bytes += CountingSource::content(SampleId{i}).size() + Memory::kEntryBytes;
  }
  const Options options{
      .source = source, .order = order_of(400), .world = {1, 4}, .memory_bytes = all_bytes / 4};
  const auto tiered = must_open(options);
  constexpr uint64_t kEpochs = 12;
  for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    expect_ok(read_epoch(*tiered, options, Epoch{epoch}));
  }
  EXPECT_GT(tiered->stats().of(Tier::kMemory).samples, kEpochs * 100 * 2 / 5);
}

TEST(TieredSource, EpochsFollowEachOtherWithoutStartEpoch) {
  const auto source = std::make_shared<CountingSource>(50);
  const Options options{.source = source, .order = order_of(50), .memory_bytes = 10 << 20};
  const auto tiered = must_open(options);
  data::Buffer room;
  for (const Epoch epoch : {Epoch{0}, Epoch{1}, Epoch{2}}) {
    for (uint64_t at = 0; at < 50; ++at) {
      ASSERT_TRUE(tiered->read(options.order->at(epoch, at), room).ok());
    }
  }
  EXPECT_EQ(source->reads, 50u);
}

TEST(TieredSource, CannotReadAheadIfItsSourceCannot) {
  const auto source = std::make_shared<CountingSource>(10);
  const auto tiered = must_open({.source = source, .order = order_of(10), .memory_bytes = 1 << 20});
  EXPECT_TRUE(tiered->can_read_ahead());
  source->reads_ahead = false;
  EXPECT_FALSE(tiered->can_read_ahead());
}

TEST(TieredSource, ADiskThatFailsToReadFallsBackToTheSource) {
  const auto source = std::make_shared<CountingSource>(100);
  const auto engine = std::make_shared<io::MemoryEngine>();
  const Options options{.source = source,
                        .order = order_of(100),
                        .disk_bytes = 10 << 20,
                        .disk_directory = "/tmp",
                        .disk_engine = engine,
                        .clock = &kNoTime};
  const auto tiered = must_open(options);
  expect_ok(read_epoch(*tiered, options, Epoch{0}));
  tiered->settle();
  EXPECT_GT(tiered->stats().disk.held_samples, 0u);
  engine->set_faults({.read_error_at = 20 * Extents::kBlockBytes});
  expect_ok(read_epoch(*tiered, options, Epoch{1}));
  EXPECT_EQ(tiered->stats().disk.read_errors, 1u);
  EXPECT_THAT(tiered->stats().text(), HasSubstr("1 reads failed"));
}

TEST(TieredSource, AFullDiskShowsOnlyInTheStatistics) {
  const auto source = std::make_shared<CountingSource>(100);
  const auto engine = std::make_shared<io::MemoryEngine>();
  engine->set_faults({.disk_bytes = 64 << 10});
  const Options options{.source = source,
                        .order = order_of(100),
                        .disk_bytes = 10 << 20,
                        .disk_directory = "/tmp",
                        .disk_engine = engine};
  const auto tiered = must_open(options);
  for (const Epoch epoch : {Epoch{0}, Epoch{1}}) {
    expect_ok(read_epoch(*tiered, options, epoch));
    tiered->settle();
  }
  EXPECT_THAT(tiered->stats().text(), HasSubstr("disk: takes no more samples: cannot write"));
}

TEST(TieredSource, ASampleThatDoesNotFitFailsWithTheSourcesError) {
  const auto source = std::make_shared<CountingSource>(3);
  const Options options{.source = source, .order = order_of(3), .memory_bytes = 1 << 20};
  const auto tiered = must_open(options);
  data::Buffer room;
  ASSERT_TRUE(tiered->read(SampleId{1}, room).ok());
  std::byte one{};
  const auto read = tiered->read_into(SampleId{1}, {&one, 1});
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code(), Errc::kExhausted);
}

TEST(TieredSource, RefusesAnOrderOfAnotherSource) {
  const auto tiered =
      TieredSource::open({.source = std::make_shared<CountingSource>(3), .order = order_of(4)});
  ASSERT_FALSE(tiered.ok());
  EXPECT_EQ(tiered.error().message(), "the order has 4 samples, but the source has 3");
}

// ---- ranks ----

constexpr uint32_t kRanks = 3;

// Runs each rank as a thread with its own messages.
template <typename Work>
void for_each_rank(Work work) {
  auto ranks = comm::threads_comm(kRanks);
  std::vector<std::jthread> threads;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&work, rank, comm = std::move(ranks[rank])] {
      auto messages = comm->open_messages();
      ASSERT_TRUE(messages.ok()) << messages.error().message();
      std::shared_ptr<comm::Messages> shared = *std::move(messages);
      work(rank, *comm, shared);
    });
  }
}

TEST(TieredSource, RanksServeEachOther) {
  std::atomic<uint64_t> from_peers = 0;
  std::atomic<uint64_t> served = 0;
  std::atomic<uint64_t> from_source = 0;
  for_each_rank([&](uint32_t rank, comm::Comm& comm, std::shared_ptr<comm::Messages>& messages) {
    const Options options{.source = std::make_shared<CountingSource>(120),
                          .order = order_of(120),
                          .world = {rank, kRanks},
                          .horizon_epochs = 4,
                          .memory_bytes = 10 << 20,
                          .messages = messages,
                          .tag = comm::MessageTag{7},
                          .clock = &kNoTime};
    const auto tiered = must_open(options);
    for (uint64_t epoch = 0; epoch < 4; ++epoch) {
      expect_ok(read_epoch(*tiered, options, Epoch{epoch}, 2));
      expect_ok(comm.barrier());
    }
    from_peers += tiered->stats().of(Tier::kPeer).samples;
    from_source += tiered->stats().of(Tier::kSource).samples;
    served += tiered->stats().served;
    expect_ok(comm.barrier());
  });
  EXPECT_GT(from_peers, 0u);
  EXPECT_EQ(from_peers, served);
  EXPECT_LT(from_source, 4 * 120u - from_peers);
}

TEST(TieredSource, RanksServeEachOtherSamplesOfADrawnOrder) {
  auto drawing = std::make_shared<order::Drawing>();
  for (uint64_t i = 0; i < 120; ++i) drawing->weights.push_back(i % 6 == 0 ? 10 : 1);
  const std::shared_ptr<const order::Order> order =
      *order::make_order({.shuffle = order::Shuffle::kWeighted,
                          .sample_count = 120,
                          .seed = 9,
                          .position_count = 300,
                          .drawing = drawing});
  std::atomic<uint64_t> from_peers = 0;
  std::atomic<uint64_t> refusals = 0;
  std::atomic<uint64_t> from_source = 0;
  for_each_rank([&](uint32_t rank, comm::Comm& comm, std::shared_ptr<comm::Messages>& messages) {
    const Options options{.source = std::make_shared<CountingSource>(120),
                          .order = order,
                          .world = {rank, kRanks},
                          .horizon_epochs = 4,
                          .memory_bytes = 10 << 20,
                          .messages = messages,
                          .tag = comm::MessageTag{7},
                          .clock = &kNoTime};
    const auto tiered = must_open(options);
    for (uint64_t epoch = 0; epoch < 4; ++epoch) {
      expect_ok(read_epoch(*tiered, options, Epoch{epoch}, 2));
      expect_ok(comm.barrier());
    }
    from_peers += tiered->stats().of(Tier::kPeer).samples;
    from_source += tiered->stats().of(Tier::kSource).samples;
    refusals += tiered->stats().peer_refusals;
    expect_ok(comm.barrier());
  });
  EXPECT_GT(from_peers, 50u);
  // A rank refuses what it will read only later, because ranks do not wait for each other.
  EXPECT_LT(refusals, from_peers);
  EXPECT_LT(from_source, 330u);  // without peers, each rank reads each sample once
}

// Reads an epoch, ends rank 2 with `end`, and reads more epochs; returns their results by rank.
template <typename End>
std::vector<Status> outcomes_without_rank_2(uint64_t epochs, End end) {
  std::vector<Status> outcomes(kRanks);
  std::atomic<bool> has_ended = false;
  std::atomic<int> told_count = 0;
  for_each_rank([&](uint32_t rank, comm::Comm& comm, std::shared_ptr<comm::Messages>& messages) {
    Options options{.source = std::make_shared<CountingSource>(60),
                    .order = order_of(60),
                    .world = {rank, kRanks},
                    .horizon_epochs = 4,
                    .memory_bytes = 10 << 20,
                    .messages = messages,
                    .clock = &kNoTime};
    auto tiered = must_open(options);
    expect_ok(read_epoch(*tiered, options, Epoch{0}));
    expect_ok(comm.barrier());
    if (rank == 2) {
      tiered.reset();
      options.messages.reset();
      end(comm, messages, has_ended);
      return;
    }
    while (!has_ended) std::this_thread::sleep_for(1ms);
    for (uint64_t epoch = 1; epoch <= epochs && outcomes[rank].ok(); ++epoch) {
      outcomes[rank] = read_epoch(*tiered, options, Epoch{epoch}, 1);
    }
    // Stay until the other rank is done, which might otherwise fail on this rank, not on rank 2.
    for (++told_count; told_count < 2;) std::this_thread::sleep_for(1ms);
    static_cast<void>(comm.agree(outcomes[rank]).ok());  // if a rank has failed, waits for that
  });
  return outcomes;
}

TEST(TieredSource, ReadsTheSourceIfARankHasEndedNormally) {
  const auto outcomes =
      outcomes_without_rank_2(1, [](comm::Comm& comm, auto& messages, auto& ended) {
        messages.reset();
        ended = true;
        expect_ok(comm.agree({}));
      });
  expect_ok(outcomes[0]);
  expect_ok(outcomes[1]);
}

TEST(TieredSource, AnyRequestNamesARankThatHasFailed) {
  const auto outcomes = outcomes_without_rank_2(100, [](comm::Comm& comm, auto&, auto& ended) {
    ended = true;
    EXPECT_FALSE(comm.agree(fail(Errc::kIo, "its memory broke")).ok());
  });
  for (const uint32_t rank : {0, 1}) {
    ASSERT_FALSE(outcomes[rank].ok());
    EXPECT_THAT(outcomes[rank].error().message(), HasSubstr("rank 2: its memory broke"));
  }
}

TEST(TieredSource, RefusesMessagesOfAnotherRank) {
  auto ranks = comm::threads_comm(1);
  std::shared_ptr<comm::Messages> messages = *ranks[0]->open_messages();
  const auto tiered = TieredSource::open({.source = std::make_shared<CountingSource>(3),
                                          .order = order_of(3),
                                          .world = {1, 2},
                                          .messages = messages});
  ASSERT_FALSE(tiered.ok());
  EXPECT_THAT(tiered.error().message(), HasSubstr("but their messages are of rank 0 of 1"));
}

// A memory engine with slow reads, measured by a clock that only they advance.
class SlowEngine final : public io::Engine {
 public:
  explicit SlowEngine(FakeClock& clock) : clock_(&clock) {}

  void set_delay(std::chrono::nanoseconds delay) { delay_ = delay; }

  std::string_view name() const override { return "slow"; }
  Result<std::unique_ptr<io::Reader>> open(const std::filesystem::path& path) override {
    ASSIGN_OR_RETURN(auto reader, memory_.open(path));
    return std::unique_ptr<io::Reader>(new SlowReader(*this, std::move(reader)));
  }
  Result<std::unique_ptr<io::Writer>> create(const std::filesystem::path& path) override {
    return memory_.create(path);
  }
  Result<std::unique_ptr<io::ReadQueue>> open_queue(size_t capacity) override {
    return memory_.open_queue(capacity);
  }
  Result<size_t> read_whole(const std::filesystem::path& path, MutableByteView out) override {
    return memory_.read_whole(path, out);
  }

 private:
  class SlowReader final : public io::Reader {
   public:
    SlowReader(SlowEngine& engine, std::unique_ptr<io::Reader> reader)
        : engine_(&engine), reader_(std::move(reader)) {}

    Result<uint64_t> size_bytes() const override { return reader_->size_bytes(); }
    Result<size_t> read_at(uint64_t offset_bytes, MutableByteView out) const override {
      engine_->clock_->advance(engine_->delay_);
      return reader_->read_at(offset_bytes, out);
    }

   private:
    SlowEngine* engine_;
    std::unique_ptr<io::Reader> reader_;
  };

  FakeClock* clock_;
  std::atomic<std::chrono::nanoseconds> delay_{std::chrono::nanoseconds(0)};
  io::MemoryEngine memory_;
};

// Every disk read takes 20 ms, and the disk holds everything: answering every request would block
// the rank's own messages all the time.
TEST(TieredSource, ASlowDiskServesOnlySomeRequestsOfPeers) {
  auto ranks = comm::threads_comm(2);
  std::vector<std::shared_ptr<comm::Messages>> messages;
  std::jthread other([&] { messages.push_back(*ranks[1]->open_messages()); });
  std::shared_ptr<comm::Messages> asking = *ranks[0]->open_messages();
  other.join();
  FakeClock clock;
  const auto engine = std::make_shared<SlowEngine>(clock);
  const Options options{.source = std::make_shared<CountingSource>(40),
                        .order = order_of(40),
                        .world = {1, 2},
                        .disk_bytes = 10 << 20,
                        .disk_directory = "/tmp",
                        .disk_engine = engine,
                        .messages = messages[0],
                        .clock = &clock};
  const auto tiered = must_open(options);
  expect_ok(read_epoch(*tiered, options, Epoch{0}));
  tiered->settle();
  ASSERT_EQ(tiered->stats().disk.held_samples, 20u);
  engine->set_delay(20ms);
  Peer peer(*asking, options.tag, [](SampleId, std::string&) { return false; });
  for (uint64_t at = 1; at < 40; at += 2) {
    ASSERT_TRUE(peer.ask(1, options.order->at(Epoch{0}, at)).ok());
    clock.advance(5ms);
  }
  // Each read is followed by a pause of 20 ms in which three requests are refused.
  EXPECT_EQ(tiered->stats().served, 5u);
  EXPECT_EQ(tiered->stats().not_served, 15u);
}

// ---- the source contract ----

TEST(TieredSource, PassesTheSourceContractFromEveryTier) {
  data::SourceUnderTest test;
  for (uint64_t i = 0; i < 60; ++i) test.samples.push_back(CountingSource::content(SampleId{i}));
  for (const uint64_t memory_bytes : {0, 30'000, 1 << 20}) {
    for (const uint64_t disk_bytes : {uint64_t{0}, 20 * Extents::kBlockBytes, uint64_t{1} << 20}) {
      for (const bool flies : {false, true}) {
        const auto source = std::make_shared<CountingSource>(60);
        source->flies = flies;
        test.source = must_open({.source = source,
                                 .order = order_of(60),
                                 .memory_bytes = memory_bytes,
                                 .disk_bytes = disk_bytes,
                                 .disk_directory = "/tmp",
                                 .disk_engine = std::make_shared<io::MemoryEngine>()});
        SCOPED_TRACE(fmt::format("memory {}, disk {}, {}", memory_bytes, disk_bytes, flies));
        expect_ok(data::check_source(test));
      }
    }
  }
}

}  // namespace
}  // namespace millrace::loader::tiers
