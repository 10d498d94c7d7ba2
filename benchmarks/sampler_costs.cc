// What it costs to find a sample's position in an epoch: nanoseconds per index, and memory, for
// every order.
//
// The floor is a loader with a table: a walk through a vector of 32-bit indices. One block of
// Philox is measured too. Batches of 256 with the stride of 8 ranks, as a loader asks for its own
// positions (first = rank, stride = ranks). The targets are 40 ns per index, and less than 1 MB for
// a billion samples. Orders that are not permutations have tables; what it costs to make them is
// printed too.
//
// It also shows that partial shuffling costs the same in every epoch, with 8 and with 1024 shards.
// A job that starts at a late epoch pays, besides its first batch, only for the plan of one
// exchange.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/io/file.h"
#include "base/numbers/counter_random.h"
#include "base/numbers/permutation.h"
#include "benchmarks/measure.h"
#include "loader/exchange/plan.h"
#include "loader/order/drawing.h"
#include "loader/order/order.h"

namespace millrace::bench {
namespace {

using loader::order::Order;
using loader::order::Shuffle;

constexpr uint64_t kBatch = 256;
constexpr uint32_t kRanks = 8;
constexpr uint64_t kIndicesMax = 1'000'000;

// The number of a rank's positions that make whole batches: a whole epoch, unless it is huge.
uint64_t index_count(uint64_t sample_count) {
  return std::min(sample_count / kRanks, kIndicesMax) / kBatch * kBatch;
}

std::unique_ptr<Order> order_of(Shuffle shuffle, uint64_t sample_count) {
  loader::order::Options options{.shuffle = shuffle,
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
  const uint64_t ranks = order.options().shard_count;
  const uint64_t whole_batches = order.size() / (kBatch * ranks);
  for (uint64_t i = 0; i < index_count(order.size()) / kBatch; ++i) {
    order.fill(data::Epoch{epoch}, rank + i % whole_batches * kBatch * ranks, ranks, batch);
    keep(batch[kBatch - 1]);
  }
}

void add_partial(uint64_t sample_count, std::vector<std::unique_ptr<Order>>& orders,
                 std::vector<Contender>& contenders) {
  orders.push_back(order_of(Shuffle::kPartial, sample_count));
  for (const uint64_t epoch : {1, 5, 35, 95, 1000}) {
    contenders.push_back({fmt::format("partial, epoch {}", epoch),
                          [order = orders.back().get(), epoch] { fill_batches(*order, epoch); }});
  }
  contenders.push_back({"partial, another rank's positions, epoch 95",
                        [order = orders.back().get()] { fill_batches(*order, 95, 1); }});
  loader::order::Options options = orders.back()->options();
  options.shard_count = 1024;
  orders.push_back(std::move(*make_order(options)));
  contenders.push_back({"partial of 1024 shards, epoch 95",
                        [order = orders.back().get()] { fill_batches(*order, 95); }});
}

// Samples of 1,000 classes, of which the first has as many as all others together.
loader::order::Mixture balanced_classes(uint64_t sample_count) {
  loader::order::Mixture mixture{.part_begins = {0}};
  for (uint64_t i = 0; i < 1000; ++i) {
    mixture.proportions.push_back(1);
    mixture.part_begins.push_back(sample_count / 2 + sample_count * i / 1998);
  }
  mixture.part_begins.back() = sample_count;
  for (uint64_t i = 0; i < sample_count; ++i) mixture.members.push_back(i);
  return mixture;
}

struct Drawn {
  std::string name;
  Shuffle shuffle{};
  loader::order::Drawing drawing;
};

// Orders that draw as many samples per epoch as there are. Tables of a billion are left out.
std::vector<Drawn> drawn_orders(uint64_t sample_count) {
  std::vector<Drawn> orders;
  orders.push_back({"weighted, all equal", Shuffle::kWeighted, {}});
  orders.push_back(
      {"mixture of 3 parts",
       Shuffle::kMixture,
       {.mixture = {.proportions = {0.6, 0.3, 0.1},
                    .part_begins = {0, sample_count / 10, sample_count / 2, sample_count}}}});
  if (sample_count > 100'000'000) return orders;
  std::vector<double> weights;
  for (uint64_t i = 0; i < sample_count; ++i) weights.push_back(static_cast<double>(1 + i % 100));
  orders.push_back({"weighted", Shuffle::kWeighted, {.weights = weights}});
  orders.push_back({"weighted, without replacement",
                    Shuffle::kWeighted,
                    {.weights = weights, .replaces = false}});
  orders.push_back(
      {"balanced, 1000 classes", Shuffle::kMixture, {.mixture = balanced_classes(sample_count)}});
  auto lists = std::make_shared<loader::order::EpochLists>(sample_count, sample_count);
  std::vector<int64_t> list(sample_count);
  for (uint64_t i = 0; i < sample_count; ++i) {
    list[i] = static_cast<int64_t>(i * 7 % sample_count);
  }
  if (!lists->put(data::Epoch{1}, list).ok()) std::abort();
  orders.push_back({"listed", Shuffle::kListed, {.lists = std::move(lists)}});
  return orders;
}

// Making the order, its first batch of an epoch, and what tiers need to find a sample.
void add_drawn(uint64_t sample_count, std::vector<std::unique_ptr<Order>>& orders,
               std::vector<Contender>& contenders) {
  for (Drawn& drawn : drawn_orders(sample_count)) {
    loader::order::Options options{
        .shuffle = drawn.shuffle,
        .sample_count = sample_count,
        .seed = 1,
        .shard_count = kRanks,
        .position_count = sample_count,
        .drawing = std::make_shared<loader::order::Drawing>(std::move(drawn.drawing))};
    auto begin = process_cpu_time();
    orders.push_back(std::move(*make_order(options)));
    const auto made = process_cpu_time() - begin;
    const Order* const order = orders.back().get();
    std::vector<data::SampleId> batch(kBatch);
    begin = process_cpu_time();
    order->fill(data::Epoch{1}, 0, kRanks, batch);
    const auto filled = process_cpu_time() - begin;
    fmt::print("{}: made in {:.1f} ms, first batch {:.3f} ms", drawn.name,
               static_cast<double>(made.count()) / 1e6, static_cast<double>(filled.count()) / 1e6);
    contenders.push_back({drawn.name, [order] { fill_batches(*order, 1); }});
    if (sample_count <= 100'000'000) {
      begin = process_cpu_time();
      keep(order->position_of(data::Epoch{1}, data::SampleId{0}));
      fmt::print(", positions by sample {:.1f} ms",
                 static_cast<double>((process_cpu_time() - begin).count()) / 1e6);
      contenders.push_back({drawn.name + ", position of a sample", [order, sample_count] {
                              for (uint64_t i = 0; i < index_count(sample_count); ++i) {
                                keep(order->position_of(data::Epoch{1}, data::SampleId{i * 7}));
                              }
                            }});
    }
    fmt::print("\n");
  }
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

// What a job waits for that resumes at a late epoch.
void late_costs(uint64_t sample_count) {
  const auto order = order_of(Shuffle::kPartial, sample_count);
  std::vector<data::SampleId> batch(kBatch);
  auto begin = process_cpu_time();
  order->fill(data::Epoch{95}, 0, kRanks, batch);
  const auto filled = process_cpu_time() - begin;
  const loader::order::PartialMoves moves(order->options());
  begin = process_cpu_time();
  const loader::exchange::Plan plan = loader::exchange::plan_exchange(moves, data::Epoch{95}, 0);
  const auto planned = process_cpu_time() - begin;
  fmt::print(
      "epoch 95 of {:.0e} samples: first batch {:.3f} ms; plan {:.1f} ms, {:.0f} ns a turn\n\n",
      static_cast<double>(sample_count), static_cast<double>(filled.count()) / 1e6,
      static_cast<double>(planned.count()) / 1e6,
      static_cast<double>(planned.count()) / static_cast<double>(plan.turn_count));
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
  add_drawn(sample_count, orders, contenders);
  add_single({.name = "global", .order = orders[1].get(), .epoch = 1}, count, contenders);
  add_single({.name = "local", .order = orders[2].get(), .epoch = 1}, count, contenders);
  add_single({.name = "partial, epoch 95", .order = orders[4].get(), .epoch = 95}, count,
             contenders);
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
  millrace::bench::late_costs(1'000'000);
  millrace::bench::order_costs(8'000'000);
  millrace::bench::late_costs(8'000'000);
  millrace::bench::order_costs(1'000'000'000);
  millrace::bench::late_costs(80'000'000);
}
