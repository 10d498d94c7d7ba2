// The mapped engine: views are the pages of the page cache, mapped when the file is opened.
//
// A byte of a mapping that cannot be had ends the program with SIGBUS: past the end of a file that
// was cut short, or where the device fails. So nothing here reads through the mapping but the
// callers of view(), and view() first makes sure of the bytes: that the file is still long enough
// (the rest of a page cut in two would read as zeros), and, by MADV_POPULATE_READ, that the pages
// can be read. Where they cannot there is no view, and read_at, by pread, says why. What is left:
// a file that is cut short while a view of it is held. Nobody can promise that but the one who
// keeps files whole; docs/design/engines.md.
#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>

#include "base/memory.h"
#include "io/engines.h"
#include "io/file_reader.h"
#include "io/inline_queue.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14; glibc 2.35
#endif

namespace millrace::io {
namespace {

// A longer view is not read in advance: who asks for a whole file of gigabytes wants a part of it.
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
    // EINVAL: a kernel before 5.14, which cannot tell in advance.
    return madvise(reinterpret_cast<void*>(page), length, MADV_POPULATE_READ) == 0 ||
           errno == EINVAL;
  }

  ByteView bytes_;
};

// A whole file is read: to map, fault and unmap costs more than one read of a small one.
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
