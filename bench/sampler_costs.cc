// What a sample's place in an epoch costs: nanoseconds an index and memory, for every order.
//
// The floor is what a loader with a table does, a walk through a vector of 32-bit indices; beside
// it, one block of Philox. Batches of 256 with the stride of 8 ranks, as a loader asks. The target
// is 40 ns an index, and a billion samples in under 1 MB.
#include <fmt/core.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/counter_random.h"
#include "base/file.h"
#include "bench/measure.h"
#include "loader/order.h"

namespace millrace::bench {
namespace {

using loader::Order;
using loader::OrderOptions;
using loader::Shuffle;

constexpr uint64_t kBatch = 256;
constexpr uint32_t kRanks = 8;
constexpr uint64_t kIndices = kBatch * 400;

std::unique_ptr<Order> order_of(Shuffle shuffle, uint64_t sample_count) {
  OrderOptions options{.shuffle = shuffle,
                       .sample_count = sample_count,
                       .seed = 1,
                       .shard_count = kRanks,
                       .fraction = 0.1};
  if (shuffle == Shuffle::kFile) {
    for (uint64_t begin = 0; begin < sample_count; begin += 100'000) {
      options.group_begins.push_back(begin);
    }
    options.group_begins.push_back(sample_count);
  }
  return std::move(*make_order(options));
}

void fill_batches(const Order& order, uint64_t epoch) {
  std::vector<data::SampleId> batch(kBatch);
  for (uint64_t first = 0; first < kIndices * kRanks; first += kBatch * kRanks) {
    // A million samples are used up before; the order begins again.
    const uint64_t position = first % (order.size() - kBatch * kRanks) / kRanks * kRanks;
    order.fill(data::Epoch{epoch}, position, kRanks, batch);
    keep(batch[kBatch - 1]);
  }
}

void order_costs(uint64_t sample_count) {
  std::vector<uint32_t> table(1'000'000);
  std::iota(table.begin(), table.end(), 0);
  std::vector<Contender> contenders = {{"a walk through a vector (floor)",
                                        [&] {
                                          uint64_t sum = 0;
                                          for (uint64_t i = 0; i < kIndices; ++i)
                                            sum += table[i * kRanks % table.size()];
                                          keep(sum);
                                        }},
                                       {"one block of Philox", [&] {
                                          for (uint32_t i = 0; i < kIndices; ++i)
                                            keep(philox4x32({i, 0, 0, 0}, {1, 2})[0]);
                                        }}};
  std::vector<std::unique_ptr<Order>> orders;
  for (const Shuffle shuffle : {Shuffle::kOff, Shuffle::kGlobal, Shuffle::kLocal, Shuffle::kFile}) {
    orders.push_back(order_of(shuffle, sample_count));
    contenders.push_back({std::string(shuffle_name(shuffle)),
                          [order = orders.back().get()] { fill_batches(*order, 1); }});
  }
  // A rank comes to an epoch from the one before: the first round of five is not the least.
  for (const uint64_t epoch : {1, 31, 91}) {
    orders.push_back(order_of(Shuffle::kPartial, sample_count));
    contenders.push_back(
        {fmt::format("partial, a tenth, epochs {} to {}", epoch, epoch + 4),
         [order = orders.back().get(), e = epoch]() mutable { fill_batches(*order, e++); }});
  }
  contenders.push_back({"global, one by one", [order = orders[1].get()] {
                          for (uint64_t i = 0; i < kIndices; ++i) {
                            keep(order->at(data::Epoch{1}, i * 7));
                          }
                        }});
  contenders.push_back({"global, position of a sample", [order = orders[1].get()] {
                          for (uint64_t i = 0; i < kIndices; ++i) {
                            keep(order->position_of(data::Epoch{1}, data::SampleId{i * 7}));
                          }
                        }});
  compare(fmt::format("an index of {:.0e} samples", static_cast<double>(sample_count)), kIndices,
          std::move(contenders), 5);
}

// Resident bytes of this process.
uint64_t resident_bytes() {
  const auto text = read_file("/proc/self/statm");
  if (!text.ok()) return 0;
  return std::stoull(text->substr(text->find(' '))) * 4096;
}

void memory_costs() {
  for (const Shuffle shuffle :
       {Shuffle::kOff, Shuffle::kGlobal, Shuffle::kLocal, Shuffle::kFile, Shuffle::kPartial}) {
    const uint64_t before = resident_bytes();
    const auto order = order_of(shuffle, 1'000'000'000);
    fill_batches(*order, 1);
    fmt::print("{:8} {:9.2f} MB for 1e9 samples\n", shuffle_name(shuffle),
               static_cast<double>(resident_bytes() - before) / 1e6);
  }
}

}  // namespace
}  // namespace millrace::bench

int main() {
  millrace::bench::memory_costs();
  millrace::bench::order_costs(1'000'000);
  millrace::bench::order_costs(1'000'000'000);
}
