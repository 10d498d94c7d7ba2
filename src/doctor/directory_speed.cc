#include "doctor/directory_speed.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <new>
#include <vector>

#include "base/concurrency/thread_pool.h"
#include "base/io/file.h"
#include "base/io/temporary_directory.h"
#include "base/numbers/random.h"
#include "base/numbers/statistics.h"
#include "base/system/clock.h"
#include "doctor/probe_block.h"
#include "wire/clock.h"

namespace millrace::doctor {
namespace {

using namespace std::chrono_literals;
using wire::kProbeBlockSizeBytes;

constexpr std::chrono::nanoseconds kPhaseBudget = 3s;
constexpr uint64_t kProbeSizeMinBytes = uint64_t{4} << 20;
constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr uint64_t kSyncEveryBytes = uint64_t{32} << 20;
constexpr size_t kDeviceThreads = 4;   // 1 MiB reads in flight
constexpr size_t kRandomThreads = 16;  // 4 KiB reads in flight
constexpr size_t kRandomReadsMax = 4000;

double seconds(std::chrono::nanoseconds duration) {
  return std::max(1e-9, std::chrono::duration<double>(duration).count());
}

// Page-aligned memory, as O_DIRECT wants it.
class AlignedBuffer {
 public:
  explicit AlignedBuffer(size_t size_bytes)
      : bytes_(static_cast<std::byte*>(::operator new(size_bytes, kAlignment))),
        size_bytes_(size_bytes) {}

  MutableByteView bytes() const { return {bytes_.get(), size_bytes_}; }

 private:
  static constexpr std::align_val_t kAlignment{kProbeBlockSizeBytes};
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }
  };

  std::unique_ptr<std::byte, Free> bytes_;
  size_t size_bytes_;
};

// The share of the file that is in the page cache, from 0 to 1.
Result<double> cached_share(const File& file, uint64_t size_bytes) {
  void* const map = mmap(nullptr, size_bytes, PROT_READ, MAP_SHARED, file.fd(), 0);
  if (map == MAP_FAILED) return fail_os(errno, "cannot map the probe file");
  const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((size_bytes + page_bytes - 1) / page_bytes);
  const int outcome = mincore(map, size_bytes, pages.data());
  const int os_error = errno;
  munmap(map, size_bytes);
  if (outcome != 0) return fail_os(os_error, "cannot find out which pages are cached");
  const auto present =
      std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; });
  return static_cast<double>(present) / static_cast<double>(pages.size());
}

class SpeedMeasurement {
 public:
  SpeedMeasurement(std::filesystem::path scratch, const SpeedOptions& options)
      : scratch_(std::move(scratch)), options_(options) {}

  Result<DirectorySpeed> run() {
    options_.activity("writing");
    RETURN_IF_ERROR(write_probe());
    options_.activity("reading, page cache");
    RETURN_IF_ERROR(read_cached());
    options_.activity("reading, device");
    RETURN_IF_ERROR(read_device());
    options_.activity("small files");
    RETURN_IF_ERROR(small_files());
    return speed_;
  }

 private:
  Status check_cancelled() const {
    if (options_.cancelled != nullptr && options_.cancelled->load()) {
      return fail(Errc::kCancelled, "interrupted");
    }
    return {};
  }

  // Times only writing and syncing, not generating the bytes. Syncs every 32 MiB, so that a slow
  // device shows within the time budget and not only at the final sync.
  Status write_probe() {
    ASSIGN_OR_RETURN(probe_, File::open(scratch_ / "probe", O_RDWR | O_CREAT | O_EXCL, 0600));
    const AlignedBuffer chunk(kChunkBytes);
    std::chrono::nanoseconds spent{};
    while (size_bytes_ < options_.probe_size_bytes && spent < kPhaseBudget) {
      RETURN_IF_ERROR(check_cancelled());
      fill_probe_blocks(chunk.bytes(), run_, size_bytes_, random_);
      const auto start = monotonic_now();
      RETURN_IF_ERROR(probe_.write_at(size_bytes_, chunk.bytes()));
      size_bytes_ += kChunkBytes;
      if (size_bytes_ % kSyncEveryBytes == 0) RETURN_IF_ERROR(probe_.sync());
      spent += monotonic_now() - start;
    }
    const auto start = monotonic_now();
    RETURN_IF_ERROR(probe_.sync());
    spent += monotonic_now() - start;
    speed_.probe_size_bytes = size_bytes_;
    speed_.write_bytes_per_second = static_cast<double>(size_bytes_) / seconds(spent);
    return {};
  }

