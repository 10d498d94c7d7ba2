#include "loader/shard_loader.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <latch>
#include <thread>

#include "base/io/temporary_directory.h"
#include "comm/single.h"
#include "data/fingerprint.h"
#include "loader/testing/shard_job.h"

namespace millrace::loader {
namespace {

using data::Epoch;
using data::SampleId;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

struct Job {
  uint64_t sample_count = 103;
  uint32_t ranks = 4;
  double fraction = 0.2;
  Tail tail = Tail::kUneven;
  std::filesystem::path directory;  // empty: no shard storage
  bool skips_bad_samples = false;
  uint64_t seed = 17;
};

// A non-owning pointer, valid while the work of the rank runs.
std::shared_ptr<comm::Comm> borrowed(comm::Comm& comm) {
  return {&comm, [](comm::Comm*) {}};
}

Result<std::unique_ptr<Loader>> open(const Job& job, uint32_t rank,
                                     std::shared_ptr<comm::Comm> comm) {
  return Loader::open({.source = std::make_shared<const NumberedSource>(job.sample_count),
                       .decoder = std::make_shared<LengthDecoder>(),
                       .shuffle = Shuffle::kPartial,
                       .fraction = job.fraction,
                       .seed = job.seed,
                       .world = {.rank = rank, .size = job.ranks},
                       .batch_size = 4,
                       .tail = job.tail,
                       .thread_count = 2,
                       .shard = {.directory = job.directory, .comm = std::move(comm)},
                       .skips_bad_samples = job.skips_bad_samples});
}

// The contents of a batch as text.
std::string text_of(const data::Batch& batch) {
  std::string text = fmt::format("{}/{}:", data::number_of(batch.epoch), batch.index);
  for (size_t row = 0; row < batch.row_count; ++row) {
    text += fmt::format(" {}{}", data::index_of(batch.samples[row]), batch.is_real[row] ? "" : "p");
  }
  return text;
}

using Lines = std::vector<std::string>;

Status take_rest(Loader& loader, Lines& lines, uint64_t batches = ~uint64_t{0}) {
  for (uint64_t i = 0; i < batches; ++i) {
    ASSIGN_OR_RETURN(const auto batch, loader.next());
    if (!batch) return {};
    lines.push_back(text_of(*batch));
  }
  return {};
}

Status take_epochs(Loader& loader, uint64_t begin, uint64_t end, Lines& lines) {
  for (uint64_t e = begin; e < end; ++e) {
    RETURN_IF_ERROR(loader.start_epoch(Epoch{e}));
    RETURN_IF_ERROR(take_rest(loader, lines));
  }
  return {};
}

// The batches of a rank without shard storage.
Lines from_order(Job job, uint32_t rank, uint64_t begin, uint64_t end) {
  job.directory.clear();
  Lines lines;
  const Status status = take_epochs(**open(job, rank, nullptr), begin, end, lines);
  EXPECT_TRUE(status.ok()) << status.error().message();
  return lines;
}

class LocalLoaders : public testing::Test {
 protected:
  // Runs `work` on each rank and returns the lines that it wrote.
  using Work = std::function<Status(comm::Comm& comm, uint32_t rank, Lines& lines)>;
  std::vector<Lines> run(uint32_t ranks, const Work& work) {
    std::vector<Lines> lines(ranks);
    EXPECT_THAT(run_ranks(ranks,
                          [&](comm::Comm& comm) {
                            const uint32_t rank = comm::index_of(comm.rank());
                            return work(comm, rank, lines[rank]);
                          }),
                Each(""));
    return lines;
  }

  Job job(uint64_t sample_count = 103, uint32_t ranks = 4, double fraction = 0.2,
          Tail tail = Tail::kUneven) const {
    return {.sample_count = sample_count,
            .ranks = ranks,
            .fraction = fraction,
            .tail = tail,
            .directory = directory_.path()};
  }

