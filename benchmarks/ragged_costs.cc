// What ragged fields cost: samples in memory whose decoder only copies them, compared with the
// copy.
//
//   bench_ragged_costs [ROUNDS]
//
// 4,096 samples of 2 to 6 KiB and of 32 to 96 KiB, in batches of 64, with 1 and 2 threads. The
// floor is the same number of threads that copy the same samples into a ring of four batches.
// `fixed` copies them into rows of the largest size, so the rest is the cost of the loader.
// `ragged` and `padded` have the real lengths, and copy a second time to gather the rows. All take
// turns; the best round of each counts.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/numbers/random.h"
#include "base/system/clock.h"
#include "base/text/table.h"
#include "benchmarks/measure.h"
#include "benchmarks/must.h"
#include "loader/loader.h"
#include "loader/pipeline/batch_memory.h"

namespace millrace::bench {
namespace {

constexpr uint64_t kSamples = 4096;
constexpr uint64_t kBatchSize = 64;
constexpr uint64_t kEpochs = 4;

// Samples of mean_bytes / 2 to mean_bytes * 3 / 2, which need no reading.
class MemorySource final : public data::SampleSource {
 public:
  explicit MemorySource(size_t mean_bytes) {
    Random random(1);
    size_t end = 0;
    for (uint64_t i = 0; i < kSamples; ++i) {
      begins_.push_back(end);
      end += mean_bytes / 2 + random.next() % mean_bytes / 8 * 8;
    }
    begins_.push_back(end);
    bytes_.resize(end, std::byte{1});
  }

  ByteView sample(uint64_t index) const {
    return ByteView(bytes_).subspan(begins_[index], begins_[index + 1] - begins_[index]);
  }
  size_t total_bytes() const { return bytes_.size(); }

  uint64_t sample_count() const override { return kSamples; }
  std::string name(data::SampleId id) const override {
    return fmt::format("sample {}", data::index_of(id));
  }
  std::optional<int64_t> label(data::SampleId) const override { return std::nullopt; }
  Result<ByteView> read(data::SampleId id, data::Buffer&) const override {
    return sample(data::index_of(id));
  }
  Result<size_t> read_into(data::SampleId id, MutableByteView out) const override {
    const ByteView bytes = sample(data::index_of(id));
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return bytes.size();
  }
  uint64_t group_count() const override { return 1; }
  data::SampleId group_begin(uint64_t group) const override {
    return data::SampleId{group * kSamples};
  }

 private:
  std::vector<size_t> begins_;
  std::vector<std::byte> bytes_;
};

class Copy final : public data::Decoder {
 public:
  explicit Copy(data::FieldSpec field) : field_(std::move(field)) {}
  std::vector<data::FieldSpec> fields() const override { return {field_}; }
  Status decode(ByteView sample, const data::DecodeContext&, std::span<const data::Output> outputs,
                data::Scratch*) const override {
    MutableByteView out = outputs[0].bytes();
    if (field_.is_ragged()) {
      ASSIGN_OR_RETURN(out, outputs[0].room(sample.size()));
    }
    std::memcpy(out.data(), sample.data(), std::min(out.size(), sample.size()));
    return {};
  }

 private:
  data::FieldSpec field_;
};

struct Cost {
  double bytes_per_second = 0;
  double cpu_s_per_gb = 1e300;

