#include "replay/buffer.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/io/file.h"
#include "base/numbers/counter_random.h"
#include "base/text/units.h"

namespace millrace::replay {
namespace {

constexpr size_t kPageBytes = size_t{64} << 10;  // a multiple of every page size in use

// Maps `piece` bytes of a memory file over the whole of [data, data + size).
bool map_repeatedly(int fd, std::byte* data, size_t size, size_t piece) {
  for (size_t at = 0; at < size; at += piece) {
    const size_t length = std::min(piece, size - at);
    if (mmap(data + at, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
        MAP_FAILED) {
      return false;
    }
  }
  return true;
}

}  // namespace

Result<Buffer> Buffer::create(const Options& options) {
  const uint64_t wanted = std::max<uint64_t>(options.size_bytes, 1);
  const size_t size = (wanted + kPageBytes - 1) / kPageBytes * kPageBytes;
  const std::string doing = "cannot get a buffer of " + format_bytes(size);
  // Populated now, so that no call pays for the first use of a page.
  const int populate = size > kMemoryMax ? MAP_NORESERVE : MAP_POPULATE;
  void* mapped =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | populate, -1, 0);
  if (mapped == MAP_FAILED) return fail_os(errno, doing);
  Buffer buffer(static_cast<std::byte*>(mapped), size);
  if (size > kMemoryMax) {
    const File memory(memfd_create("millrace-replay", MFD_CLOEXEC));
    if (!memory.is_open() || ftruncate(memory.fd(), kMemoryMax) != 0 ||
        !map_repeatedly(memory.fd(), buffer.data_, size, kMemoryMax)) {
      return fail_os(errno, doing);
    }
  }
  if (!options.random) return buffer;
  CounterRandom random(1, options.seed);
  auto* words = static_cast<uint64_t*>(mapped);
  const size_t count = std::min(size, kMemoryMax) / sizeof(uint64_t);
  for (size_t i = 0; i < count; ++i) words[i] = random.next();
  return buffer;
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace millrace::replay