  TemporaryDirectory directory_ = *TemporaryDirectory::create();
};

struct Case {
  uint64_t sample_count;
  uint32_t ranks;
  double fraction;
  Tail tail;
};

class LocalLoaderCases : public LocalLoaders, public testing::WithParamInterface<Case> {};

TEST_P(LocalLoaderCases, ReturnTheSameBatchesAsWithoutShardStorage) {
  const auto [sample_count, ranks, fraction, tail] = GetParam();
  const Job whole = job(sample_count, ranks, fraction, tail);
  const auto lines = run(ranks, [&](comm::Comm& comm, uint32_t rank, Lines& out) -> Status {
    ASSIGN_OR_RETURN(const auto loader, open(whole, rank, borrowed(comm)));
    RETURN_IF_ERROR(take_epochs(*loader, 0, 7, out));
    const exchange::HeldStats stats = *loader->stats().shard;
    const double share = static_cast<double>(stats.samples);
    if (static_cast<double>(stats.stored_count_max) > share * (1 + fraction) + 1) {
      return fail(Errc::kExhausted, "{} samples were stored", stats.stored_count_max);
    }
    return {};
  });
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(lines[rank], from_order(whole, rank, 0, 7)) << "rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, LocalLoaderCases,
                         testing::Values(Case{103, 4, 0.2, Tail::kUneven},
                                         Case{103, 4, 0.2, Tail::kPad},
                                         Case{103, 4, 0.2, Tail::kDrop},
                                         Case{100, 4, 1, Tail::kPad}, Case{99, 3, 0, Tail::kPad},
                                         Case{60, 1, 0.5, Tail::kUneven}, Case{3, 4, 1, Tail::kPad},
                                         Case{3, 4, 1, Tail::kUneven}, Case{1, 2, 0.5, Tail::kPad},
                                         Case{0, 2, 0.5, Tail::kPad},
                                         Case{7, 2, 0.1, Tail::kDrop}));

TEST_F(LocalLoaders, ResumeInTheMiddleOfAnEpoch) {
  const Job whole = job();
  std::string saved;
  run(4, [&](comm::Comm& comm, uint32_t rank, Lines& out) -> Status {
    ASSIGN_OR_RETURN(const auto loader, open(whole, rank, borrowed(comm)));
    RETURN_IF_ERROR(take_epochs(*loader, 0, 2, out));
    RETURN_IF_ERROR(loader->start_epoch(Epoch{2}));
    RETURN_IF_ERROR(take_rest(*loader, out, 3));
    if (rank == 0) saved = loader->state().text();
    return comm.barrier();  // the others fail if a rank ends early
  });
  const auto lines = run(4, [&](comm::Comm& comm, uint32_t rank, Lines& out) -> Status {
    ASSIGN_OR_RETURN(const auto loader, open(whole, rank, borrowed(comm)));
    ASSIGN_OR_RETURN(const auto state, LoaderState::parse(saved));
    RETURN_IF_ERROR(loader->restore(state));
    RETURN_IF_ERROR(take_rest(*loader, out));
    RETURN_IF_ERROR(take_epochs(*loader, 3, 5, out));
    if (loader->stats().shard->staging.samples != 0) {
      return fail(Errc::kCorrupt, "samples were read from the dataset again");
    }
    return {};
  });
  for (uint32_t rank = 0; rank < 4; ++rank) {
    Lines due = from_order(whole, rank, 2, 5);
    due.erase(due.begin(), due.begin() + 3);
    EXPECT_EQ(lines[rank], due);
  }
}

// Before or after the epoch of the storages.
TEST_F(LocalLoaders, ANewBatchSizeInTheMiddleOfAnEpochMovesEverySample) {
  const Job whole = job();
  const auto work = [](Loader& loader, Lines& out) -> Status {
    for (uint64_t epoch = 0; epoch < 4; ++epoch) {
      RETURN_IF_ERROR(loader.start_epoch(Epoch{epoch}));
      RETURN_IF_ERROR(take_rest(loader, out, 2));
      const LoaderState state = loader.state();
      RETURN_IF_ERROR(loader.set_batch_size(epoch + 5));
      RETURN_IF_ERROR(loader.restore(state));
      RETURN_IF_ERROR(take_rest(loader, out));
    }
    return {};
  };
  const auto lines = run(whole.ranks, [&](comm::Comm& comm, uint32_t rank, Lines& out) -> Status {
    ASSIGN_OR_RETURN(const auto loader, open(whole, rank, borrowed(comm)));
    return work(*loader, out);
  });
  Job stored_nowhere = whole;
  stored_nowhere.directory.clear();
  for (uint32_t rank = 0; rank < whole.ranks; ++rank) {
    Lines expected;
    ASSERT_TRUE(work(**open(stored_nowhere, rank, nullptr), expected).ok());
    EXPECT_EQ(lines[rank], expected);
  }
}

TEST_F(LocalLoaders, ResumeAtAnyOtherEpoch) {
  const Job whole = job();
  for (const uint64_t begin : {4, 1, 30, 0}) {
    const auto lines = run(4, [&](comm::Comm& comm, uint32_t rank, Lines& out) -> Status {
      ASSIGN_OR_RETURN(const auto loader, open(whole, rank, borrowed(comm)));
      LoaderState state = loader->state();
      state.epoch = Epoch{begin};
      state.done = 32;
      RETURN_IF_ERROR(loader->restore(state));
      RETURN_IF_ERROR(take_rest(*loader, out));
      RETURN_IF_ERROR(take_epochs(*loader, begin + 1, begin + 3, out));
      const exchange::HeldStats stats = *loader->stats().shard;
      const bool is_told = !stats.restaged.empty();
      if (is_told != (begin != 4)) return fail(Errc::kCorrupt, "reported: '{}'", stats.restaged);
      return {};
    });
    for (uint32_t rank = 0; rank < 4; ++rank) {
      Lines due = from_order(whole, rank, begin, begin + 3);
      due.erase(due.begin(), due.begin() + 2);
      EXPECT_EQ(lines[rank], due) << "from epoch " << begin;
    }
  }
}

TEST_F(LocalLoaders, MayLeaveAnEpochEarlyForTheNextOrAnyOther) {
  const Job whole = job();
  run(4, [&](comm::Comm& comm, uint32_t rank, Lines& out) -> Status {
    ASSIGN_OR_RETURN(const auto loader, open(whole, rank, borrowed(comm)));
    for (const uint64_t epoch : {0, 0, 1, 3, 2}) {
      RETURN_IF_ERROR(loader->start_epoch(Epoch{epoch}));
      Lines begun;
      RETURN_IF_ERROR(take_rest(*loader, begun, 2));
      out.insert(out.end(), begun.begin(), begun.end());
      const Lines due = from_order(whole, rank, epoch, epoch + 1);
      if (begun != Lines(due.begin(), due.begin() + 2)) {
        return fail(Errc::kCorrupt, "epoch {} has other batches", epoch);
      }
    }
    return comm.barrier();
  });
}

TEST_F(LocalLoaders, AStateAtTheEndOfAnEpochMovesNothing) {
  const Job whole = job();
  const auto lines = run(4, [&](comm::Comm& comm, uint32_t rank, Lines& out) -> Status {
    ASSIGN_OR_RETURN(const auto loader, open(whole, rank, borrowed(comm)));
    Lines first;
    RETURN_IF_ERROR(take_epochs(*loader, 0, 1, first));
    RETURN_IF_ERROR(loader->restore(loader->state()));
    RETURN_IF_ERROR(take_rest(*loader, out));
    if (!loader->stats().shard->restaged.empty()) return fail(Errc::kCorrupt, "was restaged");
    return take_epochs(*loader, 1, 2, out);
  });
  for (uint32_t rank = 0; rank < 4; ++rank) EXPECT_EQ(lines[rank], from_order(whole, rank, 1, 2));
}

TEST_F(LocalLoaders, OnlyARankWhoseDiskIsLostReadsItsSamplesAgain) {
  const Job whole = job();
  run(4, [&](comm::Comm& comm, uint32_t rank, Lines& out) -> Status {
    ASSIGN_OR_RETURN(const auto loader, open(whole, rank, borrowed(comm)));
    return take_epochs(*loader, 0, 3, out);
  });
  std::filesystem::remove_all(directory_.path() / "rank2");
  const auto lines = run(4, [&](comm::Comm& comm, uint32_t rank, Lines& out) -> Status {
    ASSIGN_OR_RETURN(const auto loader, open(whole, rank, borrowed(comm)));
    RETURN_IF_ERROR(take_epochs(*loader, 3, 5, out));
    const exchange::HeldStats stats = *loader->stats().shard;
    if (stats.staging.samples != (rank == 2 ? stats.samples : 0)) {
      return fail(Errc::kCorrupt, "{} samples were read again", stats.staging.samples);
    }
    if (stats.restaged.find("did not all hold the samples of the same") == std::string::npos) {
      return fail(Errc::kCorrupt, "reported: '{}'", stats.restaged);
    }
    return {};
  });
  for (uint32_t rank = 0; rank < 4; ++rank) EXPECT_EQ(lines[rank], from_order(whole, rank, 3, 5));
}

class MovedRanks : public LocalLoaders {
 protected:
  // The disk of a host. There are two ranks on two hosts.
  std::filesystem::path node(uint32_t number) const {
    return directory_.path() / fmt::format("node{}", number);
  }

