#include "bench/checkpoint/checkpoint.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <thread>

#include "base/io/file.h"
#include "base/io/temporary_directory.h"
#include "bench/workload/own_files.h"
#include "comm/single.h"
#include "comm/testing/threads.h"

namespace millrace::bench {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

template <typename T>
std::string message_of(const Result<T>& result) {
  return result.ok() ? "" : result.error().message();
}

class CheckpointerTest : public testing::Test {
 protected:
  fs::path folder() const { return scratch_->path() / "checkpoints"; }
  fs::path local() const { return scratch_->path() / "local"; }

  // A transformer of 3.4 MB in two files per rank, streamed through 64 KiB.
  Workload workload() const {
    Workload workload;
    workload.model.type = "transformer";
    workload.model.num_layers = 2;
    workload.model.transformer = {1000, 64, 256, 4, 2};
    workload.model.parallelism.zero_stage = 3;
    workload.checkpoint.checkpoint_folder = folder().native();
    workload.checkpoint.buffer_size = 64 << 10;
    return workload;
  }

  std::unique_ptr<Checkpointer> open(const Workload& workload) {
    auto opened = Checkpointer::open(workload, *comm_, {.run = "run"});
    EXPECT_TRUE(opened.ok()) << message_of(opened);
    return *std::move(opened);
  }

  static std::vector<std::string> entries(const fs::path& of) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(of)) names.push_back(entry.path().filename());
    std::erase(names, kOwnFilesName);
    std::ranges::sort(names);
    return names;
  }

  void write(const fs::path& below, std::string_view text = "text") const {
    std::ofstream(folder() / below) << text;
  }

  // Puts a disk of 1 MiB under the folder, which only this process sees. False: not allowed.
  bool mount_small_disk() const {
    fs::create_directories(folder());
    return unshare(CLONE_NEWNS) == 0 &&
           mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           mount("none", folder().c_str(), "tmpfs", 0, "size=1m") == 0;
  }
  void TearDown() override { umount2(folder().c_str(), MNT_DETACH); }

  Result<TemporaryDirectory> scratch_ = TemporaryDirectory::create();
  std::unique_ptr<comm::Comm> comm_ = comm::single();
};

// Runs `work` on every rank, as threads.
void on_ranks(uint32_t count, const std::function<void(comm::Comm&)>& work) {
  auto ranks = comm::threads_comm(count);
  std::vector<std::thread> threads;
  for (auto& comm : ranks) threads.emplace_back([&work, &comm] { work(*comm); });
  for (std::thread& thread : threads) thread.join();
}

// ---- the folder ----

TEST(CheckpointFolder, NamesAreThoseOfDlio) {
  EXPECT_EQ(checkpoint_name({.epoch = 3, .step = 250}), "global_epoch3_step250");
  EXPECT_EQ(parse_checkpoint_name("global_epoch3_step250"), (CheckpointId{3, 250}));
  for (const char* wrong :
       {"", "global_epoch", "global_epoch1", "global_epoch1_step", "global_epoch1_step2x",
        "global_epoch01_step2", "global_epoch-1_step2", "global_epoch1_step99999999999999999999",
        ".partial-global_epoch1_step2"}) {
    EXPECT_EQ(parse_checkpoint_name(wrong), std::nullopt) << wrong;
  }
}

// ---- saving and loading ----

TEST_F(CheckpointerTest, WhatIsSavedCanBeLoaded) {
  auto checkpoints = open(workload());
  const auto saved = checkpoints->save(1, 5, 5);
  ASSERT_TRUE(saved.ok()) << message_of(saved);
  EXPECT_EQ(saved->file_count, 2u);
  const auto plan = CheckpointPlan::make(workload().model, workload().checkpoint, 1);
  uint64_t payload_bytes = 0;
  for (const PlannedFile& file : plan->files_of(0)) payload_bytes += file.size_bytes;
  EXPECT_GT(saved->size_bytes, payload_bytes);
  EXPECT_EQ(saved->fsync_count, 0u);
  EXPECT_FALSE(saved->is_pending);
  EXPECT_THAT(entries(folder()), ElementsAre("global_epoch1_step5"));
  EXPECT_THAT(entries(folder() / "global_epoch1_step5"),
              ElementsAre("zero_pp_rank_0_mp_rank_0_model_states.pt",
                          "zero_pp_rank_0_mp_rank_0_optim_states.pt"));
  const auto loaded = checkpoints->load(1, 5, 5);
  ASSERT_TRUE(loaded.ok()) << message_of(loaded);
  EXPECT_EQ(loaded->size_bytes, saved->size_bytes);
  EXPECT_TRUE(loaded->is_load);
  EXPECT_EQ(checkpoints->results().size(), 2u);
}

