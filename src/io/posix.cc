#include "io/engines.h"
#include "io/file_reader.h"
#include "io/inline_queue.h"

namespace millrace::io {
namespace {

class Posix final : public Engine {
 public:
  std::string_view name() const override { return "posix"; }

  Result<std::unique_ptr<Reader>> open(const std::filesystem::path& path) override {
    ASSIGN_OR_RETURN(File file, open_to_read(path));
    return std::unique_ptr<Reader>(std::make_unique<FileReader>(std::move(file)));
  }

  Result<std::unique_ptr<Writer>> create(const std::filesystem::path& path) override {
    return create_file(path);
  }

  Result<std::unique_ptr<ReadQueue>> open_queue(size_t capacity) override {
    return std::unique_ptr<ReadQueue>(std::make_unique<InlineQueue>(capacity, &read_whole_file));
  }

  Result<size_t> read_whole(const std::filesystem::path& path, MutableByteView out) override {
    return read_whole_file(path, out);
  }
};

}  // namespace

Result<std::unique_ptr<Engine>> open_posix() {
  return std::unique_ptr<Engine>(std::make_unique<Posix>());
}

}  // namespace millrace::io
