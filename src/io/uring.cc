#include "io/engines.h"
#include "io/file_reader.h"

namespace millrace::io {
namespace {

// A single read that the caller waits for gains nothing from a ring, so it is a plain call.
class Uring final : public FileEngine {
 public:
  std::string_view name() const override { return "uring"; }

  EngineWays ways() const override { return {.one_at_a_time = "posix", .in_flight = name()}; }

  Result<std::unique_ptr<ReadQueue>> open_queue(size_t capacity) override {
    return open_uring_queue(capacity);
  }
};

}  // namespace

// Opens a ring once, so that a kernel that refuses it is reported when the engine is chosen.
Result<std::unique_ptr<Engine>> open_uring() {
  RETURN_IF_ERROR(open_uring_queue(1));
  return std::unique_ptr<Engine>(std::make_unique<Uring>());
}

}  // namespace millrace::io
