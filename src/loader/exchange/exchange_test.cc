#include "loader/exchange/exchange.h"

#include <fcntl.h>
#include <gmock/gmock.h>

#include <cmath>
#include <mutex>
#include <set>

#include "base/io/file.h"
#include "base/io/temporary_directory.h"
#include "loader/exchange/settle.h"
#include "loader/exchange/staging.h"
#include "loader/testing/shard_job.h"

namespace millrace::loader::exchange {
namespace {

using data::Epoch;
using testing::Each;
using testing::HasSubstr;

struct Case {
  uint64_t sample_count;
  uint32_t ranks;
  double fraction;
};

TEST(ExchangeStats, ShareOfOverlappedWorkIsNeverBelowZero) {
  using std::chrono::milliseconds;
  EXPECT_EQ(Stats().overlapped_share(), 1);
  EXPECT_EQ(
      (Stats{.moving = milliseconds(3), .preparing = milliseconds(1), .waited = milliseconds(1)}
           .overlapped_share()),
      0.75);
  EXPECT_EQ((Stats{.moving = milliseconds(1), .waited = milliseconds(2)}.overlapped_share()), 0);
}

class Exchanges : public testing::TestWithParam<Case> {};

TEST_P(Exchanges, LeaveInEachStorageExactlyTheBytesOfTheOrder) {
  const auto directory = *TemporaryDirectory::create();
  const order::Options order =
      partial_order(GetParam().sample_count, GetParam().ranks, GetParam().fraction);
  EXPECT_THAT(run_ranks(GetParam().ranks,
                        [&](comm::Comm& comm) {
                          return run_exchanges(
                              {.directory = directory.path(), .order = order, .epochs = 5}, comm);
                        }),
              Each(""));
  std::set<data::SampleId> all;
  for (uint32_t rank = 0; rank < GetParam().ranks; ++rank) {
    const auto storage = open_storage(directory.path(), order, rank);
    ASSERT_TRUE(storage.ok()) << storage.error().message();
    EXPECT_EQ((*storage)->epoch(), Epoch{5});
    const Status status = check_storage(**storage);
    EXPECT_TRUE(status.ok()) << status.error().message();
    for (const data::SampleId sample : (*storage)->samples()) all.insert(sample);
  }
  EXPECT_EQ(all.size(), GetParam().sample_count);
}

INSTANTIATE_TEST_SUITE_P(Cases, Exchanges,
                         testing::Values(Case{0, 2, 0.5}, Case{3, 4, 1}, Case{50, 1, 0.5},
                                         Case{101, 2, 0.3}, Case{230, 4, 0.1}, Case{230, 4, 1},
                                         Case{99, 3, 0}));

// What a rank stored and moved in several epochs.
struct Used {
  uint64_t stored_count_max = 0;
  uint64_t held_bytes = 0;
  uint64_t file_size_bytes = 0;
  Stats stats;
};

TEST(Exchange, StoresAndSendsNoMoreThanItsFraction) {
  constexpr uint64_t kSamples = 400;
  constexpr uint32_t kRanks = 4;
  constexpr uint64_t kEpochs = 12;
  const auto directory = *TemporaryDirectory::create();
  const order::Options order = partial_order(kSamples, kRanks, 0.2);
  std::vector<Used> used(kRanks);
  const auto work = [&](comm::Comm& comm) -> Status {
    const uint32_t rank = comm::index_of(comm.rank());
    ASSIGN_OR_RETURN(const auto storage, open_storage(directory.path(), order, rank));
    RETURN_IF_ERROR(settle(*storage, comm));
    RETURN_IF_ERROR(stage_shard(*storage, NumberedSource(kSamples), comm));
    ASSIGN_OR_RETURN(const auto messages, comm.open_messages());
    Exchange exchange(comm, *messages, *storage);
    for (uint64_t e = 0; e < kEpochs; ++e) {
      RETURN_IF_ERROR(exchange.start());
      RETURN_IF_ERROR(exchange.finish());
    }
    used[rank] = {.stored_count_max = storage->stored_count_max(),
                  .file_size_bytes = storage->file_size_bytes(),
                  .stats = exchange.stats()};
    for (const data::SampleId sample : storage->samples()) {
      used[rank].held_bytes += bytes_of_sample(data::index_of(sample)).size();
    }
    return {};
  };
  ASSERT_THAT(run_ranks(kRanks, work), Each(""));
  for (const Used& rank : used) {
    EXPECT_LE(rank.stored_count_max, kSamples / kRanks * 1.2);
    // Places are reused: the file does not grow with each epoch.
    EXPECT_LT(static_cast<double>(rank.file_size_bytes),
              1.6 * static_cast<double>(rank.held_bytes));
    EXPECT_LE(rank.stats.samples_sent, kEpochs * 20);
    EXPECT_GT(rank.stats.samples_sent, kEpochs * 10);
    EXPECT_EQ(rank.stats.samples_sent, rank.stats.samples_received);
    EXPECT_GT(rank.stats.bytes_sent, rank.stats.samples_sent * 500);
    EXPECT_GT(rank.stats.moving.count(), 0);
  }
}

TEST(Exchange, RanksMayHaveDifferentNumbersOfIterations) {
  const auto directory = *TemporaryDirectory::create();
  const order::Options order = partial_order(300, 3, 0.5);
  const auto work = [&](comm::Comm& comm) {
    return run_exchanges({.directory = directory.path(),
                          .order = order,
                          .epochs = 3,
                          .iterations = comm::index_of(comm.rank()) * 4},
                         comm);
  };
  EXPECT_THAT(run_ranks(3, work), Each(""));
}

TEST(Exchange, IfARankExitsTheOthersFailAndNameIt) {
  const auto directory = *TemporaryDirectory::create();
  const order::Options order = partial_order(200, 4, 1);
  const auto work = [&](comm::Comm& comm) -> Status {
    const uint32_t rank = comm::index_of(comm.rank());
    ASSIGN_OR_RETURN(const auto storage, open_storage(directory.path(), order, rank));
    RETURN_IF_ERROR(settle(*storage, comm));
    RETURN_IF_ERROR(stage_shard(*storage, NumberedSource(200), comm));
    ASSIGN_OR_RETURN(const auto messages, comm.open_messages());
    Exchange exchange(comm, *messages, *storage);
    RETURN_IF_ERROR(exchange.start());
    if (rank == 2) return {};  // like a process that exits early
    Status status = exchange.finish();
    EXPECT_EQ(exchange.finish().error().message(), status.error().message()) << "asked again";
    return status;
  };
  const auto told = run_ranks(4, work);
  for (const uint32_t rank : {0, 1, 3}) EXPECT_THAT(told[rank], HasSubstr("rank 2")) << rank;
  // All ranks are still in epoch 0 and continue from there.
  EXPECT_THAT(run_ranks(4,
                        [&](comm::Comm& comm) {
                          return run_exchanges(
                              {.directory = directory.path(), .order = order, .epochs = 2}, comm);
                        }),
              Each(""));
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const auto storage = *open_storage(directory.path(), order, rank);
    EXPECT_EQ(storage->epoch(), Epoch{2});
    EXPECT_TRUE(check_storage(*storage).ok());
  }
}

TEST(Exchange, RequiresStagedSamples) {
  const auto directory = *TemporaryDirectory::create();
  const auto told = run_ranks(1, [&](comm::Comm& comm) -> Status {
    ASSIGN_OR_RETURN(const auto storage, open_storage(directory.path(), partial_order(5, 1, 1), 0));
    ASSIGN_OR_RETURN(const auto messages, comm.open_messages());
    return Exchange(comm, *messages, *storage).start();
  });
  EXPECT_THAT(told[0], HasSubstr("stage them first"));
}

// ---- the bytes of a message ----

class ExchangeMessage : public testing::Test {
 protected:
  ExchangeMessage() {
    storage_ = *open_storage(directory_.path(), partial_order(4, 1, 1), 0);
    for (uint64_t i = 0; i < 4; ++i) {
      const std::string bytes = bytes_of_sample(i);
      EXPECT_TRUE(storage_->stage(i, data::SampleId{i}, bytes_of(bytes)).ok());
    }
    EXPECT_TRUE(storage_->prepare(Epoch{0}).ok());
    EXPECT_TRUE(storage_->commit().ok());
    message_ = packed();
  }

