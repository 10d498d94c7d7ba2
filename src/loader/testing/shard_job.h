// Shared by the tests of storages and exchanges: a dataset whose bytes identify the sample, and
// ranks as threads with a storage each.
#pragma once

#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "data/decoder.h"
#include "data/source.h"
#include "loader/exchange/shard_storage.h"

namespace millrace::loader {

// Samples of different lengths, some of them empty.
std::string bytes_of_sample(uint64_t sample);

class NumberedSource : public data::SampleSource {
 public:
  explicit NumberedSource(uint64_t sample_count) : sample_count_(sample_count) {}

  uint64_t sample_count() const override { return sample_count_; }
  std::string name(data::SampleId sample) const override;
  std::optional<int64_t> label(data::SampleId) const override { return {}; }
  Result<ByteView> read(data::SampleId sample, data::Buffer& room) const override;
  Result<size_t> read_into(data::SampleId sample, MutableByteView out) const override;
  uint64_t group_count() const override { return 1; }
  data::SampleId group_begin(uint64_t group) const override {
    return data::SampleId{group * sample_count_};
  }

 private:
  uint64_t sample_count_;
};

order::Options partial_order(uint64_t sample_count, uint32_t shard_count, double fraction);

// Runs `work` on every rank; returns the error messages by rank.
using RankWork = std::function<Status(comm::Comm& comm)>;
std::vector<std::string> run_ranks(uint32_t size, const RankWork& work);

// The storage of a rank below `directory`.
Result<std::unique_ptr<exchange::ShardStorage>> open_storage(const std::filesystem::path& directory,
                                                             const order::Options& order,
                                                             uint32_t rank);

// Checks that a storage holds exactly the samples that the order has in its epoch.
Status check_storage(const exchange::ShardStorage& storage);

// Stages if the storage is empty, then exchanges `epochs` times, with `iterations` iterations each.
struct ExchangeJob {
  std::filesystem::path directory;
  order::Options order;
  uint64_t epochs = 1;
  uint64_t iterations = 7;
};
Status run_exchanges(const ExchangeJob& job, comm::Comm& comm);

// Decodes a sample to its length, after checking its bytes.
class LengthDecoder final : public data::Decoder {
 public:
  std::vector<data::FieldSpec> fields() const override {
    return {{"length", data::ElementType::kU64, {}}};
  }
  Status decode(ByteView sample, const data::DecodeContext& context,
                std::span<const data::Output> outputs, data::Scratch*) const override {
    if (text_of(sample) != bytes_of_sample(data::index_of(context.sample))) {
      return fail(Errc::kCorrupt, "these are the bytes of another sample");
    }
    const uint64_t length = sample.size();
    std::memcpy(outputs[0].bytes().data(), &length, sizeof length);
    return {};
  }
};

}  // namespace millrace::loader