  // Trains one epoch and returns how many storages each rank removed at its start.
  std::vector<uint64_t> train(bool is_swapped, uint64_t begin, uint64_t seed = 17) {
    std::vector<uint64_t> removed(2);
    run(2, [&](comm::Comm& comm, uint32_t rank, Lines& out) -> Status {
      Job own = job(100, 2);
      own.directory = node(is_swapped ? 1 - rank : rank);
      own.seed = seed;
      ASSIGN_OR_RETURN(const auto loader, open(own, rank, borrowed(comm)));
      RETURN_IF_ERROR(take_epochs(*loader, begin, begin + 1, out));
      removed[rank] = loader->stats().shard->storages_removed;
      return {};
    });
    return removed;
  }

  std::vector<std::string> storages_of(uint32_t number) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(node(number))) {
      names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }
};

TEST_F(MovedRanks, LeaveNoStorageBehind) {
  EXPECT_THAT(train(false, 0), Each(0));
  EXPECT_THAT(train(true, 1), Each(1));
  EXPECT_THAT(storages_of(0), ElementsAre("rank1"));
  EXPECT_THAT(storages_of(1), ElementsAre("rank0"));
  EXPECT_THAT(train(true, 2), Each(0));
}

TEST_F(MovedRanks, KeepAStorageThatAnotherProcessUses) {
  train(false, 0);
  const auto users = *exchange::ShardStorage::open({.directory = node(0) / "rank0",
                                                    .order = {.shuffle = Shuffle::kPartial,
                                                              .sample_count = 100,
                                                              .seed = 17,
                                                              .shard_count = 2,
                                                              .fraction = 0.2},
                                                    .rank = 0});
  EXPECT_THAT(train(true, 1), ElementsAre(1, 0));
  EXPECT_THAT(storages_of(0), ElementsAre("rank0", "rank1"));
  EXPECT_EQ(users->epoch(), Epoch{1});
}

TEST_F(MovedRanks, KeepStoragesOfOtherJobsAndOtherFiles) {
  train(false, 0, /*seed=*/5);
  std::filesystem::rename(node(0) / "rank0", node(1) / "rank0");
  std::filesystem::remove_all(node(0));
  std::filesystem::remove_all(node(1) / "rank1");
  std::filesystem::create_directories(node(0) / "rank1");
  std::ofstream(node(0) / "rank1" / "samples") << "notes of mine";
  EXPECT_THAT(train(false, 0), Each(0));
  EXPECT_THAT(storages_of(0), ElementsAre("rank0", "rank1"));
  EXPECT_THAT(storages_of(1), ElementsAre("rank0", "rank1"));
  EXPECT_EQ(std::filesystem::file_size(node(0) / "rank1" / "samples"), 13u);
}

TEST_F(MovedRanks, RemoveAnInterruptedCopy) {
  const exchange::StorageOptions left{.directory = node(0) / "rank1",
                                      .order = {.shuffle = Shuffle::kPartial,
                                                .sample_count = 100,
                                                .seed = 17,
                                                .shard_count = 2,
                                                .fraction = 0.2},
                                      .rank = 1,
                                      .dataset = data::fingerprint(NumberedSource(100))};
  std::vector<SampleId> wanted(50);
  for (uint64_t i = 0; i < 50; ++i) wanted[i] = SampleId{i};
  ASSERT_TRUE((*exchange::ShardStorage::open(left))->begin_staging(wanted).ok());
  EXPECT_THAT(train(false, 0), ElementsAre(1, 0));
  EXPECT_THAT(storages_of(0), ElementsAre("rank0"));
}

TEST_F(LocalLoaders, ReportWhichEpochTheStorageHolds) {
  const Job whole = job();
  const auto check = [](const Loader& loader, std::optional<Epoch> due) -> Status {
    if (loader.storage_epoch() == due) return {};
    return fail(Errc::kCorrupt, "the storage's epoch is another");
  };
  run(4, [&](comm::Comm& comm, uint32_t rank, Lines& out) -> Status {
    ASSIGN_OR_RETURN(const auto loader, open(whole, rank, borrowed(comm)));
    RETURN_IF_ERROR(check(*loader, {}));
    RETURN_IF_ERROR(take_epochs(*loader, 0, 3, out));
    return check(*loader, Epoch{3});
  });
  std::filesystem::remove_all(directory_.path() / "rank2");  // the other ranks still know
  run(4, [&](comm::Comm& comm, uint32_t rank, Lines& out) -> Status {
    ASSIGN_OR_RETURN(const auto loader, open(whole, rank, borrowed(comm)));
    RETURN_IF_ERROR(check(*loader, Epoch{3}));
    RETURN_IF_ERROR(take_epochs(*loader, 3, 4, out));
    return check(*loader, Epoch{4});
  });
  Job from_source = whole;
  from_source.directory.clear();
  EXPECT_EQ((*open(from_source, 0, nullptr))->storage_epoch(), std::nullopt);
}

TEST_F(LocalLoaders, ResumeAtAnEpochThatAllPreparedAndNoneCommitted) {
  const Job alone = job(30, 1);
  ASSERT_TRUE((*open(alone, 0, nullptr))->start_epoch(Epoch{0}).ok());
  ASSERT_TRUE((*exchange::ShardStorage::open({.directory = directory_.path() / "rank0",
                                              .order = {.shuffle = Shuffle::kPartial,
                                                        .sample_count = 30,
                                                        .seed = 17,
                                                        .shard_count = 1,
                                                        .fraction = 0.2},
                                              .rank = 0}))
                  ->prepare(Epoch{1})
                  .ok());
  EXPECT_EQ((*open(alone, 0, nullptr))->storage_epoch(), Epoch{1});
}

TEST_F(LocalLoaders, ARankThatExitsEarlyIsNamedAndARestartResumes) {
  const Job whole = job();
  const auto told = run_ranks(4, [&](comm::Comm& comm) -> Status {
    const uint32_t rank = comm::index_of(comm.rank());
    Lines out;
    ASSIGN_OR_RETURN(const auto loader, open(whole, rank, borrowed(comm)));
    RETURN_IF_ERROR(take_epochs(*loader, 0, 2, out));
    RETURN_IF_ERROR(loader->start_epoch(Epoch{2}));
    return take_rest(*loader, out, rank == 1 ? 3 : ~uint64_t{0});
  });
  for (const uint32_t rank : {0, 2, 3}) EXPECT_THAT(told[rank], HasSubstr("rank 1"));
  const auto lines = run(4, [&](comm::Comm& comm, uint32_t rank, Lines& out) -> Status {
    ASSIGN_OR_RETURN(const auto loader, open(whole, rank, borrowed(comm)));
    RETURN_IF_ERROR(take_epochs(*loader, 2, 4, out));
    if (loader->stats().shard->staging.samples > 0) return fail(Errc::kCorrupt, "was staged");
    return {};
  });
  for (uint32_t rank = 0; rank < 4; ++rank) EXPECT_EQ(lines[rank], from_order(whole, rank, 2, 4));
}

// Damages every sample, so that a rank that receives one detects it.
void damage_samples(const std::filesystem::path& file) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  const auto size = static_cast<std::streamoff>(std::filesystem::file_size(file));
  for (std::streamoff at = 0; at < size; at += 64) stream.seekp(at).put('?');
}

