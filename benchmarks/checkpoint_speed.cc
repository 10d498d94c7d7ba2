// How fast checkpoints are written and read back, compared with dd in the same run.
//
//   bench_checkpoint_speed [DIRECTORY [SIZE]]     needs twice SIZE (512MiB) there; removes it
//
// dd copies zeros from memory, or to /dev/null, with blocks of the size of the buffer. A checkpoint
// has random tensors, checksums, and a comparison of every byte when it is read. Contenders run in
// turn; the best round of each counts. On a device that is slower than memory, all are equal.
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "base/io/temporary_directory.h"
#include "base/system/clock.h"
#include "base/system/subprocess.h"
#include "base/text/table.h"
#include "base/text/units.h"
#include "bench/checkpoint/checkpoint.h"
#include "benchmarks/must.h"
#include "comm/single.h"

namespace millrace::bench {
namespace {

constexpr int kRounds = 5;

struct Way {
  std::string name;
  std::function<void()> run;
  double seconds = 1e300;
};

double seconds_of(const std::function<void()>& run) {
  const auto start = monotonic_now();
  run();
  return std::chrono::duration<double>(monotonic_now() - start).count();
}

// Times all ways in turn and prints their speed and its ratio to that of the first.
void race(const std::string& title, uint64_t size_bytes, std::vector<Way> ways) {
  for (int round = 0; round < kRounds; ++round) {
    for (Way& way : ways) way.seconds = std::min(way.seconds, seconds_of(way.run));
  }
  Table table({{.title = title},
               {.title = "speed", .align = Table::Align::kRight},
               {.title = "ratio", .align = Table::Align::kRight}});
  for (const Way& way : ways) {
    table.add_row({way.name, format_bandwidth(static_cast<double>(size_bytes) / way.seconds),
                   fmt::format("{:.2f}", ways[0].seconds / way.seconds)});
  }
  fmt::print("{}\n", table.render(inspect_terminal(1)));
}

class Race {
 public:
  Race(std::filesystem::path folder, uint64_t size_bytes)
      : folder_(std::move(folder)), size_bytes_(size_bytes) {}

  void write(bool fsyncs) {
    race(fsyncs ? "write and fsync" : "write", size_bytes_,
         {{"dd", [&] { dd({"if=/dev/zero", of_file(), fsyncs ? "conv=fsync" : "conv=notrunc"}); }},
          {"checkpoint", [&] { save({.fsyncs = fsyncs}); }},
          {"checkpoint, constant", [&] { save({.fsyncs = fsyncs, .randomizes = false}); }}});
  }

  void read() {
    dd({"if=/dev/zero", of_file()});
    save({});
    race("read, page cache", size_bytes_,
         {{"dd", [&] { dd({"if=" + file(), "of=/dev/null"}); }},
          {"checkpoint", [&] { load({}); }},
          {"checkpoint, not verified", [&] { load({.verifies = false}); }}});
  }

 private:
  struct Choice {
    bool fsyncs = false;
    bool randomizes = true;
    bool verifies = true;
  };

  std::string file() const { return (folder_ / "dd").native(); }
  std::string of_file() const { return "of=" + file(); }

  void dd(std::vector<std::string> operands) const {
    const uint64_t block = CheckpointConfig{}.buffer_size;
    std::vector<std::string> command = {"dd", fmt::format("bs={}", block),
                                        fmt::format("count={}", size_bytes_ / block)};
    command.insert(command.end(), operands.begin(), operands.end());
    if (operands[1] == of_file()) unlink(file().c_str());  // every contender makes a new file
    const auto done = must(run_subprocess(command, {.timeout = std::chrono::minutes(5)}));
    if (done.exit_code != 0) give_up(done.output);
  }

  std::unique_ptr<Checkpointer> open(const Choice& choice) {
    Workload workload;
    workload.model.model_size_bytes = size_bytes_;
    workload.checkpoint.checkpoint_folder = (folder_ / "checkpoints").native();
    workload.checkpoint.fsync = choice.fsyncs;
    workload.checkpoint.randomize_tensor = choice.randomizes;
    workload.checkpoint.verify = choice.verifies;
    return must(Checkpointer::open(workload, *comm_));
  }

  void save(const Choice& choice) {
    std::filesystem::remove_all(folder_ / "checkpoints");
    static_cast<void>(must(open(choice)->save(1, 1, 1)));
  }

  void load(const Choice& choice) { static_cast<void>(must(open(choice)->load(1, 1, 1))); }

  std::filesystem::path folder_;
  uint64_t size_bytes_;
  std::unique_ptr<comm::Comm> comm_ = comm::single();
};

void run(int count, char** arguments) {
  const std::filesystem::path parent =
      count > 1 ? arguments[1] : std::filesystem::temp_directory_path().native();
  const TemporaryDirectory scratch = must(TemporaryDirectory::create(parent));
  Race contest(scratch.path(), must(parse_bytes(count > 2 ? arguments[2] : "512MiB")));
  contest.write(false);
  contest.write(true);
  contest.read();
}

}  // namespace
}  // namespace millrace::bench

int main(int count, char** arguments) { millrace::bench::run(count, arguments); }