  void take_best(const Cost& other) {
    bytes_per_second = std::max(bytes_per_second, other.bytes_per_second);
    cpu_s_per_gb = std::min(cpu_s_per_gb, other.cpu_s_per_gb);
  }
};

template <typename Work>
Cost measured(const MemorySource& source, Work work) {
  const auto cpu = process_cpu_time();
  const auto wall = monotonic_now();
  work();
  const auto seconds = [](std::chrono::nanoseconds time) {
    return std::chrono::duration<double>(time).count();
  };
  const auto bytes = static_cast<double>(source.total_bytes() * kEpochs);
  return {bytes / seconds(monotonic_now() - wall), seconds(process_cpu_time() - cpu) / bytes * 1e9};
}

Cost run_floor(const MemorySource& source, uint32_t thread_count, size_t mean_bytes) {
  constexpr uint64_t kRing = 4 * kBatchSize;
  const size_t row_bytes = mean_bytes * 3 / 2;
  const auto memory =
      must(loader::pipeline::BatchMemory({.buffer_bytes = kRing * row_bytes}).take());
  std::fill_n(memory.get(), kRing * row_bytes, std::byte{0});
  const auto loader = must(loader::Loader::open(
      {.source = std::make_shared<MemorySource>(8),
       .decoder = std::make_shared<Copy>(data::FieldSpec{"x", data::ElementType::kU8, {4}})}));
  std::vector<uint64_t> order;
  for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (uint64_t i = 0; i < kSamples; ++i) {
      order.push_back(data::index_of(loader->order().at(data::Epoch{epoch}, i)));
    }
  }
  return measured(source, [&] {
    std::atomic<uint64_t> next = 0;
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < thread_count; ++i) {
      threads.emplace_back([&] {
        for (uint64_t at = next++; at < order.size(); at = next++) {
          const ByteView sample = source.sample(order[at]);
          std::memcpy(memory.get() + at % kRing * row_bytes, sample.data(), sample.size());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

Cost run_loader(const std::shared_ptr<const MemorySource>& source, uint32_t thread_count,
                const data::FieldSpec& field) {
  return measured(*source, [&] {
    const auto loader = must(loader::Loader::open({.source = source,
                                                   .decoder = std::make_shared<Copy>(field),
                                                   .batch_size = kBatchSize,
                                                   .thread_count = thread_count}));
    uint64_t rows = 0;
    for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      must(loader->start_epoch(data::Epoch{epoch}));
      while (const auto batch = must(loader->next())) rows += batch->row_count;
    }
    if (rows != kSamples * kEpochs) give_up("the loader did not return every sample");
  });
}

void compare(size_t mean_bytes, uint32_t thread_count, int rounds, Table& table) {
  const auto source = std::make_shared<const MemorySource>(mean_bytes);
  const auto u8 = data::ElementType::kU8;
  const std::pair<const char*, data::FieldSpec> fields[] = {
      {"fixed", {"x", u8, {mean_bytes * 3 / 2}}},
      {"ragged", {"x", u8, {}, data::Ragged{}}},
      {"padded", {"x", u8, {}, data::Ragged{.is_padded = true}}}};
  Cost floor;
  Cost best[std::size(fields)];
  for (int round = 0; round < rounds; ++round) {
    floor.take_best(run_floor(*source, thread_count, mean_bytes));
    for (size_t i = 0; i < std::size(fields); ++i) {
      best[i].take_best(run_loader(source, thread_count, fields[i].second));
    }
  }
  for (size_t i = 0; i < std::size(fields); ++i) {
    table.add_row(
        {fmt::format("{} KiB, {}", mean_bytes >> 10, fields[i].first),
         fmt::format("{}", thread_count), fmt::format("{:.2f}", floor.bytes_per_second / 1e9),
         fmt::format("{:.2f}", best[i].bytes_per_second / 1e9),
         fmt::format("{:.2f}", best[i].bytes_per_second / floor.bytes_per_second),
         fmt::format("{:.3f}", floor.cpu_s_per_gb), fmt::format("{:.3f}", best[i].cpu_s_per_gb),
         fmt::format("{:.2f}", best[i].cpu_s_per_gb / floor.cpu_s_per_gb)});
  }
}

void run(int rounds) {
  std::vector<Table::Column> columns = {{.title = "mean sample, field"}};
  for (const char* title : {"threads", "floor GB/s", "loader GB/s", "ratio", "floor CPU s/GB",
                            "loader CPU s/GB", "ratio"}) {
    columns.push_back({.title = title, .align = Table::Align::kRight});
  }
  Table table(columns);
  for (const size_t mean_bytes : {size_t{4} << 10, size_t{64} << 10}) {
    for (const uint32_t thread_count : {1u, 2u}) compare(mean_bytes, thread_count, rounds, table);
  }
  fmt::print("{}\n", table.render(inspect_terminal(1)));
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 7;
  if (rounds < 1) {
    fmt::print(stderr, "usage: bench_ragged_costs [ROUNDS]\n");
    return 2;
  }
  millrace::bench::run(rounds);
  return 0;
}
