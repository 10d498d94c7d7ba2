// The example of docs/guide/loader-cpp.md: trains on a directory of classes twice, the second time
// from the middle of an epoch; with a storage, with partial local shuffling. The guide quotes the
// parts between the marks verbatim.
#include <fmt/core.h>

#include <cstring>
#include <filesystem>

#include "comm/connect.h"
// [guide
#include "format/file_source.h"
#include "loader/loader.h"

using namespace millrace;

// Sixteen bytes become sixteen numbers between 0 and 1.
class Scaled final : public data::Decoder {
 public:
  std::vector<data::FieldSpec> fields() const override {
    return {{"values", data::ElementType::kF32, {16}}};
  }
  Status decode(ByteView sample, const data::DecodeContext& /*context*/,
                std::span<const data::Output> outputs, data::Scratch*) const override {
    if (sample.size() != 16) return fail(Errc::kCorrupt, "it has {} bytes, not 16", sample.size());
    for (size_t i = 0; i < sample.size(); ++i) {
      const float value = static_cast<float>(sample[i]) / 255;
      std::memcpy(&outputs[0].bytes()[i * sizeof value], &value, sizeof value);
    }
    return {};
  }
};

Result<std::unique_ptr<loader::Loader>> open(const std::filesystem::path& directory) {
  ASSIGN_OR_RETURN(const auto source, format::open_folder({.directory = directory}));
  return loader::Loader::open({.source = source,
                               .decoder = std::make_shared<Scaled>(),
                               .shuffle = loader::Shuffle::kGlobal,
                               .seed = 1,
                               .batch_size = 8});
}

Status train(loader::Loader& loader, void (*step)(const data::Batch&)) {
  while (true) {
    ASSIGN_OR_RETURN(const auto batch, loader.next());
    if (!batch) return {};  // the end of the epoch
    step(*batch);
  }
}
// guide]

// [shard
Result<std::unique_ptr<loader::Loader>> open_sharded(const std::filesystem::path& directory,
                                                     const std::filesystem::path& storage) {
  ASSIGN_OR_RETURN(const std::shared_ptr<comm::Comm> ranks, comm::connect());
  ASSIGN_OR_RETURN(const auto source, format::open_folder({.directory = directory}));
  return loader::Loader::open({.source = source,
                               .decoder = std::make_shared<Scaled>(),
                               .shuffle = loader::Shuffle::kPartial,
                               .fraction = 0.1,
                               .seed = 1,
                               .world = {comm::index_of(ranks->rank()), ranks->size()},
                               .batch_size = 8,
                               .shard = {.directory = storage, .comm = ranks}});
}
// shard]

namespace {

void print(const data::Batch& batch) {
  const std::byte* const values = batch.fields[0].bytes.data();
  float sum = 0;
  for (uint64_t i = 0; i < batch.row_count * 16; ++i) {
    float value = 0;
    std::memcpy(&value, values + i * sizeof value, sizeof value);
    sum += value;
  }
  int64_t labels = 0;
  for (const int64_t label : batch.labels) labels += label;
  fmt::print("epoch {} batch {}: {} samples, labels {}, sum {:.4f}\n", data::number_of(batch.epoch),
             batch.index, batch.row_count, labels, sum);
}

Status run(const std::filesystem::path& directory) {
  ASSIGN_OR_RETURN(const auto first, open(directory));
  std::string saved;
  for (uint64_t epoch = 0; epoch < 2; ++epoch) {
    RETURN_IF_ERROR(first->start_epoch(data::Epoch{epoch}));
    ASSIGN_OR_RETURN(const auto batch, first->next());
    if (batch) print(*batch);
    saved = first->state().text();
    RETURN_IF_ERROR(train(*first, print));
  }
  fmt::print("resumed\n");
  ASSIGN_OR_RETURN(const auto again, open(directory));
  // [restore
  ASSIGN_OR_RETURN(const auto state, loader::LoaderState::parse(saved));
  RETURN_IF_ERROR(again->restore(state));
  RETURN_IF_ERROR(train(*again, print));
  // restore]
  const loader::LoaderStats stats = first->stats();
  fmt::print("{} samples by {} threads\n", stats.samples, stats.thread_count);
  return {};
}

Status run_local(const std::filesystem::path& directory, const std::filesystem::path& storage) {
  ASSIGN_OR_RETURN(const auto loader, open_sharded(directory, storage));
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    RETURN_IF_ERROR(loader->start_epoch(data::Epoch{epoch}));
    RETURN_IF_ERROR(train(*loader, print));
  }
  const loader::LoaderStats stats = loader->stats();
  fmt::print("{} samples staged, {} sent\n", stats.shard->staging.samples,
             stats.shard->exchange.samples_sent);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    fmt::print(stderr, "usage: loader_example DIRECTORY [STORAGE]\n");
    return 2;
  }
  const Status status = argc == 2 ? run(argv[1]) : run_local(argv[1], argv[2]);
  if (status.ok()) return 0;
  fmt::print(stderr, "loader_example: {}\n", status.error().message());
  return 1;
}