TEST_F(CheckpointerTest, ALaterRunVerifiesIt) {
  ASSERT_TRUE(open(workload())->save(2, 1, 1).ok());
  EXPECT_EQ(message_of(open(workload())->load(2, 1, 1)), "");
}

TEST_F(CheckpointerTest, FsyncIsIssuedForEveryFileAndBothFolders) {
  Workload with_fsync = workload();
  with_fsync.checkpoint.fsync = true;
  EXPECT_EQ(open(with_fsync)->save(1, 1, 1)->fsync_count, 2u + 2);
}

TEST_F(CheckpointerTest, ConstantTensorsAreVerifiedToo) {
  Workload constant = workload();
  constant.checkpoint.randomize_tensor = false;
  auto checkpoints = open(constant);
  ASSERT_TRUE(checkpoints->save(1, 1, 1).ok());
  EXPECT_TRUE(checkpoints->load(1, 1, 1).ok());
  EXPECT_THAT(message_of(open(workload())->load(1, 1, 1)), HasSubstr("tensor '0'['0']"));
}

TEST_F(CheckpointerTest, SavingAgainReplacesTheCheckpoint) {
  auto checkpoints = open(workload());
  ASSERT_TRUE(checkpoints->save(1, 1, 1).ok());
  const auto again = checkpoints->save(1, 1, 1);
  ASSERT_TRUE(again.ok()) << message_of(again);
  EXPECT_THAT(entries(folder()), ElementsAre("global_epoch1_step1"));
  EXPECT_TRUE(checkpoints->load(1, 1, 1).ok());
}

TEST_F(CheckpointerTest, OldCheckpointsOfThisRunAreRemovedIfAsked) {
  ASSERT_TRUE(open(workload())->save(9, 9, 9).ok());  // of another run
  Workload keeps_two = workload();
  keeps_two.checkpoint.keep = 2;
  auto checkpoints = open(keeps_two);
  for (uint64_t step = 1; step <= 4; ++step) ASSERT_TRUE(checkpoints->save(1, step, step).ok());
  EXPECT_THAT(entries(folder()),
              ElementsAre("global_epoch1_step3", "global_epoch1_step4", "global_epoch9_step9"));
}

