// Lane: one thread's means to read and decode samples into their rows, and its counters.
//
// It reads one sample at a time, or has many in flight and decodes them as they arrive. ReadChoice
// decides which; the lane asks it between rows. With reads in flight it also takes rows of the next
// batches, so that a device does not idle at the end of each batch.
//
// What other threads may read (counters and current activity) is atomic and written only by the
// lane's thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "base/result.h"
#include "data/buffer.h"
#include "data/decoder.h"
#include "data/source.h"
#include "loader/pipeline/batch_work.h"
#include "loader/pipeline/flight.h"
#include "loader/pipeline/read_choice.h"
#include "loader/pipeline/work_queue.h"

namespace millrace::loader::pipeline {

struct LaneOptions {
  std::shared_ptr<const data::SampleSource> source;  // shared by all lanes and the caller
  std::shared_ptr<const data::Decoder> decoder;      // shared likewise
  uint64_t seed = 0;
  uint32_t io_depth = 1;               // maximum number of reads in flight per lane
  std::shared_ptr<ReadChoice> choice;  // shared by all lanes
  bool measures_cpu = false;           // costs a system call per batch
};

struct LaneCounts {
  uint64_t bytes_read = 0;
  std::chrono::nanoseconds read{};
  std::chrono::nanoseconds decode{};
  std::chrono::nanoseconds cpu{};

  LaneCounts& operator+=(const LaneCounts& other);
};

// What a lane is doing, and since when.
struct LaneActivity {
  data::SampleId sample{};
  bool is_decoding = false;
  std::chrono::nanoseconds since{};
};

class Lane {
 public:
  explicit Lane(const LaneOptions& options);

  // The body of the thread: fills rows of batches from the queue until the queue ends it.
  void run(WorkQueue& queue, uint32_t thread);

  // For other threads.
  LaneCounts counts() const;
  // All samples being read or decoded now.
  void append_activities(std::vector<LaneActivity>& activities) const;

 private:
  // A sample being read or decoded. Entry 0 is the thread's own; the others are in flight.
  struct Doing {
    std::atomic<int64_t> since_ns{0};  // 0: none
    std::atomic<uint64_t> sample{0};   // 2 * index, plus 1 while decoding
  };

  // One at a time.
  void fill(BatchWork& work, WorkQueue& queue);
  void fill_rows(BatchWork& work, RowRange rows);
  Status fill_row(const BatchWork& work, uint64_t row);
  Status read_into_row(const BatchWork& work, uint64_t row);
  Status read_and_decode(const BatchWork& work, uint64_t row);

  // In flight.
  bool open_flight();
  void run_async(std::shared_ptr<BatchWork> work, WorkQueue& queue, uint32_t thread);
  void begin_rows(WorkQueue& queue, uint32_t thread);
  bool claim_rows(WorkQueue& queue, uint32_t thread);
  void begin_row(uint64_t row, WorkQueue& queue);
  void wait_for_reads();
  void on_read_done(const data::SampleDone& done, WorkQueue& queue);
  Status take_landed(const Flight::Row& row, const Result<ByteView>& bytes);
  void fail_all(const std::exception& exception, WorkQueue& queue);

  // Both.
  Status check_length(data::SampleId sample, size_t size_bytes, size_t row_bytes) const;
  Status decode(const BatchWork& work, uint64_t row, ByteView bytes,
                std::chrono::nanoseconds began);
  Error thrown(const std::exception& exception, data::SampleId sample) const;
  void finish(BatchWork& work, uint64_t row_count, WorkQueue& queue);
  std::chrono::nanoseconds begin(size_t place, data::SampleId sample, bool is_decoding);
  void end(size_t place) { doing_[place].since_ns.store(0, std::memory_order_relaxed); }
  void count_read(uint64_t size_bytes);
  // Only the lane writes its counters, so no locked instruction is needed.
  template <typename T>
  static void add(std::atomic<T>& counter, T value) {
    counter.store(counter.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
  }
  void measure_cpu();

  // Turns of reading one way or the other.
  void begin_turn(data::Epoch epoch);
  ReadCost cost_so_far() const;
  bool is_turn_over() const;
  bool goes_on(data::Epoch epoch);

  const LaneOptions options_;
  const bool is_verbatim_;
  const size_t field_count_;
  data::Buffer room_;
  std::unique_ptr<data::Scratch> scratch_;
  std::vector<data::Output> outputs_;

  ReadTurn turn_;
  bool has_turn_ = false;
  ReadCost turn_began_;      // cost_so_far() when the turn began
  uint64_t read_count_ = 0;  // samples

  std::unique_ptr<Flight> flight_;   // null: not opened yet
  std::shared_ptr<BatchWork> work_;  // the batch whose rows begin now; shared with the queue
  RowRange claimed_;                 // rows of work_ that have not begun
  size_t flight_limit_ = 1;
  bool is_landing_ = false;               // no more rows begin
  std::vector<data::SampleDone> landed_;  // read, and from landed_at_ on not yet decoded
  size_t landed_at_ = 0;

  std::vector<Doing> doing_;
  alignas(64) std::atomic<uint64_t> bytes_read_{0};
  std::atomic<int64_t> read_ns_{0};
  std::atomic<int64_t> decode_ns_{0};
  std::atomic<int64_t> cpu_ns_{0};
};

}  // namespace millrace::loader::pipeline