  // Reads the probe once from start to end through `file`, and returns bytes per second. Verifies
  // each chunk completely, outside the timed part.
  Result<double> read_through(const File& file) {
    const AlignedBuffer chunk(kChunkBytes);
    std::chrono::nanoseconds spent{};
    uint64_t done = 0;
    for (; done < size_bytes_ && spent < kPhaseBudget; done += kChunkBytes) {
      RETURN_IF_ERROR(check_cancelled());
      const auto start = monotonic_now();
      RETURN_IF_ERROR(file.read_exactly_at(done, chunk.bytes()));
      spent += monotonic_now() - start;
      RETURN_IF_ERROR(verify_probe_blocks(chunk.bytes(), run_, done, Depth::kWhole));
    }
    return static_cast<double>(done) / seconds(spent);
  }

  // The first pass fills the page cache; the second reads from it.
  Status read_cached() {
    RETURN_IF_ERROR(read_through(probe_));
    ASSIGN_OR_RETURN(speed_.cached_read_bytes_per_second, read_through(probe_));
    return {};
  }

  Status read_device() {
    if (options_.memory_only) {
      speed_.device_method = "none: this file system lives in memory";
      return {};
    }
    const auto direct = File::open(scratch_ / "probe", O_RDONLY | O_DIRECT);
    if (direct.ok() && serves_reads(*direct)) {
      speed_.device_method = fmt::format("O_DIRECT, {} reads of 1 MiB at a time", kDeviceThreads);
      RETURN_IF_ERROR(read_in_parallel(*direct));
      return read_at_random(*direct);
    }
    return read_dropped();
  }

  // Some file systems open with O_DIRECT and then refuse to read.
  static bool serves_reads(const File& direct) {
    const AlignedBuffer block(kProbeBlockSizeBytes);
    return direct.read_exactly_at(0, block.bytes()).ok();
  }

  // For file systems that refuse O_DIRECT: drops the file from the page cache and verifies that.
  Status read_dropped() {
    posix_fadvise(probe_.fd(), 0, 0, POSIX_FADV_DONTNEED);
    ASSIGN_OR_RETURN(const double still_cached, cached_share(probe_, size_bytes_));
    if (still_cached > 0.01) {
      speed_.device_method = fmt::format(
          "not measured: O_DIRECT is refused, and {:.0f} % of the file stays in the page cache",
          still_cached * 100);
      return {};
    }
    speed_.device_method = "page cache dropped (O_DIRECT is refused), 1 read at a time";
    ASSIGN_OR_RETURN(speed_.device_read_bytes_per_second, read_through(probe_));
    return {};
  }

  Status read_in_parallel(const File& direct) {
    const size_t chunk_count = size_bytes_ / kChunkBytes;
    std::vector<AlignedBuffer> buffers;
    for (size_t i = 0; i < kDeviceThreads; ++i) buffers.emplace_back(kChunkBytes);
    std::atomic<size_t> next = 0;
    std::atomic<size_t> done = 0;
    ThreadPool pool(kDeviceThreads);
    const auto start = monotonic_now();
    const auto read = [&](size_t reader) -> Status {
      const MutableByteView buffer = buffers[reader].bytes();
      for (size_t i = next++; i < chunk_count; i = next++) {
        RETURN_IF_ERROR(check_cancelled());
        if (monotonic_now() - start > kPhaseBudget) break;
        RETURN_IF_ERROR(direct.read_exactly_at(i * kChunkBytes, buffer));
        RETURN_IF_ERROR(verify_probe_blocks(buffer, run_, i * kChunkBytes, Depth::kHeads));
        ++done;
      }
      return {};
    };
    RETURN_IF_ERROR(pool.parallel_for(kDeviceThreads, read));
    const double read_bytes = static_cast<double>(done.load()) * kChunkBytes;
    speed_.device_read_bytes_per_second = read_bytes / seconds(monotonic_now() - start);
    return {};
  }

  Status read_random_block(const File& direct, Random& random, MutableByteView block) {
    const uint64_t offset = random.below(size_bytes_ / kProbeBlockSizeBytes) * kProbeBlockSizeBytes;
    RETURN_IF_ERROR(direct.read_exactly_at(offset, block));
    return verify_probe_blocks(block, run_, offset, Depth::kHeads);
  }

