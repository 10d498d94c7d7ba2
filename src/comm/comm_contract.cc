#include "comm/comm_contract.h"

#include <bit>
#include <chrono>
#include <numeric>
#include <thread>

#include "base/clock.h"
#include "base/random.h"

namespace millrace::comm {
namespace {

using namespace std::chrono_literals;
using Ours = std::unique_ptr<Comm>;

Status expect(bool holds, std::string_view what) {
  if (holds) return {};
  return fail(Errc::kCorrupt, "it does not hold that {}", what);
}

Rank last_rank(const Comm& comm) { return static_cast<Rank>(comm.size() - 1); }
bool is_last(const Comm& comm) { return comm.rank() == last_rank(comm); }

// Bytes that tell whose they are, zeros among them.
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

// ---- what succeeds ----

Status ranks_are_counted(Ours& comm) {
  RETURN_IF_ERROR(expect(index_of(comm->rank()) < comm->size(), "a rank is below the size"));
  std::vector<uint64_t> seen(comm->size(), 0);
  seen[index_of(comm->rank())] = 1;
  RETURN_IF_ERROR(comm->reduce_to_all(seen, Fold::kSum));
  RETURN_IF_ERROR(
      expect(seen == std::vector<uint64_t>(comm->size(), 1), "each rank is there once"));
  const bool speaks = comm->speaks();
  RETURN_IF_ERROR(comm->barrier());  // one that has gone speaks no more
  return expect(speaks == (comm->rank() == kFirstRank), "rank 0 alone speaks");
}

Status barrier_waits_for_the_last(Ours& comm) {
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(10ms * index_of(comm->rank()));
    uint64_t came_ns = static_cast<uint64_t>(monotonic_now().count());
    RETURN_IF_ERROR(comm->barrier());
    const auto went_ns = static_cast<uint64_t>(monotonic_now().count());
    RETURN_IF_ERROR(comm->reduce_to_all(std::span(&came_ns, 1), Fold::kMax));
    RETURN_IF_ERROR(expect(went_ns >= came_ns, "nobody leaves before the last has come"));
  }
  return {};
}

Status broadcast_gives_all_the_bytes_of_the_root(Ours& comm) {
  return for_each_root(*comm, [&](Rank root) -> Status {
    for (const size_t length : {size_t{0}, size_t{1}, size_t{100'001}}) {
      std::string bytes = bytes_of_rank(index_of(comm->rank()), length + index_of(comm->rank()));
      RETURN_IF_ERROR(comm->broadcast(bytes, root));
      RETURN_IF_ERROR(expect(bytes == bytes_of_rank(index_of(root), length + index_of(root)),
                             "all have the root's bytes"));
    }
    return {};
  });
}

Status reduce_folds_whole_numbers_at_the_root_alone(Ours& comm) {
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
                             "the root has the fold, and the others what they brought"));
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
    RETURN_IF_ERROR(expect(values[i] == n * i + n * (n - 1) / 2, "each number is folded alone"));
  }
  return {};
}

Status the_least_and_the_greatest_have_no_sign(Ours& comm) {
  const uint64_t large = ~uint64_t{0} - index_of(comm->rank());
  uint64_t least[] = {large, comm->rank() == kFirstRank ? 7 : large};
  uint64_t greatest[] = {large, comm->rank() == kFirstRank ? large : 7};
  RETURN_IF_ERROR(comm->reduce_to_all(least, Fold::kMin));
  RETURN_IF_ERROR(comm->reduce_to_all(greatest, Fold::kMax));
  RETURN_IF_ERROR(expect(least[0] == ~uint64_t{0} - (comm->size() - 1), "of large numbers"));
  RETURN_IF_ERROR(expect(least[1] == 7, "a small number is less than a large one"));
  RETURN_IF_ERROR(expect(greatest[0] == ~uint64_t{0}, "of large numbers"));
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
  return expect(extremes[0] == 0.5 && extremes[1] == 0.5 * n, "the extremes are found");
}

