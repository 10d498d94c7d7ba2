// The example of docs/guide/loader-cpp.md: trains on a directory of classes, twice, the second time
// from the middle of an epoch. What is between the marks is printed in the guide, word for word.
#include <fmt/core.h>

#include <cstring>
#include <filesystem>

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
                std::span<const MutableByteView> outputs, data::Scratch*) const override {
    if (sample.size() != 16) return fail(Errc::kCorrupt, "it has {} bytes, not 16", sample.size());
    for (size_t i = 0; i < sample.size(); ++i) {
      const float value = static_cast<float>(sample[i]) / 255;
      std::memcpy(&outputs[0][i * sizeof value], &value, sizeof value);
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

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: loader_example DIRECTORY\n");
    return 2;
  }
  const Status status = run(argv[1]);
  if (status.ok()) return 0;
  fmt::print(stderr, "loader_example: {}\n", status.error().message());
  return 1;
}
