// Tests the files, order and functions metrics on small traces, through the real scan.
#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <random>

#include "analyze/profile/profile_json.h"
#include "analyze/scan.h"
#include "analyze/testing/metric_run.h"
#include "analyze/testing/trace_builder.h"
#include "base/io/temporary_directory.h"

namespace millrace::analyze {
namespace {

using namespace std::chrono_literals;

class FilesTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = TemporaryDirectory::create();
    ASSERT_TRUE(made.ok());
    directory_.emplace(*std::move(made));
  }
  std::string path() const { return (directory_->path() / "t.mrt").string(); }

  static const FileStats* find(const Profile& profile, std::string_view path) {
    for (const FileStats& file : profile.files) {
      if (file.path == path) return &file;
    }
    return nullptr;
  }

  std::optional<TemporaryDirectory> directory_;
};

// Reads whole files one after the other, one millisecond each.
void read_files(const Program& program, const std::vector<int>& order,
                std::chrono::nanoseconds begin) {
  for (const int number : order) {
    const std::string file = fmt::format("/data/{:05}.jpg", number);
    program.open(file, {.at = begin});
    program.read(file, {.at = begin + 100us, .takes = 500us, .offset = 0, .size = 1000});
    program.close(file, {.at = begin + 900us});
    begin += 1ms;
  }
}

std::vector<int> shuffled(int count, uint32_t seed) {
  std::vector<int> order(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) order[static_cast<size_t>(i)] = i;
  std::mt19937 random(seed);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  return order;
}

void mark_epochs(const Program& program, int count, std::chrono::nanoseconds each) {
  for (int epoch = 0; epoch < count; ++epoch) {
    program.region("epoch", {.at = each * epoch, .takes = each, .epoch = epoch});
  }
}

TEST_F(FilesTest, DistinguishesConsecutiveSequentialAndBackwardReads) {
  TraceBuilder job(path());
  const Program program = job.program({});
  program.open("/data/x", {.at = 0ms});
  program.read("/data/x", {.at = 1ms, .offset = 0, .size = 4096});
  program.read("/data/x", {.at = 2ms, .offset = 4096, .size = 4096});  // consecutive
  program.read("/data/x", {.at = 3ms, .offset = 65536, .size = 100});  // sequential
  program.read("/data/x", {.at = 4ms, .offset = 8192, .size = 4096});  // backward
  program.open("/data/x", {.at = 5ms});                                // starts over
  program.read("/data/x", {.at = 6ms, .offset = 12288, .size = 4096});
  const trace::Trace trace = job.finish();
  const Profile profile = profile_of(trace);
  const FileStats* file = find(profile, "/data/x");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->read.count, 5u);
  EXPECT_EQ(file->read.transitions, 3u);
  EXPECT_EQ(file->read.consecutive, 1u);
  EXPECT_EQ(file->read.sequential, 2u);
  EXPECT_EQ(file->read.unaligned_offset, 0u);
  EXPECT_EQ(file->read.unaligned_size, 1u);
  EXPECT_EQ(file->io.opens, 2u);
  EXPECT_EQ(file->size_bytes, 65636u);
  ASSERT_FALSE(profile.reads.common_sizes.empty());
  EXPECT_EQ(profile.reads.common_sizes[0].value, 4096u);
  EXPECT_EQ(profile.reads.common_sizes[0].count, 4u);
  ASSERT_EQ(profile.reads.common_strides.size(), 1u);
  EXPECT_EQ(profile.reads.common_strides[0].value, 61440u);
}

TEST_F(FilesTest, FindsSizesFromStatAndFromReadsAtTheEnd) {
  TraceBuilder job(path());
  const Program program = job.program({});
  program.fstat("/data/known", {.at = 0ms, .size = 5000});
  program.read("/data/known", {.at = 1ms, .offset = 0, .size = 100});
  program.read("/data/short", {.at = 2ms, .offset = 0, .size = 4096, .result = 300});
  program.read("/data/open", {.at = 3ms, .offset = 0, .size = 4096});
  const trace::Trace trace = job.finish();
  const Profile profile = profile_of(trace);
  EXPECT_EQ(find(profile, "/data/known")->size_bytes, 5000u);
  EXPECT_TRUE(find(profile, "/data/known")->size_known);
  EXPECT_EQ(find(profile, "/data/short")->size_bytes, 300u);
  EXPECT_TRUE(find(profile, "/data/short")->size_known);
  EXPECT_FALSE(find(profile, "/data/open")->size_known);
  EXPECT_EQ(profile.data.files_whole, 1u);
}

