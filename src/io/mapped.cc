// The mapped engine: views are pages of the page cache, mapped when the file is opened.
//
// Touching a byte of a mapping that cannot be loaded, because the file was truncated or the device
// failed, kills the program with SIGBUS. So only callers of view() read through the mapping, and
// view() first checks the bytes: that the file is still long enough (the rest of a partial last
// page would read as zeros) and, with MADV_POPULATE_READ, that the pages can be read. If they
// cannot, there is no view, and read_at, which uses pread, returns the error. One risk remains: the
// file is truncated while a view of it is held. Only the owner of the files can rule that out;
// docs/design/engines.md.
#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>

#include "base/system/memory.h"
#include "io/engines.h"
#include "io/file_reader.h"
#include "io/inline_queue.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14; glibc 2.35
#endif

namespace millrace::io {
namespace {

// Longer views are not populated: who asks for a view of a file of gigabytes wants only a part of
// it.
constexpr uint64_t kPopulatedBytesMax = uint64_t{64} << 20;

class MappedReader final : public FileReader {
 public:
  MappedReader(File file, ByteView bytes) : FileReader(std::move(file)), bytes_(bytes) {}
  MappedReader(const MappedReader&) = delete;
  MappedReader& operator=(const MappedReader&) = delete;
  ~MappedReader() override {
    if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }

  std::optional<ByteView> view(uint64_t offset_bytes, uint64_t size_bytes) const override {
    if (offset_bytes > bytes_.size() || size_bytes > bytes_.size() - offset_bytes) {
      return std::nullopt;
    }
    const ByteView wanted = bytes_.subspan(offset_bytes, size_bytes);
    const Result<uint64_t> now_bytes = this->size_bytes();
    if (!now_bytes.ok() || *now_bytes < offset_bytes + size_bytes) return std::nullopt;
    if (!wanted.empty() && size_bytes <= kPopulatedBytesMax && !can_be_read(wanted)) {
      return std::nullopt;
    }
    return wanted;
  }

 private:
  static bool can_be_read(ByteView bytes) {
    const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
    const uintptr_t page = begin & ~(page_bytes() - 1);
    const uintptr_t length = begin + bytes.size() - page;
    // EINVAL: the kernel is older than 5.14 and cannot check in advance.
    return madvise(reinterpret_cast<void*>(page), length, MADV_POPULATE_READ) == 0 ||
           errno == EINVAL;
  }

  ByteView bytes_;
};

// read_whole() reads: for a small file, map, fault and unmap cost more than one read.
class Mapped final : public FileEngine {
 public:
  std::string_view name() const override { return "mapped"; }

  Result<std::unique_ptr<Reader>> open(const std::filesystem::path& path) override {
    ASSIGN_OR_RETURN(File file, open_to_read(path));
    ASSIGN_OR_RETURN(const uint64_t size_bytes, file.size_bytes().within(path.native()));
    ByteView bytes;
    if (size_bytes > 0) {
      void* address = mmap(nullptr, size_bytes, PROT_READ, MAP_SHARED, file.fd(), 0);
      if (address == MAP_FAILED) {
        const int os_error = errno;
        return fail_os(os_error, fmt::format("cannot map {} bytes", size_bytes))
            .within(path.native());
      }
      bytes = {static_cast<const std::byte*>(address), size_bytes};
    }
    return std::unique_ptr<Reader>(std::make_unique<MappedReader>(std::move(file), bytes));
  }

  Result<std::unique_ptr<ReadQueue>> open_queue(size_t capacity) override {
    return std::unique_ptr<ReadQueue>(std::make_unique<InlineQueue>(capacity, &read_whole_file));
  }
};

}  // namespace

Result<std::unique_ptr<Engine>> open_mapped() {
  return std::unique_ptr<Engine>(std::make_unique<Mapped>());
}

}  // namespace millrace::io