Status gather_brings_strings_of_any_length(Ours& comm) {
  const auto brought_by = [](uint32_t rank) {
    // Rank 0 brings none; one brings much more than the others.
    return bytes_of_rank(rank, rank == 2 ? 300'007 : rank * 1000);
  };
  return for_each_root(*comm, [&](Rank root) -> Status {
    const std::string mine = brought_by(index_of(comm->rank()));
    ASSIGN_OR_RETURN(const auto gathered, comm->gather(bytes_of(mine), root));
    if (comm->rank() != root) return expect(gathered.empty(), "the others get nothing");
    RETURN_IF_ERROR(expect(gathered.size() == comm->size(), "there is one string a rank"));
    for (uint32_t rank = 0; rank < comm->size(); ++rank) {
      RETURN_IF_ERROR(expect(gathered[rank] == brought_by(rank), "each string is its rank's"));
    }
    return {};
  });
}

Status gather_to_all_gives_everybody_everything(Ours& comm) {
  const auto brought_by = [](uint32_t rank) { return bytes_of_rank(rank, 17 * rank); };
  const std::string mine = brought_by(index_of(comm->rank()));
  ASSIGN_OR_RETURN(const auto gathered, comm->gather_to_all(bytes_of(mine)));
  RETURN_IF_ERROR(expect(gathered.size() == comm->size(), "there is one string a rank"));
  for (uint32_t rank = 0; rank < comm->size(); ++rank) {
    RETURN_IF_ERROR(expect(gathered[rank] == brought_by(rank), "each string is its rank's"));
  }
  return {};
}

Status ranks_that_succeed_agree(Ours& comm) { return comm->agree({}); }

// The same random order on all ranks, at different paces.
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
                               "a broadcast among other calls is whole"));
        break;
      case 2:
        RETURN_IF_ERROR(comm->reduce_to_all(std::span(&number, 1), Fold::kMax));
        RETURN_IF_ERROR(expect(number == comm->size() - 1, "a reduction among others is whole"));
        break;
      default:
        ASSIGN_OR_RETURN(const auto gathered, comm->gather(bytes_of(bytes), root));
        RETURN_IF_ERROR(expect(gathered.size() == (comm->rank() == root ? comm->size() : 0),
                               "a gathering among others is whole"));
    }
  }
  return {};
}

// ---- what fails, and with which words ----

Status expect_failure(const Status& status, std::string_view message) {
  if (status.ok()) return fail(Errc::kCorrupt, "a call succeeded that had to fail: {}", message);
  if (status.error().message() == message) return {};
  return fail(Errc::kCorrupt, "a call failed with '{}', not with '{}'", status.error().message(),
              message);
}

std::string as_told(const Comm& comm, Rank rank, std::string_view message) {
  if (comm.size() == 1) return std::string(message);
  return fmt::format("rank {}: {}", index_of(rank), message);
}

// Every call after a failure: the same words, at once, whatever the others do.
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
                         "a gathering fails in the same words"));
  return expect(bytes == "unchanged" && number == 42, "a failed call changes nothing");
}

Status the_failure_of_one_is_told_to_all(Ours& comm) {
  const Rank failing = last_rank(*comm);
  Status mine;
  if (is_last(*comm)) mine = fail(Errc::kNotFound, "a/b.mrt: no such file");
  const Status agreed = comm->agree(mine);
  const std::string told = as_told(*comm, failing, "a/b.mrt: no such file");
  RETURN_IF_ERROR(expect_failure(agreed, told));
  RETURN_IF_ERROR(expect(agreed.error().code() == Errc::kNotFound, "the kind of error is kept"));
  return expect_sticky(*comm, told);
}

Status of_many_failures_the_lowest_ranks_is_told(Ours& comm) {
  const auto mine = fail(Errc::kIo, "fault {}", index_of(comm->rank()));
  const bool alone = comm->size() == 1;
  const Rank lowest{alone ? 0u : 1u};
  const Status agreed = comm->agree(comm->rank() < lowest ? Status() : mine);
  return expect_failure(agreed, as_told(*comm, lowest, fmt::format("fault {}", index_of(lowest))));
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
  const std::string told = as_told(*comm, failing, "the file ends at byte 7");
  RETURN_IF_ERROR(expect_failure(status, told));
  return expect_sticky(*comm, told);
}

Status a_failure_reaches_those_who_wait_in_a_barrier(Ours& comm) {
  return fail_while_others_wait(comm, [](Comm& other) { return other.barrier(); });
}

Status a_failure_reaches_those_who_wait_in_a_broadcast(Ours& comm) {
  return fail_while_others_wait(comm, [](Comm& other) {
    std::string bytes = "of the root";
    return other.broadcast(bytes, last_rank(other));  // the root is the one that has failed
  });
}

Status a_failure_reaches_those_who_wait_in_a_reduction(Ours& comm) {
  return fail_while_others_wait(comm, [](Comm& other) {
    std::vector<uint64_t> values(1000, 1);
    return other.reduce(values, Fold::kSum, kFirstRank);
  });
}

Status a_failure_reaches_those_who_wait_in_a_gathering(Ours& comm) {
  return fail_while_others_wait(comm, [](Comm& other) -> Status {
    RETURN_IF_ERROR(other.gather(bytes_of("mine"), kFirstRank));
    return {};
  });
}