TEST_F(FilesTest, KindsFollowFromNamesAndUse) {
  TraceBuilder job(path());
  const Program program = job.program({});
  program.read("/data/a.jpg", {.at = 0ms, .offset = 0, .size = 10});
  program.read("/usr/lib/x.so", {.at = 1ms, .offset = 0, .size = 10});
  program.write("/out/log.txt", {.at = 2ms, .offset = 0, .size = 10});
  program.write("/out/model.pt", {.at = 3ms, .offset = 0, .size = 10});
  program.open("/data/never.jpg", {.at = 4ms});
  const trace::Trace trace = job.finish();
  const Profile profile = profile_of(trace);
  EXPECT_EQ(find(profile, "/data/a.jpg")->kind, FileKind::kData);
  EXPECT_EQ(find(profile, "/usr/lib/x.so")->kind, FileKind::kSystem);
  EXPECT_EQ(find(profile, "/out/log.txt")->kind, FileKind::kOutput);
  EXPECT_EQ(find(profile, "/out/model.pt")->kind, FileKind::kCheckpoint);
  EXPECT_EQ(find(profile, "/data/never.jpg")->kind, FileKind::kOther);
  EXPECT_EQ(profile.data.files_opened_unread, 1u);
  EXPECT_EQ(profile.job.dataset_files, 1u);
  EXPECT_EQ(profile.job.bytes_read, 20u);
  EXPECT_EQ(profile.job.bytes_written, 20u);
}

TEST_F(FilesTest, LocksAndSegmentsAreNoData) {
  TraceBuilder job(path());
  const Program program = job.program({});
  for (const char* file : {"/data/.lock", "/data/empty", "/dev/shm/vader_segment.node.0.1",
                           "/env/pyvenv.cfg", "/dev/shm/sm_segment.node.0.2"}) {
    program.open(file, {.at = 0ms});
    program.read(file, {.at = 1ms, .offset = 0, .size = 10, .result = 0});
    program.call(wire::Call::kMmap, file, {.at = 2ms});
  }
  program.read("/data/a.jpg", {.at = 3ms, .offset = 0, .size = 10});
  const Profile profile = profile_of(job.finish());
  EXPECT_EQ(profile.job.dataset_files, 1u);
  EXPECT_EQ(profile.job.dataset_bytes, 10u);
}

// The sum over the ranks is that of the job: files that a rank wrote and read back are not data.
TEST_F(FilesTest, RanksReadTheDataOfTheJob) {
  TraceBuilder job(path());
  for (int32_t rank = 0; rank < 2; ++rank) {
    const Program program = job.program({.rank = rank, .world_size = 2});
    const std::string own = "/out/" + std::to_string(rank);
    program.write(own, {.at = 0ms, .offset = 0, .size = 700});
    program.read(own, {.at = 1ms, .offset = 0, .size = 700});
    program.read("/out/model.ckpt", {.at = 2ms, .offset = 0, .size = 500});
    program.read("/data/a.jpg", {.at = 3ms, .offset = 0, .size = 10});
  }
  const Profile profile = profile_of(job.finish());
  ASSERT_EQ(profile.ranks.size(), 2u);
  EXPECT_EQ(profile.ranks[0].data_bytes_read, 10u);
  EXPECT_EQ(profile.ranks[1].data_bytes_read, 10u);
  EXPECT_EQ(profile.job.dataset_bytes_read, 20u);
  EXPECT_EQ(profile.job.bytes_read, 2420u);
}

// A file is not data if some process writes it, even if the write comes after all reads.
TEST_F(FilesTest, SizesOfDataReadsCoverOnlyDataFiles) {
  TraceBuilder job(path());
  const Program compiler = job.program({});
  const Program assembler = job.program({});
  for (int i = 0; i < 15; ++i) {
    assembler.read("/tmp/a.s",
                   {.at = 1ms * i, .offset = 64u * static_cast<unsigned>(i), .size = 64});
  }
  assembler.read("/data/model.pt", {.at = 20ms, .offset = 0, .size = 20480});
  assembler.read("/usr/lib/x.so", {.at = 21ms, .offset = 0, .size = 832});
  assembler.read("/data/a.c", {.at = 22ms, .offset = 0, .size = 500});
  assembler.read("/data/b.c", {.at = 23ms, .offset = 0, .size = 500});
  assembler.read("/data/b.c", {.at = 24ms, .offset = 500, .size = 4096, .result = 100});
  compiler.write("/tmp/a.s", {.at = 30ms, .offset = 0, .size = 960});
  const trace::Trace trace = job.finish();
  for (const Profile& profile : {profile_of(trace), profile_by_shares(trace, make_files_metric)}) {
    const AccessPattern& reads = profile.data_reads;
    EXPECT_EQ(reads.counts.count, 3u);
    EXPECT_EQ(reads.sizes.total(), 3u);
    ASSERT_EQ(reads.common_sizes.size(), 2u);
    EXPECT_EQ(reads.common_sizes[0].value, 500u);
    EXPECT_EQ(reads.common_sizes[0].count, 2u);
    EXPECT_EQ(reads.common_sizes[1].value, 100u);
    EXPECT_EQ(reads.common_sizes[1].count, 1u);
  }
}

