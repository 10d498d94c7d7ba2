// Lane: what one thread of the pipeline uses to bring samples into their rows, and what it counts.
//
// Everything in it that others may read while the thread works (counters, and what it is doing
// since when) is atomic and written by that thread alone.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "data/buffer.h"
#include "data/decoder.h"
#include "data/source.h"
#include "loader/pipeline/work.h"

namespace millrace::loader {

struct LaneOptions {
  std::shared_ptr<const data::SampleSource> source;  // shared by all lanes and the caller
  std::shared_ptr<const data::Decoder> decoder;      // likewise
  uint64_t seed = 0;
  bool measures_cpu = false;  // a system call a batch
};

struct LaneCounts {
  uint64_t bytes_read = 0;
  std::chrono::nanoseconds read{};
  std::chrono::nanoseconds decode{};
  std::chrono::nanoseconds cpu{};

  LaneCounts& operator+=(const LaneCounts& other);
};

// What a lane is at, and since when.
struct LaneActivity {
  data::SampleId sample{};
  bool is_decoding = false;
  std::chrono::nanoseconds since{};
};

class Lane {
 public:
  explicit Lane(const LaneOptions& options);

  // Fills the rows that it can claim, and returns true where it filled the last ones.
  bool fill(BatchWork& work);

  // For other threads.
  LaneCounts counts() const;
  std::optional<LaneActivity> activity() const;

 private:
  void fill_rows(BatchWork& work, RowRange rows);
  Status fill_row(const BatchWork& work, uint64_t row);
  Status read_into_row(const BatchWork& work, uint64_t row);
  Status read_and_decode(const BatchWork& work, uint64_t row);
  std::chrono::nanoseconds begin(data::SampleId sample, bool is_decoding);
  void measure_cpu();

  const LaneOptions options_;
  const bool is_verbatim_;
  const size_t field_count_;
  data::Buffer room_;
  std::unique_ptr<data::Scratch> scratch_;
  std::vector<MutableByteView> outputs_;
  alignas(64) std::atomic<uint64_t> bytes_read_{0};
  std::atomic<int64_t> read_ns_{0};
  std::atomic<int64_t> decode_ns_{0};
  std::atomic<int64_t> cpu_ns_{0};
  std::atomic<int64_t> since_ns_{0};  // 0: it does nothing
  std::atomic<uint64_t> doing_{0};    // the sample, twice, and 1 more where it is decoded
};

}  // namespace millrace::loader
