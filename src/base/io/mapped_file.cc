#include "base/io/mapped_file.h"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "base/io/file.h"
#include "base/io/input_file.h"

namespace millrace {
namespace {

int advice_of(MappedFile::Access access) {
  switch (access) {
    case MappedFile::Access::kNormal:
      return MADV_NORMAL;
    case MappedFile::Access::kSequential:
      return MADV_SEQUENTIAL;
    case MappedFile::Access::kRandom:
      return MADV_RANDOM;
  }
  return MADV_NORMAL;
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path, Access access) {
  ASSIGN_OR_RETURN(const File file, open_input(path));
  ASSIGN_OR_RETURN(const uint64_t size_bytes, file.size_bytes().within(path.native()));
  if (size_bytes == 0) return MappedFile(ByteView());
  void* address = mmap(nullptr, size_bytes, PROT_READ, MAP_SHARED, file.fd(), 0);
  if (address == MAP_FAILED) {
    const int os_error = errno;
    return fail_os(os_error, fmt::format("cannot map {} bytes", size_bytes)).within(path.native());
  }
  static_cast<void>(madvise(address, size_bytes, advice_of(access)));  // may be refused
  return MappedFile(ByteView(static_cast<const std::byte*>(address), size_bytes));
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, ByteView())) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace millrace
