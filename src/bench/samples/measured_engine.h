// MeasuredEngine: another engine, with its reads counted and, on request, split into pieces.
//
// The counts are bytes and reads that reached the engine, so that bandwidths are those of the
// storage and not of the nominal record length. Pieces make the access pattern of other loaders: a
// reader with `transfer_size`, Python's buffered files, or tf.data, which reads a file from start
// to end through a buffer.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "io/engine.h"

namespace millrace::bench {

struct ReadCounts {
  std::atomic<uint64_t> bytes = 0;
  std::atomic<uint64_t> reads = 0;

  void add(uint64_t size_bytes) {
    bytes.fetch_add(size_bytes, std::memory_order_relaxed);
    reads.fetch_add(1, std::memory_order_relaxed);
  }
};

struct PieceOptions {
  uint64_t piece_bytes = 0;  // 0: reads stay as they are
  // A file that is read whole: another first read, and one at the end that returns nothing.
  uint64_t first_bytes = 0;
  bool reads_end = false;
  // The last piece of a file is kept, so that small samples in order need one read for many.
  bool keeps_last = false;
};

class MeasuredEngine final : public io::Engine {
 public:
  // `engine` and `counts` are shared with the caller.
  MeasuredEngine(std::shared_ptr<io::Engine> engine, PieceOptions pieces,
                 std::shared_ptr<ReadCounts> counts);

  std::string_view name() const override { return engine_->name(); }
  io::EngineWays ways() const override;
  Result<std::unique_ptr<io::Reader>> open(const std::filesystem::path& path) override;
  Result<std::unique_ptr<io::Writer>> create(const std::filesystem::path& path) override {
    return engine_->create(path);
  }
  Result<std::unique_ptr<io::ReadQueue>> open_queue(size_t capacity) override;
  Result<size_t> read_whole(const std::filesystem::path& path, MutableByteView out) override;

 private:
  std::shared_ptr<io::Engine> engine_;
  PieceOptions pieces_;
  std::shared_ptr<ReadCounts> counts_;  // shared with readers, which may outlive the engine
};

}  // namespace millrace::bench
