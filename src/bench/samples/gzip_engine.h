// GzipEngine: another engine, whose files are compressed with gzip as a whole.
//
// open() reads and inflates the whole file, as a reader of a .csv.gz file must, and keeps it in
// memory until the Reader is closed. All open files of an engine together may have
// `held_max_bytes`, also while several threads open files; then open() fails. create() compresses
// what is written, which must be from start to end.
#pragma once

#include <atomic>
#include <memory>

#include "io/engine.h"

namespace millrace::bench {

class GzipEngine final : public io::Engine {
 public:
  static constexpr uint64_t kHeldMaxBytes = uint64_t{4} << 30;

  // `engine` is shared with the caller. The level is for create().
  GzipEngine(std::shared_ptr<io::Engine> engine, int level, uint64_t held_max_bytes = kHeldMaxBytes)
      : engine_(std::move(engine)), level_(level), held_max_bytes_(held_max_bytes) {}

  std::string_view name() const override { return engine_->name(); }
  io::EngineWays ways() const override { return {.one_at_a_time = engine_->ways().one_at_a_time}; }
  Result<std::unique_ptr<io::Reader>> open(const std::filesystem::path& path) override;
  Result<std::unique_ptr<io::Writer>> create(const std::filesystem::path& path) override;
  Result<std::unique_ptr<io::ReadQueue>> open_queue(size_t capacity) override;
  Result<size_t> read_whole(const std::filesystem::path& path, MutableByteView out) override;

 private:
  std::shared_ptr<io::Engine> engine_;
  int level_;
  uint64_t held_max_bytes_;
  // Shared with readers, which may outlive the engine.
  std::shared_ptr<std::atomic<uint64_t>> held_bytes_ = std::make_shared<std::atomic<uint64_t>>(0);
};

}  // namespace millrace::bench