TEST_F(FilesTest, WithManySizesOnlyCommonOnesKeepTheirValue) {
  TraceBuilder job(path());
  const Program program = job.program({});
  uint64_t offset = 0;
  for (uint64_t i = 0; i < 400; ++i) {
    const uint64_t size = i % 2 == 0 ? 4096 : 5000 + i;
    program.read("/data/x", {.at = 1us * i, .offset = offset, .size = size});
    offset += size;
  }
  const trace::Trace trace = job.finish();
  for (const Profile& profile : {profile_of(trace), profile_by_shares(trace, make_files_metric)}) {
    const AccessPattern& reads = profile.data_reads;
    EXPECT_EQ(reads.sizes.total(), 400u);
    EXPECT_EQ(reads.sizes.bins()[13], 400u);  // 4096 to 8191
    EXPECT_EQ(reads.common_sizes[0].value, 4096u);
    EXPECT_EQ(reads.common_sizes[0].count, 200u);
  }
}

TEST_F(FilesTest, AnHdf5ReadIsNotCountedInAdditionToItsReads) {
  TraceBuilder job(path());
  const Program program = job.program({});
  program.call(wire::Call::kH5Dread, "/data/a.h5", {.at = 0ms, .takes = 5ms, .size = 4096});
  program.read("/data/a.h5", {.at = 1ms, .takes = 1ms, .offset = 0, .size = 4096});
  const trace::Trace trace = job.finish();
  const Profile profile = profile_of(trace);
  EXPECT_EQ(profile.job.bytes_read, 4096u);
  ASSERT_EQ(profile.layers.size(), 2u);
  EXPECT_EQ(profile.layers[0].layer, Layer::kFormat);
  EXPECT_EQ(profile.layers[0].bytes_read, 4096u);
}

TEST_F(FilesTest, FindsTheFilesThatRanksShare) {
  TraceBuilder job(path());
  const Program rank0 = job.program({.rank = 0});
  const Program rank1 = job.program({.rank = 1});
  rank0.read("/data/both", {.at = 0ms, .offset = 0, .size = 1000});
  rank1.read("/data/both", {.at = 0ms, .offset = 0, .size = 1000});
  rank0.read("/data/own", {.at = 1ms, .offset = 0, .size = 1000});
  const trace::Trace trace = job.finish();
  const Profile profile = profile_of(trace);
  EXPECT_EQ(profile.data.files_shared, 1u);
  EXPECT_EQ(profile.data.files_one_rank, 1u);
  EXPECT_EQ(profile.data.shared_bytes, 1000u);
  EXPECT_EQ(find(profile, "/data/both")->readers, 2u);
  EXPECT_EQ(find(profile, "/data/both")->reader_ranks, "0-1");
  EXPECT_EQ(find(profile, "/data/own")->reader_ranks, "0");
  ASSERT_EQ(profile.ranks.size(), 2u);
  EXPECT_EQ(profile.ranks[0].data_bytes_read, 2000u);
  EXPECT_EQ(profile.ranks[1].data_files, 1u);
}

TEST_F(FilesTest, CountsTheFilesOfEachHost) {
  TraceBuilder job(path());
  const Program first = job.program({.rank = 0, .host = "a"});
  const Program second = job.program({.rank = 1, .host = "b"});
  const Program third = job.program({.rank = 2, .host = "b"});
  first.read("/data/both", {.at = 0ms, .offset = 0, .size = 1000});
  second.read("/data/both", {.at = 0ms, .offset = 0, .size = 1000});
  third.read("/data/both", {.at = 0ms, .offset = 0, .size = 500});
  third.read("/data/own", {.at = 1ms, .offset = 0, .size = 200});
  third.write("/out/log", {.at = 2ms, .offset = 0, .size = 30});
  const trace::Trace trace = job.finish();
  const Profile profile = profile_of(trace);
  ASSERT_EQ(profile.hosts.size(), 2u);
  EXPECT_EQ(profile.hosts[0].name, "a");
  EXPECT_EQ(profile.hosts[0].files, 1u);
  EXPECT_EQ(profile.hosts[0].size_bytes, 1000u);
  EXPECT_EQ(profile.hosts[0].io.bytes_read, 1000u);
  EXPECT_EQ(profile.hosts[1].files, 3u);
  EXPECT_EQ(profile.hosts[1].size_bytes, 1230u);
  EXPECT_EQ(profile.hosts[1].io.bytes_read, 1700u);
}