TEST_F(LocalLoaders, ARankWhoseExchangeFailsTellsTheOthersButKeepsRunning) {
  Job whole = job(200, 4, 1);
  whole.skips_bad_samples = true;
  std::latch all_have_failed(4);
  const auto told = run_ranks(4, [&](comm::Comm& comm) -> Status {
    const uint32_t rank = comm::index_of(comm.rank());
    Lines out;
    ASSIGN_OR_RETURN(const auto loader, open(whole, rank, borrowed(comm)));
    RETURN_IF_ERROR(loader->start_epoch(Epoch{0}));
    if (rank == 2) damage_samples(directory_.path() / "rank2" / "samples");
    RETURN_IF_ERROR(comm.barrier());
    const Status status = take_rest(*loader, out);
    all_have_failed.arrive_and_wait();
    EXPECT_FALSE(loader->next().ok()) << "continues after a failure";
    return status;
  });
  EXPECT_THAT(told, Each(HasSubstr("damaged bytes")));
}

TEST_F(LocalLoaders, OneRankNeedsNoCommunicator) {
  const Job alone = job(30, 1);
  Lines lines;
  const auto loader = open(alone, 0, nullptr);
  ASSERT_TRUE(loader.ok()) << loader.error().message();
  ASSERT_TRUE(take_epochs(**loader, 0, 3, lines).ok());
  EXPECT_EQ(lines, from_order(alone, 0, 0, 3));
}