  std::string packed() const {
    data::Buffer room;
    return std::string(text_of(*pack_samples(round_, moves_, *storage_, room)));
  }

  std::string refused(const std::string& message) const {
    const auto samples = unpack_samples(round_, moves_, bytes_of(message));
    return samples.ok() ? "" : samples.error().message();
  }

  TemporaryDirectory directory_ = *TemporaryDirectory::create();
  std::unique_ptr<ShardStorage> storage_;
  Round round_{.epoch = Epoch{3}, .round = 5};
  std::vector<Move> moves_ = {{.turn = 7, .peer = 1, .sample = data::SampleId{2}},
                              {.turn = 9, .peer = 1, .sample = data::SampleId{0}}};
  std::string message_;
};

TEST_F(ExchangeMessage, ContainsTheSamplesOfItsMoves) {
  const auto samples = unpack_samples(round_, moves_, bytes_of(message_));
  ASSERT_TRUE(samples.ok()) << samples.error().message();
  EXPECT_EQ(text_of((*samples)[0].bytes), bytes_of_sample(2));
  EXPECT_EQ(text_of((*samples)[1].bytes), bytes_of_sample(0));
}

TEST_F(ExchangeMessage, IsRefusedIfTruncatedOrChangedAnywhere) {
  for (size_t length = 0; length < message_.size(); length += 1 + length / 10) {
    EXPECT_NE(refused(message_.substr(0, length)), "") << length;
  }
  for (size_t at = 0; at < message_.size(); ++at) {
    // The zero words carry no information.
    if ((at >= 52 && at < 56) || at >= message_.size() - 4) continue;
    std::string changed = message_;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    ASSERT_NE(refused(changed), "") << at;
  }
  EXPECT_THAT(refused(message_ + "x"), HasSubstr("1 extra bytes after the last sample"));
}

TEST_F(ExchangeMessage, IsRefusedIfBytesChangedOnTheSendersDisk) {
  const auto path = directory_.path() / "rank0" / "samples";
  const auto file = File::open(path, O_RDWR);
  ASSERT_TRUE(file.ok()) << file.error().message();
  const auto bytes = read_file(path);
  const size_t at = bytes->find(bytes_of_sample(2));
  ASSERT_NE(at, std::string::npos);
  ASSERT_TRUE(file->write_at(at, bytes_of(std::string_view("?"))).ok());
  EXPECT_THAT(refused(packed()), HasSubstr("damaged bytes of sample 2; check its disk"));
}

TEST_F(ExchangeMessage, OfAnotherRoundIsRefusedByName) {
  round_.round = 6;
  EXPECT_EQ(refused(message_), "it sent round 5 of epoch 3 instead of round 6 of epoch 3");
}

}  // namespace
}  // namespace millrace::loader::exchange
