#include "io/engines.h"
#include "io/file_reader.h"

namespace millrace::io {
namespace {

class Uring final : public Engine {
 public:
  std::string_view name() const override { return "uring"; }

  EngineWays ways() const override { return {.one_at_a_time = "posix", .in_flight = name()}; }

  Result<std::unique_ptr<Reader>> open(const std::filesystem::path& path) override {
    ASSIGN_OR_RETURN(File file, open_to_read(path));
    return std::unique_ptr<Reader>(std::make_unique<FileReader>(std::move(file)));
  }

  Result<std::unique_ptr<Writer>> create(const std::filesystem::path& path) override {
    return create_file(path);
  }

  Result<std::unique_ptr<ReadQueue>> open_queue(size_t capacity) override {
    return open_uring_queue(capacity);
  }

  // By plain calls: one read that is waited for has nothing to gain from a ring.
  Result<size_t> read_whole(const std::filesystem::path& path, MutableByteView out) override {
    return read_whole_file(path, out);
  }
};

}  // namespace

// Tries a ring, so that a kernel that refuses says so when the engine is chosen.
Result<std::unique_ptr<Engine>> open_uring() {
  RETURN_IF_ERROR(open_uring_queue(1));
  return std::unique_ptr<Engine>(std::make_unique<Uring>());
}

}  // namespace millrace::io
