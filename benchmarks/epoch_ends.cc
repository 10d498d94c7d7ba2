// What the end of an epoch costs training: the wait for the first batches of the next epoch, and
// the useless reads if no epoch follows.
//
//   bench_epoch_ends [EPOCHS]
//
// The source behaves like a remote device: most reads take 1 ms, one in 50 takes 10 ms. Eight
// threads make a batch of 32 in about 5 ms. A step takes as long as a batch, or a fifth longer, so
// that batches can accumulate. The queue holds eight batches. Epochs of 40 steps follow each other
// at once, or after 100 ms of validation.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/numbers/random.h"
#include "base/system/clock.h"
#include "base/text/table.h"
#include "benchmarks/measure.h"
#include "benchmarks/must.h"
#include "benchmarks/verbatim.h"
#include "loader/loader.h"

namespace millrace::bench {
namespace {

using data::Epoch;
using data::SampleId;
using namespace std::chrono_literals;

constexpr uint64_t kBatchSize = 32;
constexpr uint64_t kSteps = 40;
constexpr uint64_t kFirstSteps = 10;
constexpr size_t kSampleBytes = 64;

class FarSource final : public data::SampleSource {
 public:
  uint64_t sample_count() const override { return kBatchSize * kSteps; }
  std::string name(SampleId) const override { return "a sample"; }
  std::optional<int64_t> label(SampleId) const override { return std::nullopt; }
  Result<ByteView> read(SampleId sample, data::Buffer& room) const override {
    ASSIGN_OR_RETURN(const size_t size_bytes, read_into(sample, room.room(kSampleBytes)));
    return ByteView(room.room(size_bytes));
  }
  Result<size_t> read_into(SampleId, MutableByteView out) const override {
    const uint64_t number = read_count.fetch_add(1);
    std::this_thread::sleep_for(Random(number).below(50) == 0 ? 10ms : 1ms);
    std::memset(out.data(), 1, kSampleBytes);
    return kSampleBytes;
  }
  uint64_t group_count() const override { return 1; }
  SampleId group_begin(uint64_t group) const override { return SampleId{group * sample_count()}; }

  mutable std::atomic<uint64_t> read_count{0};
};

struct Waits {
  double first_ms = 0;  // for the first batch of a later epoch, the mean
  double begin_ms = 0;  // for the first ten together, the mean
  double step_ms = 0;   // for any batch of a later epoch, the mean
  uint64_t useless_reads = 0;
};

struct Pace {
  std::chrono::microseconds step;
  std::chrono::milliseconds between_epochs;
};

Waits run(const Pace& pace, uint64_t epochs) {
  const auto source = std::make_shared<FarSource>();
  auto loader = must(loader::Loader::open({.source = source,
                                           .decoder = std::make_shared<Verbatim>(kSampleBytes),
                                           .batch_size = kBatchSize,
                                           .thread_count = 8,
                                           .prefetch_batches = 8}));
  Waits waits;
  for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
    must(loader->start_epoch(Epoch{epoch}));
    for (uint64_t step = 0; step <= kSteps; ++step) {
      const auto begin = monotonic_now();
      const auto batch = must(loader->next());
      const double ms = std::chrono::duration<double, std::milli>(monotonic_now() - begin).count();
      if (epoch > 0 && step == 0) waits.first_ms += ms;
      if (epoch > 0 && step < kFirstSteps) waits.begin_ms += ms;
      if (epoch > 0) waits.step_ms += ms;
      if (batch) std::this_thread::sleep_for(pace.step);
    }
    std::this_thread::sleep_for(pace.between_epochs);
  }
  const auto later = static_cast<double>(epochs - 1);
  loader.reset();  // waits for reads in flight
  return {waits.first_ms / later, waits.begin_ms / later, waits.step_ms / later / kSteps,
          source->read_count - epochs * source->sample_count()};
}

void run_all(uint64_t epochs) {
  std::vector<Table::Column> columns;
  for (const char* title : {"step", "between epochs", "first batch, ms", "first ten, ms",
                            "any batch, ms", "useless reads"}) {
    columns.push_back({.title = title, .align = Table::Align::kRight});
  }
  Table table(columns);
  for (const Pace& pace : {Pace{5000us, 0ms}, Pace{6000us, 0ms}, Pace{6000us, 100ms}}) {
    const Waits waits = run(pace, epochs);
    table.add_row({fmt::format("{} us", pace.step.count()),
                   fmt::format("{} ms", pace.between_epochs.count()),
                   fmt::format("{:.2f}", waits.first_ms), fmt::format("{:.2f}", waits.begin_ms),
                   fmt::format("{:.3f}", waits.step_ms), fmt::format("{}", waits.useless_reads)});
  }
  fmt::print("{}\n", table.render(inspect_terminal(1)));
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  const uint64_t epochs = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 20;
  if (epochs < 2) {
    fmt::print(stderr, "usage: bench_epoch_ends [EPOCHS]; at least 2\n");
    return 2;
  }
  millrace::bench::run_all(epochs);
}