TEST_F(LocalLoaders, ReportHowMuchMovedAndWhatIsStored) {
  run(2, [&](comm::Comm& comm, uint32_t rank, Lines& out) -> Status {
    ASSIGN_OR_RETURN(const auto loader, open(job(200, 2, 0.5), rank, borrowed(comm)));
    RETURN_IF_ERROR(take_epochs(*loader, 0, 3, out));
    const exchange::HeldStats stats = *loader->stats().shard;
    EXPECT_EQ(stats.staging.samples, 100u);
    EXPECT_EQ(stats.samples, 100u);
    EXPECT_GT(stats.sample_bytes, 50'000u);
    EXPECT_GE(stats.file_bytes, stats.sample_bytes);
    EXPECT_GT(stats.exchange.samples_sent, 20u);
    EXPECT_EQ(stats.exchange.samples_sent, stats.exchange.samples_received);
    EXPECT_GT(stats.exchange.bytes_sent, 10'000u);
    EXPECT_TRUE(stats.restaged.empty());
    return {};
  });
}

std::string refused(const Job& job, uint32_t rank, std::shared_ptr<comm::Comm> comm) {
  const auto loader = open(job, rank, std::move(comm));
  return loader.ok() ? "" : loader.error().message();
}

TEST_F(LocalLoaders, RefuseInvalidOptions) {
  EXPECT_THAT(refused(job(10, 2), 1, nullptr),
              HasSubstr("rank 1 of 2, but its communicator is rank 0 of 1"));
  LoaderOptions options{.source = std::make_shared<const NumberedSource>(10),
                        .decoder = std::make_shared<LengthDecoder>(),
                        .shuffle = Shuffle::kGlobal,
                        .shard = {.directory = directory_.path()}};
  EXPECT_THAT(Loader::open(options).error().message(), HasSubstr("this loader's is 'global'"));
  options.shuffle = Shuffle::kPartial;
  options.tiers.memory_bytes = 1000;
  EXPECT_THAT(Loader::open(options).error().message(), HasSubstr("with tiers"));
}

TEST_F(LocalLoaders, RefuseAStateOfAnotherNumberOfRanks) {
  const auto loader = *open(job(30, 1), 0, nullptr);
  LoaderState state = loader->state();
  state.order.shard_count = 4;
  EXPECT_THAT(loader->restore(state).error().message(),
              HasSubstr("saved by 4 ranks with shard storage, and there are 1"));
  state.order.shard_count = 1;
  state.order.seed = 5;
  EXPECT_THAT(loader->restore(state).error().message(), HasSubstr("its seed is 5"));
}

TEST_F(LocalLoaders, CanBeInterruptedWhileWaitingForALateRank) {
  const auto told = run_ranks(2, [&](comm::Comm& comm) -> Status {
    const uint32_t rank = comm::index_of(comm.rank());
    ASSIGN_OR_RETURN(const auto loader, open(job(100, 2, 1), rank, borrowed(comm)));
    RETURN_IF_ERROR(loader->start_epoch(Epoch{0}));
    if (rank == 1) return comm.barrier();  // takes no batches
    std::thread ctrl_c([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      loader->cancel();
    });
    Lines out;
    const Status ended = take_rest(*loader, out);
    ctrl_c.join();
    return comm.agree(ended);
  });
  EXPECT_THAT(told, Each(testing::Not("")));
}

}  // namespace
}  // namespace millrace::loader