Status a_rank_that_ends_is_named_to_those_who_wait(Ours& comm) {
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

Status ranks_in_different_calls_are_told_so(Ours& comm) {
  if (comm->size() == 1) return {};
  std::string bytes;
  const Status status = is_last(*comm) ? comm->broadcast(bytes, kFirstRank) : comm->barrier();
  const std::string told = fmt::format(
      "rank 0 is in a barrier while rank {} is in a broadcast; this is a bug in the program, "
      "please report it",
      index_of(last_rank(*comm)));
  RETURN_IF_ERROR(expect_failure(status, told));
  return expect_sticky(*comm, told);
}

Status ranks_that_bring_different_counts_are_told_so(Ours& comm) {
  if (comm->size() == 1) return {};
  std::vector<uint64_t> values(is_last(*comm) ? 3 : 2, 5);
  const std::vector<uint64_t> before = values;
  const Status status = comm->reduce_to_all(values, Fold::kSum);
  RETURN_IF_ERROR(expect(!status.ok(), "different counts are refused"));
  return expect(values == before, "a refused reduction changes nothing");
}

Status ranks_that_bring_different_types_are_told_so(Ours& comm) {
  if (comm->size() == 1) return {};
  std::vector<uint64_t> whole = {1, 2};
  std::vector<double> floating = {1, 2};
  const Status status = is_last(*comm) ? comm->reduce(floating, Fold::kSum, kFirstRank)
                                       : comm->reduce(whole, Fold::kSum, kFirstRank);
  return expect(!status.ok(), "different types are refused");
}

Status a_root_that_is_not_there_is_refused(Ours& comm) {
  std::string bytes = "mine";
  const std::string told =
      as_told(*comm, kFirstRank,
              fmt::format("there is no rank {}; the world size is {}", comm->size(), comm->size()));
  RETURN_IF_ERROR(expect_failure(comm->broadcast(bytes, static_cast<Rank>(comm->size())), told));
  return expect_sticky(*comm, told);
}

constexpr ContractClause kContract[] = {
    {"RanksAreCounted", false, ranks_are_counted},
    {"BarrierWaitsForTheLast", false, barrier_waits_for_the_last},
    {"BroadcastGivesAllTheBytesOfTheRoot", false, broadcast_gives_all_the_bytes_of_the_root},
    {"ReduceFoldsWholeNumbersAtTheRootAlone", false, reduce_folds_whole_numbers_at_the_root_alone},
    {"ReduceFoldsManyNumbers", false, reduce_folds_many_numbers},
    {"TheLeastAndTheGreatestHaveNoSign", false, the_least_and_the_greatest_have_no_sign},
    {"FloatingPointSumsAreTheSameBitsOnAllRanks", false,
     floating_point_sums_are_the_same_bits_on_all_ranks},
    {"GatherBringsStringsOfAnyLength", false, gather_brings_strings_of_any_length},
    {"GatherToAllGivesEverybodyEverything", false, gather_to_all_gives_everybody_everything},
    {"RanksThatSucceedAgree", false, ranks_that_succeed_agree},
    {"CallsOfAllKindsFollowEachOther", false, calls_of_all_kinds_follow_each_other},
    {"TheFailureOfOneIsToldToAll", true, the_failure_of_one_is_told_to_all},
    {"OfManyFailuresTheLowestRanksIsTold", true, of_many_failures_the_lowest_ranks_is_told},
    {"AFailureReachesThoseWhoWaitInABarrier", true, a_failure_reaches_those_who_wait_in_a_barrier},
    {"AFailureReachesThoseWhoWaitInABroadcast", true,
     a_failure_reaches_those_who_wait_in_a_broadcast},
    {"AFailureReachesThoseWhoWaitInAReduction", true,
     a_failure_reaches_those_who_wait_in_a_reduction},
    {"AFailureReachesThoseWhoWaitInAGathering", true,
     a_failure_reaches_those_who_wait_in_a_gathering},
    {"ARankThatEndsIsNamedToThoseWhoWait", true, a_rank_that_ends_is_named_to_those_who_wait},
    {"RanksInDifferentCallsAreToldSo", true, ranks_in_different_calls_are_told_so},
    {"RanksThatBringDifferentCountsAreToldSo", true, ranks_that_bring_different_counts_are_told_so},
    {"RanksThatBringDifferentTypesAreToldSo", true, ranks_that_bring_different_types_are_told_so},
    {"ARootThatIsNotThereIsRefused", true, a_root_that_is_not_there_is_refused},
};

}  // namespace

std::span<const ContractClause> contract() { return kContract; }

}  // namespace millrace::comm
