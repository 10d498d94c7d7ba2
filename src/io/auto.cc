// The auto engine: plain reads through the page cache, and a queue of io_uring beside them.
//
// It does not choose. Which of the two is faster depends on where the bytes lie at the time: from
// the page cache a plain read is as good, and from a device or over a network many in flight are
// many times as fast. Only who makes the reads can see it: the loader measures both on its own
// samples (loader/pipeline/read_choice.h). Mapped files are not among the choices: one that is cut
// short while it is looked at ends the program, and that is for the user to decide.
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
  const std::string refusal_;  // why there is no io_uring; empty: there is
};

}  // namespace

Result<std::unique_ptr<Engine>> open_auto() {
  const auto tried = open_uring_queue(1);
  return std::unique_ptr<Engine>(
      std::make_unique<Auto>(tried.ok() ? std::string() : tried.error().message()));
}

}  // namespace millrace::io
