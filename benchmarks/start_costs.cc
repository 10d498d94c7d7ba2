// What the start of a job with many ranks costs: until all ranks have made a loader whose cache
// serves the other ranks (Cache.peers). The floor, in the same run, is MPI itself.
//
// usage: mpirun --oversubscribe -np 128 bench_start
//
// A step ends when the last rank has done it. The CPU time is that of all ranks. On a machine with
// fewer cores than ranks, a rank that spins while it waits takes the core from the one it waits
// for, so look at both.
#include <fmt/core.h>
#include <mpi.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/system/clock.h"
#include "base/system/terminal.h"
#include "base/text/table.h"
#include "benchmarks/must.h"
#include "comm/connect.h"
#include "comm/messages.h"
#include "loader/same_dataset.h"

namespace millrace::bench {
namespace {

using data::SampleId;

class SmallSource final : public data::SampleSource {
 public:
  uint64_t sample_count() const override { return 1000; }
  std::string name(SampleId sample) const override {
    return fmt::format("sample {}", data::index_of(sample));
  }
  std::optional<int64_t> label(SampleId) const override { return std::nullopt; }
  Result<ByteView> read(SampleId sample, data::Buffer& room) const override {
    const MutableByteView place = room.room(1000);
    must(read_into(sample, place));
    return ByteView(place);
  }
  Result<size_t> read_into(SampleId, MutableByteView out) const override {
    std::fill_n(out.begin(), 1000, std::byte{1});
    return size_t{1000};
  }
  uint64_t group_count() const override { return 1; }
  SampleId group_begin(uint64_t group) const override { return SampleId{group * 1000}; }
};

// When this rank has done a step, on the clock that all ranks of the host share, and the CPU time
// that it has taken so far. In seconds.
struct Moment {
  double time;
  double cpu;
};

Moment now() {
  const auto seconds = [](std::chrono::nanoseconds time) {
    return static_cast<double>(time.count()) / 1e9;
  };
  return {.time = seconds(monotonic_now()), .cpu = seconds(process_cpu_time())};
}

struct Steps {
  std::vector<std::string> names;
  std::vector<Moment> moments;

  void take(std::string name, const std::function<void()>& step) {
    step();
    names.push_back(std::move(name));
    moments.push_back(now());
  }
};

void print(const Steps& steps, const std::vector<Moment>& all) {
  const size_t step_count = steps.moments.size();
  // The last rank's time, and the sum of the CPU times.
  const auto of_all = [&](size_t step) {
    Moment sum = {.time = 0, .cpu = 0};
    for (size_t at = step; at < all.size(); at += step_count) {
      sum = {.time = std::max(sum.time, all[at].time), .cpu = sum.cpu + all[at].cpu};
    }
    return sum;
  };
  using enum Table::Align;
  Table table({{.title = fmt::format("{} ranks", all.size() / step_count)},
               {.title = "s", .align = kRight},
               {.title = "CPU s", .align = kRight}});
  for (size_t step = 1; step < step_count; ++step) {
    const Moment before = of_all(step - 1);
    const Moment after = of_all(step);
    table.add_row({steps.names[step], fmt::format("{:.3f}", after.time - before.time),
                   fmt::format("{:.2f}", after.cpu - before.cpu)});
  }
  fmt::print("{}", table.render(inspect_terminal(1)));
}

int measure() {
  Steps steps;
  steps.take("start", [] {});
  steps.take("floor: MPI_Init_thread", [] {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  });
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  steps.take("floor: MPI_Barrier", [] { MPI_Barrier(MPI_COMM_WORLD); });
  std::string mine(528, 'x');  // as long as what check_same_dataset() sends
  std::string theirs(mine.size() * static_cast<size_t>(size), '\0');
  steps.take("floor: MPI_Allgather", [&] {
    MPI_Allgather(mine.data(), static_cast<int>(mine.size()), MPI_BYTE, theirs.data(),
                  static_cast<int>(mine.size()), MPI_BYTE, MPI_COMM_WORLD);
  });
  std::unique_ptr<comm::Comm> comm;
  steps.take("connect", [&] { comm = must(comm::connect()); });
  steps.take("compare the datasets",
             [&] { must(loader::check_same_dataset(SmallSource(), *comm)); });
  std::unique_ptr<comm::Messages> messages;
  steps.take("open messages", [&] { messages = must(comm->open_messages()); });
  steps.take("agree", [&] { must(comm->agree({})); });
  steps.take("disconnect", [&] {
    messages.reset();
    comm.reset();
  });
  std::vector<Moment> all(steps.moments.size() * static_cast<size_t>(size));
  const int count = static_cast<int>(2 * steps.moments.size());
  MPI_Gather(steps.moments.data(), count, MPI_DOUBLE, all.data(), count, MPI_DOUBLE, 0,
             MPI_COMM_WORLD);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) print(steps, all);
  MPI_Finalize();
  return 0;
}

}  // namespace
}  // namespace millrace::bench

int main() { return millrace::bench::measure(); }
