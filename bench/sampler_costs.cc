// What a sample's place in an epoch costs: nanoseconds an index and memory, for every order.
//
// The floor is what a loader with a table does, a walk through a vector of 32-bit indices; beside
// it, one block of Philox. Batches of 256 with the stride of 8 ranks, as a loader asks: its own
// positions (first = rank, stride = ranks). The target is 40 ns an index, and a billion samples in
// under 1 MB.
//
// Partial shuffling has a map of the rank's shard, up to a million slots of it: "map made" is a
// fill with the map of the epoch; a job that runs through its epochs makes each map out of what it
// has, and the mean of ten epochs in a row, all that it takes included, stands apart, as does that
// of a job that goes on at epoch 90, from its second epoch on, and the first map of one. Shards of
// a billion samples have none and are walked back; so are other ranks' positions.
#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/counter_random.h"
#include "base/file.h"
#include "base/permutation.h"
#include "base/permutation_lanes.h"
#include "bench/measure.h"
#include "loader/order/order.h"

namespace millrace::bench {
namespace {

using loader::Order;
using loader::OrderOptions;
using loader::Shuffle;

constexpr uint64_t kBatch = 256;
constexpr uint32_t kRanks = 8;
constexpr uint64_t kIndicesMax = 1'000'000;

// As many of a rank's positions as make whole batches, all of an epoch where it is not huge.
uint64_t index_count(uint64_t sample_count) {
  return std::min(sample_count / kRanks, kIndicesMax) / kBatch * kBatch;
}

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

void fill_batches(const Order& order, uint64_t epoch, uint32_t rank = 0) {
  std::vector<data::SampleId> batch(kBatch);
  const uint64_t end = index_count(order.size()) * kRanks;
  for (uint64_t first = rank; first < end; first += kBatch * kRanks) {
    order.fill(data::Epoch{epoch}, first, kRanks, batch);
    keep(batch[kBatch - 1]);
  }
}

void add_partial(uint64_t sample_count, std::vector<std::unique_ptr<Order>>& orders,
                 std::vector<Contender>& contenders) {
  for (const uint64_t epoch : {1, 5, 35, 95}) {
    orders.push_back(order_of(Shuffle::kPartial, sample_count));
    contenders.push_back({fmt::format("partial, own positions, epoch {}, map made", epoch),
                          [order = orders.back().get(), epoch] { fill_batches(*order, epoch); }});
  }
  orders.push_back(order_of(Shuffle::kPartial, sample_count));
  fill_batches(*orders.back(), 1);  // rank 0 is the first to ask
  contenders.push_back({"partial, another rank's positions, epoch 95",
                        [order = orders.back().get()] { fill_batches(*order, 95, 1); }});
}

struct Asked {
  std::string name;
  const Order* order = nullptr;
  uint64_t epoch = 0;
};

void add_single(const Asked& asked, uint64_t count, std::vector<Contender>& contenders) {
  contenders.push_back({asked.name + ", one by one", [asked, count] {
                          for (uint64_t i = 0; i < count; ++i) {
                            keep(asked.order->at(data::Epoch{asked.epoch}, i * 7));
                          }
                        }});
  contenders.push_back({asked.name + ", position of a sample", [asked, count] {
                          for (uint64_t i = 0; i < count; ++i) {
                            const data::SampleId sample{i * 7};
                            keep(asked.order->position_of(data::Epoch{asked.epoch}, sample));
                          }
                        }});
}

double spent_ms(const std::function<void()>& run) {
  const auto begin = process_cpu_time();
  run();
  return static_cast<double>((process_cpu_time() - begin).count()) / 1e6;
}

// The mean of ten epochs from one on, in nanoseconds an index; the least of some jobs.
double epochs_cost(uint64_t sample_count, uint64_t begin, uint64_t first, int job_count) {
  double least = 1e300;
  for (int job = 0; job < job_count; ++job) {
    const auto order = order_of(Shuffle::kPartial, sample_count);
    for (uint64_t epoch = begin; epoch < first; ++epoch) fill_batches(*order, epoch);
    const double ten = spent_ms([&] {
      for (uint64_t epoch = first; epoch < first + 10; ++epoch) fill_batches(*order, epoch);
    });
    least = std::min(least, ten * 1e6 / 10 / static_cast<double>(index_count(sample_count)));
  }
  return least;
}

void map_costs(uint64_t sample_count) {
  const int jobs = sample_count > 1'000'000 ? 1 : 3;
  for (const uint64_t first : {1, 31, 91}) {
    fmt::print("partial, own positions, a job in epochs {} to {}, maps and all: {:.1f} ns\n", first,
               first + 9, epochs_cost(sample_count, 0, first, jobs));
  }
  fmt::print("partial, own positions, a job that goes on at 90, epochs 91 to 100: {:.1f} ns\n",
             epochs_cost(sample_count, 90, 91, jobs));
  const auto order = order_of(Shuffle::kPartial, sample_count);
  std::vector<data::SampleId> batch(kBatch);
  constexpr uint64_t kAlone = 10'000;
  const double alone_ms = spent_ms([&] {
    for (uint64_t i = 0; i < kAlone; ++i) keep(order->at(data::Epoch{95}, i * 7));
  });
  fmt::print("partial, one by one, epoch 95: {:.0f} ns\n", alone_ms * 1e6 / kAlone);
  const double first_ms = spent_ms([&] { order->fill(data::Epoch{95}, 0, kRanks, batch); });
  fmt::print("first batch at epoch 95, with the map of {} slots: {:.1f} ms\n\n",
             sample_count / kRanks, first_ms);
}

void order_costs(uint64_t sample_count) {
  const uint64_t count = index_count(sample_count);
  std::vector<uint32_t> table(1'000'000);
  std::iota(table.begin(), table.end(), 0);
  std::vector<Contender> contenders = {{"a walk through a vector (floor)",
                                        [&] {
                                          uint64_t sum = 0;
                                          for (uint64_t i = 0; i < count; ++i)
                                            sum += table[i * kRanks % table.size()];
                                          keep(sum);
                                        }},
                                       {"one block of Philox", [&] {
                                          for (uint32_t i = 0; i < count; ++i)
                                            keep(philox4x32({i, 0, 0, 0}, {1, 2})[0]);
                                        }}};
  std::vector<std::unique_ptr<Order>> orders;
  for (const Shuffle shuffle : {Shuffle::kOff, Shuffle::kGlobal, Shuffle::kLocal, Shuffle::kFile}) {
    orders.push_back(order_of(shuffle, sample_count));
    contenders.push_back({std::string(shuffle_name(shuffle)),
                          [order = orders.back().get()] { fill_batches(*order, 1); }});
  }
  add_partial(sample_count, orders, contenders);
  add_single({.name = "global", .order = orders[1].get(), .epoch = 1}, count, contenders);
  add_single({.name = "local", .order = orders[2].get(), .epoch = 1}, count, contenders);
  contenders.push_back({"global, each asked for with the one before", [&orders, count] {
                          uint64_t index = 0;
                          for (uint64_t i = 0; i < count; ++i) {
                            index = data::index_of(orders[1]->at(data::Epoch{1}, index));
                          }
                          keep(index);
                        }});
  compare(fmt::format("an index of {:.0e} samples", static_cast<double>(sample_count)), count,
          std::move(contenders), 5);
}

// What the instructions of the processor make of it (base/permutation_lanes.h).
void lanes_costs() {
  const KeyedPermutation permutation(1'000'000, {.low = 1, .high = 2});
  std::vector<uint64_t> numbers(kBatch);
  std::vector<Contender> contenders;
  const auto add = [&](const char* name, const PermutationLanes* lanes) {
    contenders.push_back({name, [&, lanes] {
                            for (uint64_t first = 0; first < 256'000; first += kBatch) {
                              std::iota(numbers.begin(), numbers.end(), first);
                              lanes->at_each(permutation.network(), permutation.round_keys().data(),
                                             nullptr, numbers.data(), numbers.size());
                              keep(numbers[0]);
                            }
                          }});
  };
  add("plain", plain_permutation_lanes());
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) add("AVX2", avx2_permutation_lanes());
  if (__builtin_cpu_supports("avx512dq")) add("AVX-512", avx512_permutation_lanes());
#endif
  compare("a keyed permutation of 1e6, 256 numbers at a time", 256'000, std::move(contenders), 9);
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
  millrace::bench::lanes_costs();
  millrace::bench::order_costs(1'000'000);
  millrace::bench::map_costs(1'000'000);
  millrace::bench::order_costs(8'000'000);
  millrace::bench::map_costs(8'000'000);
  millrace::bench::order_costs(1'000'000'000);
}
