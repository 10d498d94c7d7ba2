#include "io/engines.h"
#include "io/file_reader.h"
#include "io/inline_queue.h"

namespace millrace::io {
namespace {

class Posix final : public FileEngine {
 public:
  std::string_view name() const override { return "posix"; }

  Result<std::unique_ptr<ReadQueue>> open_queue(size_t capacity) override {
    return std::unique_ptr<ReadQueue>(std::make_unique<InlineQueue>(capacity, &read_whole_file));
  }
};

}  // namespace

Result<std::unique_ptr<Engine>> open_posix() {
  return std::unique_ptr<Engine>(std::make_unique<Posix>());
}

}  // namespace millrace::io
