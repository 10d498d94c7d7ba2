#include "loader/exchange/shard_source.h"

#include <fcntl.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/io/file.h"
#include "base/io/temporary_directory.h"
#include "data/testing/source_contract.h"
#include "loader/exchange/exchange.h"
#include "loader/exchange/settle.h"
#include "loader/exchange/staging.h"
#include "loader/loader.h"
#include "loader/testing/shard_job.h"

namespace millrace::loader::exchange {
namespace {

using data::Epoch;
using data::SampleId;
using testing::Each;
using testing::HasSubstr;

class LabelledSource final : public NumberedSource {
 public:
  using NumberedSource::NumberedSource;
  std::optional<int64_t> label(SampleId sample) const override {
    return static_cast<int64_t>(data::index_of(sample) % 10);
  }
};

// The storage of a rank in epoch 0, and its source.
struct Held {
  std::shared_ptr<ShardStorage> storage;
  std::shared_ptr<ShardSource> source;
};

// `stages`: whether to stage the samples.
Held held(const std::filesystem::path& directory, const order::Options& order, uint32_t rank,
          bool stages = true) {
  std::shared_ptr<ShardStorage> storage = *open_storage(directory, order, rank);
  const order::Shards shards(order.sample_count, order.shard_count);
  for (uint64_t slot = 0; stages && slot < storage->slot_count(); ++slot) {
    const SampleId sample = shards.at_home({.shard = rank, .index = slot});
    const std::string bytes = bytes_of_sample(data::index_of(sample));
    EXPECT_TRUE(storage->stage(slot, sample, bytes_of(bytes)).ok());
  }
  EXPECT_TRUE(!stages || (storage->prepare(Epoch{0}).ok() && storage->commit().ok()));
  auto source = std::make_shared<ShardSource>(
      storage, std::make_shared<const LabelledSource>(order.sample_count));
  return {.storage = std::move(storage), .source = std::move(source)};
}

// The result of a read with another read in flight, or of read() if the kernel has no such reads.
Result<std::string> flown(const data::SampleSource& source, SampleId sample) {
  const auto reads = *source.open_reads(2);
  data::Buffer room;
  if (!reads) {
    ASSIGN_OR_RETURN(const ByteView alone, source.read(sample, room));
    return std::string(text_of(alone));
  }
  data::Buffer other_room;
  reads->submit({.sample = SampleId{11}, .room = &other_room, .tag = 1});
  reads->submit({.sample = sample, .room = &room, .tag = 2});
  std::vector<data::SampleDone> done;
  while (reads->in_flight() > 0) reads->wait(done);
  const auto& asked = *std::ranges::find(done, 2u, &data::SampleDone::tag);
  ASSIGN_OR_RETURN(const ByteView bytes, asked.bytes);
  return std::string(text_of(bytes));
}

std::string read_error(const data::SampleSource& source, uint64_t sample) {
  data::Buffer room;
  const auto bytes = source.read(SampleId{sample}, room);
  std::string out(4000, '\0');
  const auto into = source.read_into(SampleId{sample}, std::as_writable_bytes(std::span(out)));
  const auto in_flight = flown(source, SampleId{sample});
  if (bytes.ok() || into.ok() || in_flight.ok()) {
    EXPECT_TRUE(bytes.ok() && into.ok() && in_flight.ok());
    return "";
  }
  for (const Error& other : {into.error(), in_flight.error()}) {
    EXPECT_EQ(bytes.error().message(), other.message());
    EXPECT_EQ(bytes.error().code(), other.code());
  }
  return bytes.error().message();
}

class LocalSources : public testing::Test {
 protected:
  TemporaryDirectory directory_ = *TemporaryDirectory::create();
};

TEST_F(LocalSources, PassTheSourceContract) {
  const Held all = held(directory_.path(), partial_order(40, 1, 0.2), 0);
  std::vector<std::string> samples;
  for (uint64_t i = 0; i < 40; ++i) samples.push_back(bytes_of_sample(i));
  const Status kept = data::check_source({.source = all.source, .samples = samples});
  EXPECT_TRUE(kept.ok()) << kept.error().message();
}

TEST_F(LocalSources, HaveTheLabelsOfTheDataset) {
  const Held some = held(directory_.path(), partial_order(40, 4, 0.2), 1);
  EXPECT_EQ(some.source->label(SampleId{17}), 7);
  EXPECT_EQ(some.source->label(SampleId{33}), 3) << "also of samples that others hold";
}

TEST_F(LocalSources, NameTheRankThatHoldsAForeignSample) {
  const Held some = held(directory_.path(), partial_order(40, 4, 0.2), 1);
  EXPECT_EQ(read_error(*some.source, 12), "");
  EXPECT_THAT(read_error(*some.source, 33),
              HasSubstr("(sample 33) is held by rank 3 in epoch 0, and this is rank 1"));
  EXPECT_EQ(read_error(*some.source, 40), "sample 40 does not exist: there are 40 samples");
}

TEST_F(LocalSources, RefuseAnEpochOtherThanTheStorages) {
  const Held some = held(directory_.path(), partial_order(40, 4, 0.2), 1);
  some.source->start_epoch(Epoch{1}, 0);
  EXPECT_THAT(read_error(*some.source, 12), HasSubstr("epoch 1 was started, but it holds the "
                                                      "samples of epoch 0; finish the exchange"));
  some.source->start_epoch(Epoch{0}, 3);
  EXPECT_EQ(read_error(*some.source, 12), "");
}

TEST_F(LocalSources, ReportThatNothingIsStaged) {
  const Held none = held(directory_.path(), partial_order(40, 4, 0.2), 1, /*stages=*/false);
  EXPECT_THAT(read_error(*none.source, 12), HasSubstr("it holds no samples yet"));
}

TEST_F(LocalSources, NameASampleWhoseBytesChangedOnTheDisk) {
  const Held some = held(directory_.path(), partial_order(40, 4, 0.2), 1);
  const auto path = directory_.path() / "rank1" / "samples";
  const size_t at = read_file(path)->find(bytes_of_sample(12));
  const auto file = File::open(path, O_RDWR);
  ASSERT_TRUE(file.ok() && at != std::string::npos);
  ASSERT_TRUE(file->write_at(at, bytes_of(std::string_view("?"))).ok());
  EXPECT_THAT(read_error(*some.source, 12), HasSubstr(some.source->name(SampleId{12}) + ": "));
  EXPECT_THAT(read_error(*some.source, 12), HasSubstr("are not those that were stored"));
}

// ---- with a loader, while samples are exchanged ----

constexpr uint64_t kSampleCount = 103;
constexpr uint32_t kRanks = 4;
constexpr uint64_t kEpochs = 12;  // more than a cycle

// The samples that a rank's loader returned, by epoch, without padding.
Result<std::vector<std::vector<uint64_t>>> train(comm::Comm& comm,
                                                 const std::filesystem::path& directory,
                                                 order::Tail tail) {
  const uint32_t rank = comm::index_of(comm.rank());
  const order::Options order = partial_order(kSampleCount, kRanks, 0.2);
  ASSIGN_OR_RETURN(auto opened, open_storage(directory, order, rank));
  const std::shared_ptr<ShardStorage> storage = std::move(opened);
  const auto dataset = std::make_shared<const LabelledSource>(kSampleCount);
  RETURN_IF_ERROR(settle(*storage, comm));
  RETURN_IF_ERROR(stage_shard(*storage, *dataset, comm));
  ASSIGN_OR_RETURN(const auto messages, comm.open_messages());
  Exchange exchange(comm, *messages, *storage);
  ASSIGN_OR_RETURN(auto loader,
                   Loader::open({.source = std::make_shared<ShardSource>(storage, dataset),
                                 .decoder = std::make_shared<LengthDecoder>(),
                                 .shuffle = order::Shuffle::kPartial,
                                 .fraction = order.fraction,
                                 .seed = order.seed,
                                 .world = {.rank = rank, .size = kRanks},
                                 .batch_size = 4,
                                 .tail = tail,
                                 .thread_count = 2}));
  std::vector<std::vector<uint64_t>> visited(kEpochs);
  for (uint64_t e = 0; e < kEpochs; ++e) {
    RETURN_IF_ERROR(loader->start_epoch(Epoch{e}));
    RETURN_IF_ERROR(exchange.start());
    for (uint64_t i = 1;; ++i) {
      ASSIGN_OR_RETURN(const std::optional<data::Batch> batch, loader->next());
      if (!batch) break;
      for (size_t row = 0; row < batch->row_count; ++row) {
        if (batch->is_real[row] != 0) visited[e].push_back(data::index_of(batch->samples[row]));
      }
      RETURN_IF_ERROR(exchange.advance(i, loader->batch_count()));
    }
    RETURN_IF_ERROR(exchange.finish());
  }
  return visited;
}

class FedLoaders : public LocalSources, public testing::WithParamInterface<order::Tail> {};

TEST_P(FedLoaders, TogetherVisitEverySampleOncePerEpoch) {
  std::mutex mutex;
  std::vector<std::vector<uint64_t>> visited(kEpochs);
  const auto told = run_ranks(kRanks, [&](comm::Comm& comm) -> Status {
    ASSIGN_OR_RETURN(const auto mine, train(comm, directory_.path(), GetParam()));
    const std::lock_guard lock(mutex);
    for (uint64_t e = 0; e < kEpochs; ++e) {
      visited[e].insert(visited[e].end(), mine[e].begin(), mine[e].end());
    }
    return {};
  });
  EXPECT_THAT(told, Each(""));
  std::vector<uint64_t> all(kSampleCount);
  for (uint64_t i = 0; i < kSampleCount; ++i) all[i] = i;
  for (auto& samples : visited) {
    std::ranges::sort(samples);
    EXPECT_EQ(samples, all);
  }
}

INSTANTIATE_TEST_SUITE_P(Tails, FedLoaders,
                         testing::Values(order::Tail::kUneven, order::Tail::kPad));

}  // namespace
}  // namespace millrace::loader::exchange
