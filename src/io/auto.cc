// The auto engine: plain reads through the page cache, plus an io_uring queue.
//
// It does not choose between the two, because the faster one depends on where the bytes are. From
// the page cache, plain reads are as fast; from a device or a network, many reads in flight are
// many times faster. Only the caller can tell: the loader measures both on its own samples
// (loader/pipeline/read_choice.h). Mapped files are not a choice: if one is truncated while it is
// used, the program dies. Only the user can accept that.
#include "io/engines.h"
#include "io/file_reader.h"
#include "io/inline_queue.h"

namespace millrace::io {
namespace {

class Auto final : public FileEngine {
 public:
  explicit Auto(std::string refusal) : refusal_(std::move(refusal)) {}

  std::string_view name() const override { return "auto"; }

  EngineWays ways() const override {
    if (!refusal_.empty()) return {.one_at_a_time = "posix", .refusal = refusal_};
    return {.one_at_a_time = "posix", .in_flight = "uring", .is_open_choice = true};
  }

  Result<std::unique_ptr<ReadQueue>> open_queue(size_t capacity) override {
    if (refusal_.empty()) return open_uring_queue(capacity);
    return std::unique_ptr<ReadQueue>(std::make_unique<InlineQueue>(capacity, &read_whole_file));
  }

 private:
  const std::string refusal_;  // why io_uring is not available; empty: it is
};

}  // namespace

Result<std::unique_ptr<Engine>> open_auto() {
  const auto tried = open_uring_queue(1);
  return std::unique_ptr<Engine>(
      std::make_unique<Auto>(tried.ok() ? std::string() : tried.error().message()));
}

}  // namespace millrace::io
