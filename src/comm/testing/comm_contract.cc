#include "comm/testing/comm_contract.h"

#include <bit>
#include <chrono>
#include <numeric>
#include <thread>

#include "base/numbers/random.h"
#include "base/system/clock.h"

namespace millrace::comm {
namespace {

using namespace std::chrono_literals;
using Ours = std::unique_ptr<Comm>;

Status expect(bool holds, std::string_view what) {
  if (holds) return {};
  return fail(Errc::kCorrupt, "violated: {}", what);
}

Rank last_rank(const Comm& comm) { return static_cast<Rank>(comm.size() - 1); }
bool is_last(const Comm& comm) { return comm.rank() == last_rank(comm); }

// Different bytes for each rank, with zeros among them.
std::string bytes_of_rank(uint32_t rank, size_t length) {
  std::string bytes(length, '\0');
  Random random(rank + 1);
  for (char& byte : bytes) byte = static_cast<char>(random.below(256));
  return bytes;
}

template <typename Try>
Status for_each_root(const Comm& comm, Try try_root) {
  for (uint32_t root = 0; root < comm.size(); ++root) {
    RETURN_IF_ERROR(try_root(static_cast<Rank>(root)).within(fmt::format("root {}", root)));
  }
  return {};
}

// ---- successes ----

Status ranks_are_counted(Ours& comm) {
  RETURN_IF_ERROR(expect(index_of(comm->rank()) < comm->size(), "a rank is below the size"));
  std::vector<uint64_t> seen(comm->size(), 0);
  seen[index_of(comm->rank())] = 1;
  RETURN_IF_ERROR(comm->reduce_to_all(seen, Fold::kSum));
  RETURN_IF_ERROR(expect(seen == std::vector<uint64_t>(comm->size(), 1), "each rank exists once"));
  const bool speaks = comm->speaks();
  RETURN_IF_ERROR(comm->barrier());  // a rank that has ended no longer speaks
  return expect(speaks == (comm->rank() == kFirstRank), "only rank 0 speaks");
}

Status barrier_waits_for_the_last(Ours& comm) {
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(10ms * index_of(comm->rank()));
    uint64_t came_ns = static_cast<uint64_t>(monotonic_now().count());
    RETURN_IF_ERROR(comm->barrier());
    const auto went_ns = static_cast<uint64_t>(monotonic_now().count());
    RETURN_IF_ERROR(comm->reduce_to_all(std::span(&came_ns, 1), Fold::kMax));
    RETURN_IF_ERROR(
        expect(went_ns >= came_ns, "no rank leaves a barrier before the last has arrived"));
  }
  return {};
}

Status broadcast_sends_the_bytes_of_the_root_to_all(Ours& comm) {
  return for_each_root(*comm, [&](Rank root) -> Status {
    for (const size_t length : {0, 1, 100'001, 300'001}) {
      std::string bytes = bytes_of_rank(index_of(comm->rank()), length + index_of(comm->rank()));
      RETURN_IF_ERROR(comm->broadcast(bytes, root));
      RETURN_IF_ERROR(expect(bytes == bytes_of_rank(index_of(root), length + index_of(root)),
                             "all have the root's bytes"));
    }
    return {};
  });
}

Status reduce_folds_integers_only_at_the_root(Ours& comm) {
  const uint64_t mine = index_of(comm->rank()) + 1;
  const uint64_t n = comm->size();
  constexpr uint64_t kHuge = uint64_t{1} << 63;
  const std::vector<uint64_t> brought = {mine, 1, kHuge | mine, 100 - mine};
  const auto folded = [&](Fold fold) -> std::vector<uint64_t> {
    const uint64_t sum = n * (n + 1) / 2;
    if (fold == Fold::kSum) return {sum, n, (n % 2) * kHuge + sum, 100 * n - sum};
    if (fold == Fold::kMin) return {1, 1, kHuge | 1, 100 - n};
    return {n, 1, kHuge | n, 99};
  };
  return for_each_root(*comm, [&](Rank root) -> Status {
    for (const Fold fold : {Fold::kSum, Fold::kMin, Fold::kMax}) {
      std::vector<uint64_t> values = brought;
      RETURN_IF_ERROR(comm->reduce(values, fold, root));
      const bool is_root = comm->rank() == root;
      RETURN_IF_ERROR(expect(values == (is_root ? folded(fold) : brought),
                             "the root has the fold, and the others have their own values"));
      values = brought;
      RETURN_IF_ERROR(comm->reduce_to_all(values, fold));
      RETURN_IF_ERROR(expect(values == folded(fold), "all have the fold"));
    }
    std::vector<uint64_t> none;
    return comm->reduce(none, Fold::kSum, root);
  });
}

Status reduce_folds_many_numbers(Ours& comm) {
  std::vector<uint64_t> values(20'011);
  std::iota(values.begin(), values.end(), index_of(comm->rank()));
  RETURN_IF_ERROR(comm->reduce_to_all(values, Fold::kSum));
  const uint64_t n = comm->size();
  for (uint64_t i = 0; i < values.size(); ++i) {
    RETURN_IF_ERROR(
        expect(values[i] == n * i + n * (n - 1) / 2, "each element is folded on its own"));
  }
  return {};
}

Status min_and_max_are_unsigned(Ours& comm) {
  const uint64_t large = ~uint64_t{0} - index_of(comm->rank());
  uint64_t least[] = {large, comm->rank() == kFirstRank ? 7 : large};
  uint64_t greatest[] = {large, comm->rank() == kFirstRank ? large : 7};
  RETURN_IF_ERROR(comm->reduce_to_all(least, Fold::kMin));
  RETURN_IF_ERROR(comm->reduce_to_all(greatest, Fold::kMax));
  RETURN_IF_ERROR(
      expect(least[0] == ~uint64_t{0} - (comm->size() - 1), "the minimum of large numbers"));
  RETURN_IF_ERROR(expect(least[1] == 7, "a small number is less than a large one"));
  RETURN_IF_ERROR(expect(greatest[0] == ~uint64_t{0}, "the maximum of large numbers"));
  return expect(greatest[1] == ~uint64_t{0}, "a large number is greater than a small one");
}

Status floating_point_sums_are_the_same_bits_on_all_ranks(Ours& comm) {
  Random random(index_of(comm->rank()));
  std::vector<double> values;
  for (int i = 0; i < 1000; ++i) {
    values.push_back(static_cast<double>(random.next()) / 3.0 - 1e18);
  }
  values.push_back(0.5 * (index_of(comm->rank()) + 1));
  std::vector<double> extremes = {values.back(), values.back()};
  RETURN_IF_ERROR(comm->reduce_to_all(values, Fold::kSum));
  const double n = comm->size();
  RETURN_IF_ERROR(expect(values.back() == n * (n + 1) / 4, "a sum without rounding is exact"));
  for (const double value : values) {
    uint64_t bits[2] = {std::bit_cast<uint64_t>(value), ~std::bit_cast<uint64_t>(value)};
    RETURN_IF_ERROR(comm->reduce_to_all(std::span(bits), Fold::kMin));
    RETURN_IF_ERROR(expect(bits[0] == ~bits[1], "all ranks have the same bits"));
  }
  RETURN_IF_ERROR(comm->reduce_to_all(std::span(extremes).first(1), Fold::kMin));
  RETURN_IF_ERROR(comm->reduce_to_all(std::span(extremes).last(1), Fold::kMax));
  return expect(extremes[0] == 0.5 && extremes[1] == 0.5 * n, "minimum and maximum are correct");
}

Status gather_returns_strings_of_any_length(Ours& comm) {
  // Rank 0 passes nothing; one rank may pass much more than the others.
  const auto brought_by = [](uint32_t rank, size_t of_one) {
    return bytes_of_rank(rank, rank == 1 ? of_one : rank * 1000);
  };
  const auto check = [&](Rank root, size_t of_one) -> Status {
    const std::string mine = brought_by(index_of(comm->rank()), of_one);
    ASSIGN_OR_RETURN(const auto gathered, comm->gather(bytes_of(mine), root));
    if (comm->rank() != root) return expect(gathered.empty(), "the others get nothing");
    RETURN_IF_ERROR(expect(gathered.size() == comm->size(), "there is one string per rank"));
    for (uint32_t rank = 0; rank < comm->size(); ++rank) {
      RETURN_IF_ERROR(
          expect(gathered[rank] == brought_by(rank, of_one), "each string is the one of its rank"));
    }
    return {};
  };
  return for_each_root(*comm, [&](Rank root) -> Status {
    for (const size_t of_one : {0, 1000, 300'007}) RETURN_IF_ERROR(check(root, of_one));
    return {};
  });
}

Status gather_to_all_returns_all_strings_on_all_ranks(Ours& comm) {
  const auto brought_by = [](uint32_t rank) { return bytes_of_rank(rank, 17 * rank); };
  const std::string mine = brought_by(index_of(comm->rank()));
  ASSIGN_OR_RETURN(const auto gathered, comm->gather_to_all(bytes_of(mine)));
  RETURN_IF_ERROR(expect(gathered.size() == comm->size(), "there is one string per rank"));
  for (uint32_t rank = 0; rank < comm->size(); ++rank) {
    RETURN_IF_ERROR(
        expect(gathered[rank] == brought_by(rank), "each string is the one of its rank"));
  }
  return {};
}

Status ranks_that_succeed_agree(Ours& comm) { return comm->agree({}); }

// The same random order on all ranks, at different speeds.
Status calls_of_all_kinds_follow_each_other(Ours& comm) {
  Random order(7);
  Random pace(index_of(comm->rank()));
  for (int round = 0; round < 100; ++round) {
    const auto root = static_cast<Rank>(order.below(comm->size()));
    if (pace.below(8) == 0) std::this_thread::sleep_for(200us);
    uint64_t number = index_of(comm->rank());
    std::string bytes = bytes_of_rank(index_of(comm->rank()), order.below(3000));
    switch (order.below(4)) {
      case 0:
        RETURN_IF_ERROR(comm->barrier());
        break;
      case 1:
        RETURN_IF_ERROR(comm->broadcast(bytes, root));
        RETURN_IF_ERROR(expect(bytes == bytes_of_rank(index_of(root), bytes.size()),
                               "a broadcast among other calls is correct"));
        break;
      case 2:
        RETURN_IF_ERROR(comm->reduce_to_all(std::span(&number, 1), Fold::kMax));
        RETURN_IF_ERROR(
            expect(number == comm->size() - 1, "a reduction among other calls is correct"));
        break;
      default:
        ASSIGN_OR_RETURN(const auto gathered, comm->gather(bytes_of(bytes), root));
        RETURN_IF_ERROR(expect(gathered.size() == (comm->rank() == root ? comm->size() : 0),
                               "a gather among other calls is correct"));
    }
  }
  return {};
}

// ---- failures and their messages ----

Status expect_failure(const Status& status, std::string_view message) {
  if (status.ok())
    return fail(Errc::kCorrupt, "a call succeeded that should have failed: {}", message);
  if (status.error().message() == message) return {};
  return fail(Errc::kCorrupt, "a call failed with '{}', not with '{}'", status.error().message(),
              message);
}

std::string error_of(const Comm& comm, Rank rank, std::string_view message) {
  if (comm.size() == 1) return std::string(message);
  return fmt::format("rank {}: {}", index_of(rank), message);
}

// After a failure every call returns the same error at once, whatever the others do.
Status expect_sticky(Comm& comm, std::string_view message) {
  std::string bytes = "unchanged";
  uint64_t number = 42;
  RETURN_IF_ERROR(expect_failure(comm.barrier(), message));
  RETURN_IF_ERROR(expect_failure(comm.broadcast(bytes, kFirstRank), message));
  RETURN_IF_ERROR(expect_failure(comm.reduce_to_all(std::span(&number, 1), Fold::kSum), message));
  RETURN_IF_ERROR(expect_failure(comm.agree({}), message));
  RETURN_IF_ERROR(expect_failure(comm.agree(fail(Errc::kIo, "another one")), message));
  const auto gathered = comm.gather(bytes_of(bytes), kFirstRank);
  RETURN_IF_ERROR(expect(!gathered.ok() && gathered.error().message() == message,
                         "a gather fails with the same message"));
  return expect(bytes == "unchanged" && number == 42, "a failed call changes nothing");
}

Status a_failure_is_reported_on_all_ranks(Ours& comm) {
  const Rank failing = last_rank(*comm);
  Status mine;
  if (is_last(*comm)) mine = fail(Errc::kNotFound, "a/b.mrt: no such file");
  const Status agreed = comm->agree(mine);
  const std::string expected = error_of(*comm, failing, "a/b.mrt: no such file");
  RETURN_IF_ERROR(expect_failure(agreed, expected));
  RETURN_IF_ERROR(expect(agreed.error().code() == Errc::kNotFound, "the error code is kept"));
  return expect_sticky(*comm, expected);
}

Status the_failure_of_the_lowest_rank_is_reported(Ours& comm) {
  const auto mine = fail(Errc::kIo, "fault {}", index_of(comm->rank()));
  const bool alone = comm->size() == 1;
  const Rank lowest{alone ? 0u : 1u};
  const Status agreed = comm->agree(comm->rank() < lowest ? Status() : mine);
  return expect_failure(agreed, error_of(*comm, lowest, fmt::format("fault {}", index_of(lowest))));
}

template <typename WaitIn>
Status fail_while_others_wait(Ours& comm, WaitIn wait_in) {
  const Rank failing = last_rank(*comm);
  Status status;
  if (is_last(*comm)) {
    std::this_thread::sleep_for(20ms);
    status = comm->agree(fail(Errc::kCorrupt, "the file ends at byte 7"));
  } else {
    status = wait_in(*comm);
  }
  const std::string expected = error_of(*comm, failing, "the file ends at byte 7");
  RETURN_IF_ERROR(expect_failure(status, expected));
  return expect_sticky(*comm, expected);
}

Status a_failure_reaches_ranks_waiting_in_a_barrier(Ours& comm) {
  return fail_while_others_wait(comm, [](Comm& other) { return other.barrier(); });
}

Status a_failure_reaches_ranks_waiting_in_a_broadcast(Ours& comm) {
  return fail_while_others_wait(comm, [](Comm& other) {
    std::string bytes = "of the root";
    return other.broadcast(bytes, last_rank(other));  // the root is the rank that failed
  });
}

Status a_failure_reaches_ranks_waiting_in_a_reduction(Ours& comm) {
  return fail_while_others_wait(comm, [](Comm& other) {
    std::vector<uint64_t> values(1000, 1);
    return other.reduce(values, Fold::kSum, kFirstRank);
  });
}

Status a_failure_reaches_ranks_waiting_in_a_gather(Ours& comm) {
  return fail_while_others_wait(comm, [](Comm& other) -> Status {
    RETURN_IF_ERROR(other.gather(bytes_of("mine"), kFirstRank));
    return {};
  });
}

Status waiting_ranks_learn_which_rank_ended(Ours& comm) {
  if (comm->size() == 1) return {};
  if (is_last(*comm)) {
    std::this_thread::sleep_for(20ms);
    comm.reset();
    return {};
  }
  const Status status = comm->barrier();
  RETURN_IF_ERROR(expect(!status.ok(), "a barrier without all ranks fails"));
  const std::string beginning =
      fmt::format("rank {} ended while rank ", index_of(last_rank(*comm)));
  const std::string& message = status.error().message();
  RETURN_IF_ERROR(expect(message.starts_with(beginning), message + " names the rank that ended"));
  RETURN_IF_ERROR(expect(message.ends_with(" waited in a barrier"), message + " names the call"));
  return expect_sticky(*comm, message);
}

Status different_calls_are_refused(Ours& comm) {
  if (comm->size() == 1) return {};
  std::string bytes;
  const Status status = is_last(*comm) ? comm->broadcast(bytes, kFirstRank) : comm->barrier();
  const std::string expected = fmt::format(
      "rank 0 is in a barrier while rank {} is in a broadcast; this is a bug in the program, "
      "please report it",
      index_of(last_rank(*comm)));
  RETURN_IF_ERROR(expect_failure(status, expected));
  return expect_sticky(*comm, expected);
}

Status different_counts_are_refused(Ours& comm) {
  if (comm->size() == 1) return {};
  std::vector<uint64_t> values(is_last(*comm) ? 3 : 2, 5);
  const std::vector<uint64_t> before = values;
  const Status status = comm->reduce_to_all(values, Fold::kSum);
  RETURN_IF_ERROR(expect(!status.ok(), "different counts are refused"));
  return expect(values == before, "a refused reduction changes nothing");
}

Status different_types_are_refused(Ours& comm) {
  if (comm->size() == 1) return {};
  std::vector<uint64_t> whole = {1, 2};
  std::vector<double> floating = {1, 2};
  const Status status = is_last(*comm) ? comm->reduce(floating, Fold::kSum, kFirstRank)
                                       : comm->reduce(whole, Fold::kSum, kFirstRank);
  return expect(!status.ok(), "different types are refused");
}

Status an_invalid_root_is_refused(Ours& comm) {
  std::string bytes = "mine";
  const std::string expected = error_of(
      *comm, kFirstRank,
      fmt::format("there is no rank {}; the world size is {}", comm->size(), comm->size()));
  RETURN_IF_ERROR(
      expect_failure(comm->broadcast(bytes, static_cast<Rank>(comm->size())), expected));
  return expect_sticky(*comm, expected);
}

constexpr ContractClause kContract[] = {
    {"RanksAreCounted", false, ranks_are_counted},
    {"BarrierWaitsForTheLast", false, barrier_waits_for_the_last},
    {"BroadcastSendsTheBytesOfTheRootToAll", false, broadcast_sends_the_bytes_of_the_root_to_all},
    {"ReduceFoldsIntegersOnlyAtTheRoot", false, reduce_folds_integers_only_at_the_root},
    {"ReduceFoldsManyNumbers", false, reduce_folds_many_numbers},
    {"MinAndMaxAreUnsigned", false, min_and_max_are_unsigned},
    {"FloatingPointSumsAreTheSameBitsOnAllRanks", false,
     floating_point_sums_are_the_same_bits_on_all_ranks},
    {"GatherReturnsStringsOfAnyLength", false, gather_returns_strings_of_any_length},
    {"GatherToAllReturnsAllStringsOnAllRanks", false,
     gather_to_all_returns_all_strings_on_all_ranks},
    {"RanksThatSucceedAgree", false, ranks_that_succeed_agree},
    {"CallsOfAllKindsFollowEachOther", false, calls_of_all_kinds_follow_each_other},
    {"AFailureIsReportedOnAllRanks", true, a_failure_is_reported_on_all_ranks},
    {"TheFailureOfTheLowestRankIsReported", true, the_failure_of_the_lowest_rank_is_reported},
    {"AFailureReachesRanksWaitingInABarrier", true, a_failure_reaches_ranks_waiting_in_a_barrier},
    {"AFailureReachesRanksWaitingInABroadcast", true,
     a_failure_reaches_ranks_waiting_in_a_broadcast},
    {"AFailureReachesRanksWaitingInAReduction", true,
     a_failure_reaches_ranks_waiting_in_a_reduction},
    {"AFailureReachesRanksWaitingInAGather", true, a_failure_reaches_ranks_waiting_in_a_gather},
    {"WaitingRanksLearnWhichRankEnded", true, waiting_ranks_learn_which_rank_ended},
    {"DifferentCallsAreRefused", true, different_calls_are_refused},
    {"DifferentCountsAreRefused", true, different_counts_are_refused},
    {"DifferentTypesAreRefused", true, different_types_are_refused},
    {"AnInvalidRootIsRefused", true, an_invalid_root_is_refused},
};

}  // namespace

std::span<const ContractClause> contract() { return kContract; }

}  // namespace millrace::comm