TEST_F(CheckpointerTest, TensorFlowsFilesAreWrittenAndVerified) {
  Workload tensorflow = workload();
  tensorflow.checkpoint.layout = CheckpointLayout::kTensorflow;
  tensorflow.checkpoint.file_sizes = {1000, 700'000, 320'000, 4500};
  auto checkpoints = open(tensorflow);
  ASSERT_TRUE(checkpoints->save(1, 50, 50).ok());
  const fs::path saved = folder() / "global_epoch1_step50";
  EXPECT_EQ(fs::file_size(saved / "model.ckpt-50.data-00000-of-00001"), 700'000u);
  EXPECT_EQ(fs::file_size(saved / "model.ckpt-50.meta"), 320'000u);
  EXPECT_EQ(fs::file_size(saved / "model.ckpt-50.index"), 4500u);
  EXPECT_EQ(fs::file_size(saved / "checkpoint"), 1000u);
  EXPECT_TRUE(checkpoints->load(1, 50, 50).ok());
}

TEST_F(CheckpointerTest, DirectWritesGiveTheSameFiles) {
  Workload direct = workload();
  direct.checkpoint.odirect = true;
  auto checkpoints = open(direct);
  const auto saved = checkpoints->save(1, 1, 1);
  if (!saved.ok() && saved.error().code() == Errc::kUnsupported) {
    GTEST_SKIP() << "the file system of temporary files has no O_DIRECT";
  }
  ASSERT_TRUE(saved.ok()) << message_of(saved);
  EXPECT_EQ(message_of(checkpoints->load(1, 1, 1)), "");
  EXPECT_EQ(message_of(open(workload())->load(1, 1, 1)), "");
}

TEST_F(CheckpointerTest, DroppedPagesAreNotInThePageCache) {
  Workload cold = workload();
  cold.checkpoint.drop_cache = true;
  auto checkpoints = open(cold);
  ASSERT_TRUE(checkpoints->save(1, 1, 1).ok());
  EXPECT_GT(open(workload())->load(1, 1, 1)->cached_bytes, 0u);
  const auto loaded = checkpoints->load(1, 1, 1);
  ASSERT_TRUE(loaded.ok()) << message_of(loaded);
  if (loaded->cached_bytes > 0) GTEST_SKIP() << "temporary files are in memory";
}

// ---- in the background ----

TEST_F(CheckpointerTest, AsyncReturnsAtOnceAndIsCompleteLater) {
  Workload async = workload();
  async.checkpoint.write_mode = WriteMode::kAsync;
  async.checkpoint.fsync = true;
  auto checkpoints = open(async);
  const auto first = checkpoints->save(1, 1, 1);
  ASSERT_TRUE(first.ok()) << message_of(first);
  EXPECT_TRUE(first->is_pending);
  ASSERT_TRUE(checkpoints->save(1, 2, 2).ok());  // waits for the first
  EXPECT_TRUE(fs::is_directory(folder() / "global_epoch1_step1"));
  ASSERT_TRUE(checkpoints->finish().ok());
  EXPECT_THAT(entries(folder()), ElementsAre("global_epoch1_step1", "global_epoch1_step2"));
  ASSERT_EQ(checkpoints->results().size(), 2u);
  for (const CheckpointResult& result : checkpoints->results()) {
    EXPECT_FALSE(result.is_pending);
    EXPECT_EQ(result.file_count, 2u);
    EXPECT_EQ(result.fsync_count, 4u);
  }
  EXPECT_TRUE(checkpoints->load(1, 2, 2).ok());
}

TEST_F(CheckpointerTest, PollCompletesWhatIsWritten) {
  Workload async = workload();
  async.checkpoint.write_mode = WriteMode::kAsync;
  auto checkpoints = open(async);
  ASSERT_TRUE(checkpoints->poll().ok());
  ASSERT_TRUE(checkpoints->save(1, 1, 1).ok());
  while (checkpoints->results().back().is_pending) ASSERT_TRUE(checkpoints->poll().ok());
  EXPECT_THAT(entries(folder()), ElementsAre("global_epoch1_step1"));
}

TEST_F(CheckpointerTest, AnErrorInTheBackgroundIsReturnedByTheNextCall) {
  Workload async = workload();
  async.checkpoint.write_mode = WriteMode::kAsync;
  auto checkpoints = open(async);
  fs::remove(folder());
  ASSERT_TRUE(File::open(folder(), O_WRONLY | O_CREAT).ok());  // a file in its place
  ASSERT_TRUE(checkpoints->save(1, 1, 1).ok());
  EXPECT_THAT(message_of(checkpoints->save(1, 2, 2)), HasSubstr("global_epoch1_step1"));
  EXPECT_THAT(checkpoints->results(), IsEmpty());
}

TEST_F(CheckpointerTest, AnAbandonedCheckpointLeavesNothing) {
  Workload async = workload();
  async.checkpoint.write_mode = WriteMode::kAsync;
  auto checkpoints = open(async);
  ASSERT_TRUE(checkpoints->save(1, 1, 1).ok());
  checkpoints.reset();
  EXPECT_THAT(entries(folder()), IsEmpty());
}

TEST_F(CheckpointerTest, LocalFlushWritesLocallyAndCopiesLater) {
  Workload flush = workload();
  flush.checkpoint.write_mode = WriteMode::kLocalFlush;
  flush.checkpoint.local_folder = local().native();
  flush.checkpoint.fsync = true;
  auto checkpoints = open(flush);
  const auto saved = checkpoints->save(1, 1, 1);
  ASSERT_TRUE(saved.ok()) << message_of(saved);
  EXPECT_EQ(saved->file_count, 2u);
  EXPECT_EQ(saved->fsync_count, 0u);
  ASSERT_TRUE(checkpoints->finish().ok());
  EXPECT_EQ(checkpoints->results()[0].fsync_count, 4u);
  EXPECT_EQ(checkpoints->results()[0].file_count, 2u);
  EXPECT_THAT(entries(local()), IsEmpty());
  EXPECT_EQ(message_of(checkpoints->load(1, 1, 1)), "");
}

// ---- several ranks ----

TEST_F(CheckpointerTest, RanksWriteOneCheckpointTogether) {
  on_ranks(4, [&](comm::Comm& comm) {
    auto checkpoints = Checkpointer::open(workload(), comm);
    ASSERT_TRUE(checkpoints.ok()) << message_of(checkpoints);
    for (uint64_t step = 1; step <= 3; ++step) {
      ASSERT_TRUE((*checkpoints)->save(1, step, step).ok());
    }
    const auto loaded = (*checkpoints)->load(1, 2, 2);
    EXPECT_TRUE(loaded.ok()) << message_of(loaded);
    EXPECT_EQ(loaded->file_count, 2u);
  });
  EXPECT_EQ(entries(folder()).size(), 3u);
  EXPECT_EQ(entries(folder() / "global_epoch1_step3").size(), 8u);
}

TEST_F(CheckpointerTest, RanksFlushAndWriteInTheBackgroundTogether) {
  for (const WriteMode mode : {WriteMode::kAsync, WriteMode::kLocalFlush}) {
    on_ranks(3, [&](comm::Comm& comm) {
      Workload background = workload();
      background.checkpoint.write_mode = mode;
      background.checkpoint.local_folder = local().native();
      auto checkpoints = Checkpointer::open(background, comm);
      ASSERT_TRUE(checkpoints.ok()) << message_of(checkpoints);
      for (uint64_t step = 1; step <= 3; ++step) {
        ASSERT_TRUE((*checkpoints)->save(1, step, step).ok());
        ASSERT_TRUE((*checkpoints)->poll().ok());
      }
      ASSERT_TRUE((*checkpoints)->finish().ok());
      EXPECT_EQ(message_of((*checkpoints)->load(1, 3, 3)), "");
    });
    EXPECT_EQ(entries(folder()).size(), 3u) << name_of(mode);
  }
}

TEST_F(CheckpointerTest, OfRankZeroOnlyTheFirstRankWrites) {
  on_ranks(3, [&](comm::Comm& comm) {
    Workload by_bytes = workload();
    by_bytes.model = {};
    by_bytes.model.model_size_bytes = 100'000;
    auto checkpoints = Checkpointer::open(by_bytes, comm);
    ASSERT_TRUE(checkpoints.ok()) << message_of(checkpoints);
    const auto saved = (*checkpoints)->save(1, 1, 1);
    ASSERT_TRUE(saved.ok());
    EXPECT_EQ(saved->file_count, comm.rank() == comm::kFirstRank ? 1u : 0u);
    EXPECT_TRUE((*checkpoints)->load(1, 1, 1).ok());
  });
  EXPECT_THAT(entries(folder() / "global_epoch1_step1"), ElementsAre("model_states-0.pt"));
}

TEST_F(CheckpointerTest, AfterARecoveryRanksReadTheShardsOfAnotherNode) {
  on_ranks(4, [&](comm::Comm& comm) {
    Workload shifted = workload();
    shifted.checkpoint.recovery_rank_shift = true;
    auto checkpoints = Checkpointer::open(shifted, comm, {.ranks_per_node = 2});
    ASSERT_TRUE(checkpoints.ok()) << message_of(checkpoints);
    ASSERT_TRUE((*checkpoints)->save(1, 1, 1).ok());
    // Only rank 2 notices that the shard of rank 0 has gone.
    if (comm.rank() == comm::kFirstRank) {
      fs::remove(folder() / "global_epoch1_step1/zero_pp_rank_0_mp_rank_0_model_states.pt");
    }
    ASSERT_TRUE(comm.barrier().ok());
    EXPECT_THAT(message_of((*checkpoints)->load(1, 1, 1)),
                AllOf(StartsWith("rank 2: " + (folder() / "global_epoch1_step1").native()),
                      HasSubstr("zero_pp_rank_0_mp_rank_0_model_states.pt: is missing: ")));
  });
}

TEST_F(CheckpointerTest, IfOneRankFailsAllStopAndNothingRemains) {
  on_ranks(4, [&](comm::Comm& comm) {
    auto checkpoints = Checkpointer::open(workload(), comm, {.run = "run"});
    ASSERT_TRUE(checkpoints.ok()) << message_of(checkpoints);
    const fs::path partial = folder() / ".partial-global_epoch1_step1-run";
    if (comm::index_of(comm.rank()) == 2) {
      fs::create_directories(partial / "zero_pp_rank_2_mp_rank_0_optim_states.pt");
    }
    const std::string message = message_of((*checkpoints)->save(1, 1, 1));
    EXPECT_THAT(message, StartsWith("rank 2: "));
    EXPECT_THAT(message, HasSubstr("zero_pp_rank_2_mp_rank_0_optim_states.pt: cannot create"));
    EXPECT_EQ(message_of((*checkpoints)->save(1, 2, 2)), message);
  });
  EXPECT_FALSE(fs::exists(folder() / "global_epoch1_step1"));
  EXPECT_FALSE(fs::exists(folder() / "global_epoch1_step2"));
  EXPECT_THAT(entries(folder() / ".partial-global_epoch1_step1-run"),
              ElementsAre("zero_pp_rank_2_mp_rank_0_optim_states.pt"));
}

TEST_F(CheckpointerTest, TheFirstRankDecidesByItsClock) {
  on_ranks(3, [&](comm::Comm& comm) {
    CheckpointConfig config;
    config.time_between_checkpoints_s = 10;
    const CheckpointSchedule schedule(config);
    const auto elapsed = std::chrono::seconds(comm.rank() == comm::kFirstRank ? 10 : 9);
    const auto due = is_due_on_all(schedule, {.epoch = 1, .step = 1, .elapsed = elapsed}, comm);
    ASSERT_TRUE(due.ok());
    EXPECT_TRUE(*due);
  });
}

// ---- faults ----

TEST_F(CheckpointerTest, ATruncatedShardIsNamed) {
  auto checkpoints = open(workload());
  ASSERT_TRUE(checkpoints->save(1, 1, 1).ok());
  const fs::path shard = folder() / "global_epoch1_step1/zero_pp_rank_0_mp_rank_0_optim_states.pt";
  const uint64_t size = fs::file_size(shard);
  fs::resize_file(shard, size - 1);
  EXPECT_EQ(message_of(checkpoints->load(1, 1, 1)),
            fmt::format("{}: has {} bytes instead of {}: it was truncated, or written for another "
                        "model; remove this checkpoint and load an older one",
                        shard.native(), size - 1, size));
}

TEST_F(CheckpointerTest, AFlippedBitIsNamed) {
  auto checkpoints = open(workload());
  ASSERT_TRUE(checkpoints->save(1, 1, 1).ok());
  const fs::path shard = folder() / "global_epoch1_step1/zero_pp_rank_0_mp_rank_0_model_states.pt";
  const auto file = File::open(shard, O_RDWR);
  std::byte byte{};
  ASSERT_TRUE(file->read_exactly_at(70'000, {&byte, 1}).ok());
  byte ^= std::byte{4};
  ASSERT_TRUE(file->write_at(70'000, {&byte, 1}).ok());
  EXPECT_THAT(message_of(checkpoints->load(1, 1, 1)),
              HasSubstr(shard.native() + ": byte 70000 (tensor '0'['0']) is "));
  Workload trusting = workload();
  trusting.checkpoint.verify = false;
  EXPECT_TRUE(open(trusting)->load(1, 1, 1).ok());
}

TEST_F(CheckpointerTest, AMissingCheckpointNamesThoseThatAreThere) {
  auto checkpoints = open(workload());
  EXPECT_THAT(message_of(checkpoints->load(1, 7, 7)), HasSubstr("has none: write one first"));
  ASSERT_TRUE(checkpoints->save(1, 5, 5).ok());
  EXPECT_EQ(message_of(checkpoints->load(1, 7, 7)),
            (folder() / "global_epoch1_step7").native() +
                ": there is no such checkpoint; the folder has global_epoch1_step5");
}

TEST_F(CheckpointerTest, WhatAKilledRunLeftIsRemovedAndNeverLoaded) {
  fs::create_directories(folder() / ".partial-global_epoch1_step1-0123abcd");
  write(".partial-global_epoch1_step1-0123abcd/model_states-0.pt");
  write(".partial-global_epoch1_step1-0123abcd/.millrace-files", "- - - model_states-0.pt\n");
  EXPECT_THAT(*find_checkpoints(folder()), IsEmpty());
  EXPECT_THAT(open(workload())->notes(), IsEmpty());
  EXPECT_THAT(entries(folder()), IsEmpty());
}

// ---- files that are not ours ----

TEST_F(CheckpointerTest, WhatARunningJobWritesStays) {
  const fs::path partial = partial_path(folder(), {.epoch = 1, .step = 2}, "beef");
  fs::create_directories(partial);
  std::ofstream(partial / "model_states-0.pt") << "half";
  ASSERT_TRUE(write_own_files(partial, "- - - model_states-0.pt\n").ok());
  {
    const auto held = hold_folder(partial);
    ASSERT_TRUE(held.ok());
    std::vector<std::string> notes;
    ASSERT_TRUE(remove_partial_checkpoints(folder(), notes).ok());
    EXPECT_TRUE(fs::exists(partial / "model_states-0.pt"));
  }
  std::vector<std::string> notes;
  ASSERT_TRUE(remove_partial_checkpoints(folder(), notes).ok());
  EXPECT_FALSE(fs::exists(partial));
}

TEST_F(CheckpointerTest, HiddenFoldersOfOthersStay) {
  for (const char* name :
       {".partial-notes", ".partial-global_epoch7_step7", ".partial-global_epoch8_step8-0123abcd",
        ".partial-replaced-global_epoch9_step9-ab"}) {
    fs::create_directories(folder() / name);
    write(fs::path(name) / "important");
  }
  write(".partial-global_epoch8_step8-0123abcd/.millrace-files", "- - - model_states-0.pt\n");
  write(".partial-global_epoch8_step8-0123abcd/model_states-0.pt");
  const auto before = entries(folder());
  const auto notes = open(workload())->notes();
  EXPECT_EQ(entries(folder()), before);
  for (const std::string& name : before)
    EXPECT_THAT(entries(folder() / name), ElementsAre("important"));
  EXPECT_EQ(notes.size(), 3u);
  EXPECT_THAT(notes,
              Each(HasSubstr(": has 'important', which millrace did not write, or which changed")));
}

TEST_F(CheckpointerTest, ACheckpointOfSomebodyElseIsNotReplaced) {
  for (const WriteMode mode : {WriteMode::kSync, WriteMode::kAsync, WriteMode::kLocalFlush}) {
    fs::create_directories(folder() / "global_epoch1_step1");
    write("global_epoch1_step1/my_real_weights.pt", "precious");
    Workload any = workload();
    any.checkpoint.write_mode = mode;
    any.checkpoint.local_folder = local().native();
    auto checkpoints = open(any);
    const auto saved = checkpoints->save(1, 1, 1);
    const Status finished = checkpoints->finish();
    EXPECT_THAT(saved.ok() ? finished.error().message() : message_of(saved),
                HasSubstr("global_epoch1_step1: has 'my_real_weights.pt', which millrace did not "
                          "write, or which changed since; remove it, or set "
                          "checkpoint.checkpoint_folder to another folder"));
    EXPECT_THAT(entries(folder()), ElementsAre("global_epoch1_step1"));
    EXPECT_THAT(entries(folder() / "global_epoch1_step1"), ElementsAre("my_real_weights.pt"));
  }
}

TEST_F(CheckpointerTest, RanksDoNotReplaceACheckpointOfSomebodyElse) {
  fs::create_directories(folder() / "global_epoch1_step1");
  write("global_epoch1_step1/my_real_weights.pt", "precious");
  on_ranks(3, [&](comm::Comm& comm) {
    for (const WriteMode mode : {WriteMode::kSync, WriteMode::kAsync}) {
      Workload any = workload();
      any.checkpoint.write_mode = mode;
      auto checkpoints = Checkpointer::open(any, comm);
      // The Comm is dead after the first failure.
      if (!checkpoints.ok()) continue;
      const auto saved = (*checkpoints)->save(1, 1, 1);
      EXPECT_FALSE(saved.ok() && (*checkpoints)->finish().ok());
    }
  });
  EXPECT_THAT(entries(folder()), ElementsAre("global_epoch1_step1"));
  EXPECT_THAT(entries(folder() / "global_epoch1_step1"), ElementsAre("my_real_weights.pt"));
}

TEST_F(CheckpointerTest, ACheckpointOfAnEarlierRunIsReplacedIfNobodyChangedIt) {
  ASSERT_TRUE(open(workload())->save(1, 1, 1).ok());
  ASSERT_TRUE(open(workload())->save(1, 1, 1).ok());
  write("global_epoch1_step1/notes.txt", "precious");
  EXPECT_THAT(message_of(open(workload())->save(1, 1, 1)), HasSubstr("has 'notes.txt', which"));
  fs::remove(folder() / "global_epoch1_step1/notes.txt");
  ASSERT_TRUE(open(workload())->save(1, 1, 1).ok());
  const char* shard = "zero_pp_rank_0_mp_rank_0_model_states.pt";
  write(fs::path("global_epoch1_step1") / shard, "precious");
  EXPECT_THAT(message_of(open(workload())->save(1, 1, 1)), HasSubstr(shard));
  EXPECT_EQ(*read_file(folder() / "global_epoch1_step1" / shard), "precious");
  EXPECT_THAT(entries(folder()), ElementsAre("global_epoch1_step1"));
}

TEST_F(CheckpointerTest, AnOldCheckpointWithFilesOfOthersIsKept) {
  Workload keeps_one = workload();
  keeps_one.checkpoint.keep = 1;
  auto checkpoints = open(keeps_one);
  ASSERT_TRUE(checkpoints->save(1, 1, 1).ok());
  write("global_epoch1_step1/notes.txt", "precious");
  ASSERT_TRUE(checkpoints->save(1, 2, 2).ok());
  ASSERT_TRUE(checkpoints->save(1, 3, 3).ok());
  EXPECT_THAT(entries(folder()), ElementsAre("global_epoch1_step1", "global_epoch1_step3"));
  EXPECT_EQ(entries(folder() / "global_epoch1_step1").size(), 3u);
  EXPECT_THAT(
      checkpoints->notes(),
      ElementsAre(AllOf(HasSubstr("global_epoch1_step1: has 'notes.txt'"), HasSubstr("stays"))));
}

TEST_F(CheckpointerTest, AReadOnlyFolderIsAnError) {
  if (!mount_small_disk()) GTEST_SKIP() << "only root may mount a file system";
  auto checkpoints = open(workload());
  ASSERT_EQ(mount("none", folder().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "size=1m"), 0);
  EXPECT_EQ(message_of(checkpoints->save(1, 1, 1)),
            (folder() / ".partial-global_epoch1_step1-run").native() +
                ": cannot create the directory: read-only file system; choose another directory, "
                "or remount it writable");
}

TEST_F(CheckpointerTest, AFullDiskIsAnErrorAndLeavesNothing) {
  if (!mount_small_disk()) GTEST_SKIP() << "only root may mount a file system";
  auto checkpoints = open(workload());
  const std::string message = message_of(checkpoints->save(1, 1, 1));
  EXPECT_THAT(message, HasSubstr("_states.pt: cannot write "));
  EXPECT_THAT(message, HasSubstr("no space left on device; free some space"));
  EXPECT_THAT(entries(folder()), IsEmpty());
  // A smaller checkpoint fits: nothing is left of the first.
  Workload small = workload();
  small.model = {};
  small.model.model_size_bytes = 900'000;
  EXPECT_EQ(message_of(open(small)->save(1, 2, 2)), "");
}

TEST_F(CheckpointerTest, LocalFlushNeedsAFolder) {
  Workload flush = workload();
  flush.checkpoint.write_mode = WriteMode::kLocalFlush;
  EXPECT_THAT(message_of(Checkpointer::open(flush, *comm_)),
              HasSubstr("set checkpoint.local_folder"));
}

}  // namespace
}  // namespace millrace::bench
