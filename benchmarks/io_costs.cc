// What the engines of src/io cost, compared with plain system calls and, if installed, with fio:
// random reads from the page cache, direct reads with many in flight, and one file per sample.
//
//   bench_io [DIRECTORY]     needs 1.2 GiB there; removes them
//
// Contenders run in turn, round after round; the best round of each counts. The first is the floor.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>

#include "base/io/file.h"
#include "base/io/temporary_directory.h"
#include "base/numbers/random.h"
#include "base/system/clock.h"
#include "base/system/subprocess.h"
#include "base/text/table.h"
#include "benchmarks/measure.h"
#include "benchmarks/must.h"
#include "io/aligned_memory.h"
#include "io/engine.h"

namespace millrace::bench {
namespace {

using io::AlignedMemory;
using io::kBlockBytes;

constexpr uint64_t kFileBytes = uint64_t{1} << 30;
constexpr size_t kRounds = 5;

// The reads of one thread.
struct Work {
  size_t read_bytes;
  size_t count;
  uint64_t seed;

  uint64_t offset(Random& random) const {
    return random.below(kFileBytes / read_bytes) * read_bytes;
  }
};

struct Way {
  std::string name;
  std::function<void(const Work&)> run;
};

struct Cost {
  double wall_ns = 1e300;
  double cpu_ns = 1e300;
};

Cost time_once(const Way& way, size_t threads, Work work) {
  const auto cpu = process_cpu_time();
  const auto start = monotonic_now();
  {
    std::vector<std::jthread> running;
    for (size_t i = 0; i < threads; ++i) {
      Work own = work;
      own.seed += i;
      running.emplace_back([&way, own] { way.run(own); });
    }
  }
  const auto operations = static_cast<double>(threads * work.count);
  return {static_cast<double>((monotonic_now() - start).count()) / operations,
          static_cast<double>((process_cpu_time() - cpu).count()) / operations};
}

void compare_ways(const std::string& title, Work work, const std::vector<Way>& ways) {
  for (const size_t threads : {1, 2}) {
    std::vector<Cost> best(ways.size());
    for (size_t round = 0; round < kRounds; ++round) {
      for (size_t i = 0; i < ways.size(); ++i) {
        work.seed = round * 100 + 1;
        const Cost cost = time_once(ways[i], threads, work);
        best[i].wall_ns = std::min(best[i].wall_ns, cost.wall_ns);
        best[i].cpu_ns = std::min(best[i].cpu_ns, cost.cpu_ns);
      }
    }
    using enum Table::Align;
    Table table({{.title = fmt::format("{}, {} thread{}", title, threads, threads > 1 ? "s" : "")},
                 {.title = "per s", .align = kRight},
                 {.title = "of floor", .align = kRight},
                 {.title = "CPU us", .align = kRight},
                 {.title = "of floor", .align = kRight}});
    for (size_t i = 0; i < ways.size(); ++i) {
      table.add_row({ways[i].name, fmt::format("{:.0f}", 1e9 / best[i].wall_ns),
                     fmt::format("{:.2f}", best[0].wall_ns / best[i].wall_ns),
                     fmt::format("{:.2f}", best[i].cpu_ns / 1e3),
                     fmt::format("{:.2f}", best[i].cpu_ns / best[0].cpu_ns)});
    }
    fmt::print("{}\n", table.render(inspect_terminal(1)));
  }
}

// ---- the ways to read ----

Way by_pread(const std::filesystem::path& path, int more_flags) {
  return {more_flags == 0 ? "pread (floor)" : "pread with O_DIRECT (floor)",
          [path, more_flags](const Work& work) {
            const File file = must(File::open(path, O_RDONLY | more_flags));
            AlignedMemory memory;
            const auto out = memory.room(work.read_bytes);
            Random random(work.seed);
            for (size_t i = 0; i < work.count; ++i) {
              const auto at = static_cast<off_t>(work.offset(random));
              if (pread(file.fd(), out.data(), out.size(), at) < 0) std::abort();
            }
          }};
}

Way by_read_at(const std::string& engine_name, const std::filesystem::path& path,
               size_t shift = 0) {
  return {engine_name + (shift == 0 ? " read_at" : " read_at, unaligned"),
          [engine_name, path, shift](const Work& work) {
            const auto engine = must(io::open_engine(engine_name));
            const auto reader = must(engine->open(path));
            AlignedMemory memory;
            const auto out = memory.room(work.read_bytes + shift).subspan(shift);
            Random random(work.seed);
            for (size_t i = 0; i < work.count; ++i) {
              keep(must(reader->read_at(work.offset(random) + shift, out)));
            }
          }};
}

Way by_view(const std::filesystem::path& path, bool copies) {
  return {copies ? "mapped view, copied" : "mapped view", [path, copies](const Work& work) {
            const auto engine = must(io::open_engine("mapped"));
            const auto reader = must(engine->open(path));
            AlignedMemory memory;
            const auto out = memory.room(work.read_bytes);
            Random random(work.seed);
            for (size_t i = 0; i < work.count; ++i) {
              const auto view = reader->view(work.offset(random), work.read_bytes);
              if (!view) std::abort();
              if (copies) std::memcpy(out.data(), view->data(), view->size());
              keep(out[0]);
            }
          }};
}

struct QueueUse {
  std::string engine_name;
  size_t depth;
  bool tells_memory = false;
};

void read_by_queue(const QueueUse& use, const std::filesystem::path& path, const Work& work) {
  const auto engine = must(io::open_engine(use.engine_name));
  const auto reader = must(engine->open(path));
  AlignedMemory memory;
  const auto room = memory.room(use.depth * work.read_bytes);
  const auto queue = must(engine->open_queue(use.depth));
  if (use.tells_memory) queue->use_memory(room);
  Random random(work.seed);
  std::vector<io::ReadDone> done;
  for (size_t i = 0; i < use.depth; ++i) done.push_back({i, size_t{0}});
  size_t begun = 0;
  while (begun < work.count || queue->in_flight() > 0) {
    for (const io::ReadDone& one : done) {
      must(one.bytes_read);
      if (begun++ >= work.count) continue;
      const auto out = room.subspan(one.tag * work.read_bytes, work.read_bytes);
      must(queue->submit({reader.get(), work.offset(random), out, one.tag}));
    }
    done.clear();
    must(queue->wait(done));
  }
}

Way by_queue(QueueUse use, const std::filesystem::path& path) {
  return {fmt::format("{} queue of {}{}", use.engine_name, use.depth,
                      use.tells_memory ? ", memory known" : ""),
          [use, path](const Work& work) { read_by_queue(use, path, work); }};
}

// ---- fio ----

// Runs fio for a second, not interleaved with the other contenders: a second opinion, not a floor.
void ask_fio(const std::filesystem::path& path, const std::string& options) {
  std::vector<std::string> argv = {"fio",
                                   "--name=x",
                                   "--filename=" + path.native(),
                                   "--size=1g",
                                   "--rw=randread",
                                   "--runtime=1",
                                   "--time_based",
                                   "--thread",
                                   "--group_reporting",
                                   "--randrepeat=0",
                                   "--invalidate=0",
                                   "--output-format=terse",
                                   "--terse-version=3"};
  for (size_t at = 0; at < options.size();) {
    const size_t end = std::min(options.find(' ', at), options.size());
    argv.push_back("--" + options.substr(at, end - at));
    at = end + 1;
  }
  double best = 0;
  for (int round = 0; round < 2; ++round) {
    const auto result = run_subprocess(argv, {.timeout = std::chrono::seconds(30)});
    if (!result.ok() || result->exit_code != 0) return;
    // The eighth field, separated by semicolons, is the number of reads per second.
    size_t at = 0;
    for (int field = 0; field < 7; ++field) at = result->output.find(';', at) + 1;
    best = std::max(best, std::strtod(result->output.c_str() + at, nullptr));
  }
  fmt::print("fio {}: {:.0f} per s\n", options, best);
}

// ---- what is compared ----

void page_cache_reads(const std::filesystem::path& path) {
  for (const size_t read_bytes : {size_t{4} << 10, size_t{128} << 10}) {
    const Work work{read_bytes, read_bytes > 10'000 ? size_t{10'000} : size_t{100'000}, 0};
    compare_ways(fmt::format("{} KiB from the page cache", read_bytes >> 10), work,
                 {by_pread(path, 0), by_read_at("posix", path), by_read_at("mapped", path),
                  by_view(path, true), by_view(path, false), by_queue({"uring", 1}, path),
                  by_queue({"uring", 32}, path), by_queue({"uring", 32, true}, path)});
    for (const int threads : {1, 2}) {
      ask_fio(path, fmt::format("ioengine=psync bs={} direct=0 numjobs={}", read_bytes, threads));
    }
  }
}

void direct_reads(const std::filesystem::path& path) {
  for (const size_t read_bytes : {size_t{4} << 10, size_t{128} << 10}) {
    const Work work{read_bytes, read_bytes > 10'000 ? size_t{2'000} : size_t{8'000}, 0};
    std::vector<Way> ways = {by_pread(path, O_DIRECT), by_read_at("direct", path),
                             by_read_at("direct", path, 100)};
    for (const size_t depth : {1, 8, 32, 128}) ways.push_back(by_queue({"direct", depth}, path));
    ways.push_back(by_queue({"direct", 32, true}, path));
    compare_ways(fmt::format("{} KiB past the page cache", read_bytes >> 10), work, ways);
    for (const int depth : {1, 32}) {
      ask_fio(path, fmt::format("ioengine=io_uring bs={} direct=1 iodepth={}", read_bytes, depth));
    }
  }
}

// open, read and close with plain calls. The buffer is a page larger than the file, as for a reader
// that does not know its length.
void read_by_calls(const std::string& path, MutableByteView out) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 || read(fd, out.data(), out.size()) < 0) std::abort();
  ::close(fd);
}

void files_of_a_sample(const std::filesystem::path& directory) {
  for (const size_t file_bytes : {size_t{20'000}, size_t{128} << 10}) {
    constexpr size_t kFiles = 1'000;
    std::vector<std::string> paths;
    const auto engine = must(io::open_engine("posix"));
    const std::vector<std::byte> bytes(file_bytes, std::byte{7});
    for (size_t i = 0; i < kFiles; ++i) {
      paths.push_back((directory / fmt::format("{}-{}", file_bytes, i)).native());
      const auto writer = must(engine->create(paths.back()));
      must(writer->write_at(0, bytes));
    }
    const auto each = [&](auto read_one) {
      return [read_one, &paths](const Work& work) {
        AlignedMemory memory;
        const auto out = memory.room(work.read_bytes + kBlockBytes);
        Random random(work.seed);
        for (size_t i = 0; i < work.count; ++i) read_one(paths[random.below(paths.size())], out);
      };
    };
    compare_ways(
        fmt::format("a file of {} bytes", file_bytes), {file_bytes, 10'000, 0},
        {{"open, read, close (floor)", each(read_by_calls)},
         {"posix read_whole", each([&](const std::string& path, MutableByteView out) {
            keep(must(engine->read_whole(path, out)));
          })},
         {"posix open, size, read_at", each([&](const std::string& path, MutableByteView out) {
            const auto reader = must(engine->open(path));
            const uint64_t size_bytes = must(reader->size_bytes());
            keep(must(reader->read_at(0, out.first(size_bytes))));
          })}});
    for (const std::string& path : paths) unlink(path.c_str());
  }
}

void write_file(const std::filesystem::path& path) {
  const auto engine = must(io::open_engine("posix"));
  const auto writer = must(engine->create(path));
  std::vector<std::byte> bytes(size_t{1} << 20);
  Random random(1);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  for (uint64_t at = 0; at < kFileBytes; at += bytes.size()) must(writer->write_at(at, bytes));
  must(writer->sync());
  must(writer->close());
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  using namespace millrace;
  using namespace millrace::bench;
  const auto directory = must(TemporaryDirectory::create(argc > 1 ? argv[1] : ".", "bench-io-"));
  const auto path = directory.path() / "data";
  write_file(path);
  files_of_a_sample(directory.path());
  page_cache_reads(path);
  direct_reads(path);
  return 0;
}