TEST_F(FilesTest, UnalignedTransfersCountIfEveryOpenWasDirect) {
  TraceBuilder job(path());
  const Program program = job.program({});
  program.open("/data/d", {.at = 0ms, .detail = O_DIRECT});
  program.read("/data/d", {.at = 1ms, .offset = 100, .size = 512});
  program.read("/data/d", {.at = 2ms, .offset = 512, .size = 512});
  const trace::Trace trace = job.finish();
  const Profile profile = profile_of(trace);
  EXPECT_EQ(find(profile, "/data/d")->unaligned_direct, 1u);
  EXPECT_TRUE(profile.job.direct_io);
}

TEST_F(FilesTest, ANewOrderEveryEpochIsShuffled) {
  TraceBuilder job(path());
  const Program program = job.program({});
  mark_epochs(program, 3, 100ms);
  for (uint32_t epoch = 0; epoch < 3; ++epoch) {
    read_files(program, shuffled(50, epoch), 100ms * epoch);
  }
  const trace::Trace trace = job.finish();
  const Profile profile = profile_of(trace);
  EXPECT_EQ(profile.data.order, ReadOrder::kShuffled);
  EXPECT_EQ(profile.data.order_repeated, 0);
  EXPECT_EQ(profile.data.files_every_epoch, 50u);
}

TEST_F(FilesTest, TheSameOrderEveryEpochIsFixed) {
  TraceBuilder job(path());
  const Program program = job.program({});
  mark_epochs(program, 3, 100ms);
  for (int epoch = 0; epoch < 3; ++epoch) read_files(program, shuffled(50, 1), 100ms * epoch);
  const trace::Trace trace = job.finish();
  const Profile profile = profile_of(trace);
  EXPECT_EQ(profile.data.order, ReadOrder::kFixed);
  EXPECT_EQ(profile.data.order_repeated, 1);
}

TEST_F(FilesTest, TheOrderOfNamesIsSequential) {
  TraceBuilder job(path());
  const Program program = job.program({});
  std::vector<int> order;
  for (int i = 0; i < 50; ++i) order.push_back(i);
  read_files(program, order, 0ms);
  const trace::Trace trace = job.finish();
  EXPECT_EQ(profile_of(trace).data.order, ReadOrder::kSequential);
}

TEST_F(FilesTest, RecognizesShuffledFilesWithSamplesInFixedOrder) {
  TraceBuilder job(path());
  const Program program = job.program({});
  std::chrono::nanoseconds at{};
  for (const int number : shuffled(30, 4)) {
    const std::string file = fmt::format("/data/{:05}.rec", number);
    for (uint64_t sample = 0; sample < 8; ++sample) {
      program.read(file, {.at = at, .takes = 10us, .offset = sample * 10000, .size = 4096});
      at += 20us;
    }
  }
  const trace::Trace trace = job.finish();
  EXPECT_EQ(profile_of(trace).data.order, ReadOrder::kFilesShuffled);
}

TEST_F(FilesTest, AFewReadsHaveNoOrder) {
  TraceBuilder job(path());
  const Program program = job.program({});
  read_files(program, shuffled(5, 1), 0ms);
  const trace::Trace trace = job.finish();
  EXPECT_EQ(profile_of(trace).data.order, ReadOrder::kUnknown);
}

TEST_F(FilesTest, SharesOfBlocksMergeToTheSameProfile) {
  TraceBuilder job(path());
  for (int rank = 0; rank < 5; ++rank) {
    const Program program = job.program({.rank = rank});
    mark_epochs(program, 2, 500ms);
    program.region("compute", {.at = 1ms, .takes = 300ms, .epoch = 0, .step = 0});
    read_files(program, shuffled(300, static_cast<uint32_t>(rank)), 0ms);
    read_files(program, shuffled(300, 99), 500ms);
  }
  const trace::Trace trace = job.finish();
  const Profile alone = profile_of(trace);
  Scan first(trace, {}, {});
  first.run({.index = 0, .count = 3}, {});
  for (size_t share = 1; share < 3; ++share) {
    Scan other(trace, {}, {});
    other.run({.index = share, .count = 3}, {});
    ASSERT_TRUE(first.merge(other.save()).ok());
  }
  EXPECT_EQ(profile_json(first.finish()), profile_json(alone));
}

TEST_F(FilesTest, InvalidSavedBytesAreRejected) {
  TraceBuilder job(path());
  const Program program = job.program({});
  read_files(program, shuffled(20, 1), 0ms);
  const trace::Trace trace = job.finish();
  Scan scan(trace, {}, {});
  scan.run({}, {});
  std::vector<std::byte> saved = scan.save();
  Scan other(trace, {}, {});
  EXPECT_FALSE(other.merge(ByteView(saved).first(saved.size() / 2)).ok());
  EXPECT_FALSE(other.merge({}).ok());
  saved.push_back(std::byte{1});
  EXPECT_FALSE(other.merge(saved).ok());
}

}  // namespace
}  // namespace millrace::analyze
