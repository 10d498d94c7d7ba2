#include "loader/exchange/settle.h"

#include <gmock/gmock.h>

#include "base/hash/crc32c.h"
#include "base/io/temporary_directory.h"
#include "loader/exchange/plan.h"
#include "loader/testing/shard_job.h"

namespace millrace::loader::exchange {
namespace {

using data::Epoch;
using testing::Each;
using testing::HasSubstr;

constexpr std::optional<Epoch> kNone;

std::optional<Epoch> common(const std::vector<StorageEpochs>& ranks) { return common_epoch(ranks); }

TEST(CommonEpoch, IsTheNextIfAllHavePreparedIt) {
  EXPECT_EQ(common({{Epoch{3}, Epoch{4}}, {Epoch{3}, Epoch{4}}}), Epoch{4});
  EXPECT_EQ(common({{kNone, Epoch{0}}, {kNone, Epoch{0}}}), Epoch{0});
}

TEST(CommonEpoch, IsTheOldIfOneHasNotPreparedTheNext) {
  EXPECT_EQ(common({{Epoch{3}, Epoch{4}}, {Epoch{3}, kNone}}), Epoch{3});
  EXPECT_EQ(common({{Epoch{3}, kNone}, {Epoch{3}, kNone}}), Epoch{3});
  EXPECT_EQ(common({{kNone, Epoch{0}}, {kNone, kNone}}), kNone);
}

TEST(CommonEpoch, IsWhatOneHasCommitted) {
  EXPECT_EQ(common({{Epoch{4}, kNone}, {Epoch{3}, Epoch{4}}}), Epoch{4});
  EXPECT_EQ(common({{kNone, Epoch{0}}, {Epoch{0}, kNone}}), Epoch{0});
  // A quick rank has prepared the epoch after next before the slow one committed.
  EXPECT_EQ(common({{Epoch{4}, Epoch{5}}, {Epoch{3}, Epoch{4}}}), Epoch{4});
}

TEST(CommonEpoch, DoesNotExistIfAStorageIsOfAnotherRunOrLost) {
  EXPECT_EQ(common({{Epoch{4}, kNone}, {Epoch{2}, Epoch{3}}}), kNone);
  EXPECT_EQ(common({{kNone, kNone}, {Epoch{2}, kNone}}), kNone);
  EXPECT_EQ(common({{Epoch{2}, kNone}, {kNone, kNone}}), kNone);
  EXPECT_EQ(common({{Epoch{2}, Epoch{3}}, {kNone, Epoch{0}}}), kNone);
}

// All cases in which two of three ranks are ahead of the third.
TEST(Settle, BringsAllRanksToOneEpochAfterAnyCrash) {
  enum class Stop { kStaged, kPrepared, kCommitted };
  const order::Options order = partial_order(60, 3, 0.5);
  for (const Stop slow : {Stop::kStaged, Stop::kPrepared}) {
    for (const Stop quick : {Stop::kPrepared, Stop::kCommitted}) {
      if (slow == Stop::kStaged && quick == Stop::kCommitted) continue;  // needs all prepared
      const auto directory = *TemporaryDirectory::create();
      ASSERT_THAT(run_ranks(3,
                            [&](comm::Comm& comm) {
                              return run_exchanges(
                                  {.directory = directory.path(), .order = order, .epochs = 2},
                                  comm);
                            }),
                  Each(""));
      const order::PartialMoves moves(order);
      for (uint32_t rank = 0; rank < 3; ++rank) {
        const auto storage = *open_storage(directory.path(), order, rank);
        const Stop stop = rank == 1 ? slow : quick;
        for (const Move& move : plan_exchange(moves, Epoch{2}, rank).receives) {
          const std::string bytes = bytes_of_sample(data::index_of(move.sample));
          ASSERT_TRUE(storage
                          ->stage_for(move.in_place_of, move.sample, bytes_of(bytes),
                                      crc32c(bytes_of(bytes)))
                          .ok());
        }
        ASSERT_TRUE(stop == Stop::kStaged || storage->prepare(Epoch{3}).ok());
        ASSERT_TRUE(stop != Stop::kCommitted || storage->commit().ok());
      }
      const auto told = run_ranks(3, [&](comm::Comm& comm) -> Status {
        ASSIGN_OR_RETURN(const auto storage,
                         open_storage(directory.path(), order, comm::index_of(comm.rank())));
        RETURN_IF_ERROR(settle(*storage, comm));
        const Epoch due{slow == Stop::kPrepared ? 3u : 2u};
        if (storage->epoch() != due) return fail(Errc::kCorrupt, "is in another epoch");
        return check_storage(*storage);
      });
      EXPECT_THAT(told, Each(""));
    }
  }
}

TEST(Settle, RefusesAnotherNumberOfRanks) {
  const auto directory = *TemporaryDirectory::create();
  const auto told = run_ranks(2, [&](comm::Comm& comm) -> Status {
    ASSIGN_OR_RETURN(const auto storage, open_storage(directory.path(), partial_order(60, 3, 0.5),
                                                      comm::index_of(comm.rank())));
    RETURN_IF_ERROR(settle(*storage, comm));
    return {};
  });
  EXPECT_THAT(told, Each(HasSubstr("held by 3 ranks, but this job has 2; start it with 3")));
}

}  // namespace
}  // namespace millrace::loader::exchange