  Status read_at_random(const File& direct) {
    RandomReads reads;
    const AlignedBuffer block(kProbeBlockSizeBytes);
    std::vector<double> latencies_us;
    const auto phase_start = monotonic_now();
    while (latencies_us.size() < kRandomReadsMax &&
           monotonic_now() - phase_start < kPhaseBudget / 3) {
      RETURN_IF_ERROR(check_cancelled());
      const auto start = monotonic_now();
      RETURN_IF_ERROR(read_random_block(direct, random_, block.bytes()));
      latencies_us.push_back(seconds(monotonic_now() - start) * 1e6);
    }
    reads.latency_us_p50 = quantile(latencies_us, 0.5);
    reads.latency_us_p99 = quantile(latencies_us, 0.99);
    reads.threads = kRandomThreads;
    ASSIGN_OR_RETURN(reads.per_second, random_reads_per_second(direct));
    speed_.device_random_reads = reads;
    return {};
  }

  Result<double> random_reads_per_second(const File& direct) {
    std::atomic<size_t> begun = 0;
    std::atomic<size_t> done = 0;
    const uint64_t seed = random_.next();
    ThreadPool pool(kRandomThreads);
    const auto start = monotonic_now();
    const auto read = [&](size_t reader) -> Status {
      Random random(seed + reader);
      const AlignedBuffer block(kProbeBlockSizeBytes);
      while (begun++ < 4 * kRandomReadsMax && monotonic_now() - start < kPhaseBudget / 3) {
        RETURN_IF_ERROR(check_cancelled());
        RETURN_IF_ERROR(read_random_block(direct, random, block.bytes()));
        ++done;
      }
      return {};
    };
    RETURN_IF_ERROR(pool.parallel_for(kRandomThreads, read));
    return static_cast<double>(done.load()) / seconds(monotonic_now() - start);
  }

  // Times `step` over the small files within the budget and returns files per second. Later steps
  // only use the files that this one reached.
  template <typename Step>
  Result<double> small_file_rate(const Step& step) {
    const auto start = monotonic_now();
    size_t done = 0;
    for (; done < small_count_ && monotonic_now() - start < kPhaseBudget / 3; ++done) {
      RETURN_IF_ERROR(check_cancelled());
      RETURN_IF_ERROR(step(done));
    }
    small_count_ = done;
    return static_cast<double>(done) / seconds(monotonic_now() - start);
  }

  Status small_files() {
    constexpr size_t kFileBytes = 16 << 10;
    const AlignedBuffer content(kFileBytes);
    fill_probe_blocks(content.bytes(), run_, 0, random_);
    const auto path_of = [&](size_t i) { return scratch_ / fmt::format("{:04}", i); };
    small_count_ = 1000;
    const auto create = [&](size_t i) -> Status {
      ASSIGN_OR_RETURN(File file, File::open(path_of(i), O_WRONLY | O_CREAT, 0600));
      RETURN_IF_ERROR(file.write_at(0, content.bytes()));
      return file.close();
    };
    ASSIGN_OR_RETURN(speed_.small_creates_per_second, small_file_rate(create));
    const auto look_up = [&](size_t i) -> Status {
      struct stat info{};
      if (stat(path_of(i).c_str(), &info) != 0) return fail_os(errno, "cannot stat a small file");
      return {};
    };
    ASSIGN_OR_RETURN(speed_.small_stats_per_second, small_file_rate(look_up));
    const auto read = [&](size_t) -> Status {
      ASSIGN_OR_RETURN(const File file, File::open(path_of(random_.below(small_count_)), O_RDONLY));
      return file.read_exactly_at(0, content.bytes());
    };
    ASSIGN_OR_RETURN(speed_.small_reads_per_second, small_file_rate(read));
    return verify_probe_blocks(content.bytes(), run_, 0, Depth::kWhole);
  }

  const std::filesystem::path scratch_;
  const SpeedOptions& options_;
  Random random_{wire::read_cpu_counter()};
  const uint64_t run_ = random_.next();
  File probe_;
  uint64_t size_bytes_ = 0;
  size_t small_count_ = 0;
  DirectorySpeed speed_;
};

}  // namespace

Result<DirectorySpeed> measure_directory_speed(const std::filesystem::path& directory,
                                               const SpeedOptions& options) {
  if (options.probe_size_bytes < kProbeSizeMinBytes) {
    return fail(Errc::kExhausted, "a probe of {} bytes is too small to measure with (at least {})",
                options.probe_size_bytes, kProbeSizeMinBytes);
  }
  ASSIGN_OR_RETURN(const TemporaryDirectory scratch,
                   TemporaryDirectory::create(directory, ".millrace-doctor-"));
  return SpeedMeasurement(scratch.path(), options).run();
}

}  // namespace millrace::doctor
