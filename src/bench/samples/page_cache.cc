#include "bench/samples/page_cache.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "base/concurrency/thread_pool.h"
#include "base/io/file.h"
#include "base/system/cpus.h"
#include "base/system/memory.h"

namespace millrace::bench {
namespace {

// Looks at no more of a file than this: mincore() writes a byte per page.
constexpr uint64_t kLookedAtMaxBytes = uint64_t{1} << 30;

Residence residence_of_file(const std::string& path) {
  const auto file = File::open(path, O_RDONLY);
  if (!file.ok()) return {};
  const auto size = file->size_bytes();
  return size.ok() ? residence_of(file->fd(), std::min(*size, kLookedAtMaxBytes)) : Residence{};
}

Status for_each_file(const FileList& files, const std::function<Status(const std::string&)>& act) {
  ThreadPool pool(usable_cpu_count());
  return pool.parallel_for(files.count, [&](size_t i) { return act(files.path(i)); });
}

Status drop_one(const std::string& path) {
  ASSIGN_OR_RETURN(const File file, File::open(path, O_RDONLY));
  RETURN_IF_ERROR(file.sync().within(path));  // dirty pages cannot be dropped
  const int error = posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
  if (error != 0) return fail_os(error, "cannot drop its pages").within(path);
  return {};
}

Status read_one(const std::string& path) {
  ASSIGN_OR_RETURN(const File file, File::open(path, O_RDONLY));
  thread_local std::vector<std::byte> room(size_t{1} << 20);
  for (uint64_t at = 0;;) {
    const auto read = file.read_at(at, room);
    if (!read.ok()) return fail(read.error().code(), "{}: {}", path, read.error().message());
    if (*read < room.size()) return {};
    at += *read;
  }
}

}  // namespace

Residence residence_of(int fd, uint64_t size_bytes) {
  constexpr uint64_t kWindowBytes = uint64_t{1} << 30;
  Residence found;
  std::vector<unsigned char> pages;
  for (uint64_t at = 0; at < size_bytes; at += kWindowBytes) {
    const auto window = static_cast<size_t>(std::min(kWindowBytes, size_bytes - at));
    void* const memory = mmap(nullptr, window, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(at));
    if (memory == MAP_FAILED) return {};
    pages.assign((window + page_bytes() - 1) / page_bytes(), 0);
    found.pages += pages.size();
    if (mincore(memory, window, pages.data()) == 0) {
      found.resident_pages += static_cast<uint64_t>(
          std::ranges::count_if(pages, [](unsigned char page) { return (page & 1) != 0; }));
    }
    munmap(memory, window);
  }
  return found;
}

double cached_share(const FileList& files, uint64_t files_max) {
  // A trace of the run shows these calls, too: they are few beside those of an epoch.
  const uint64_t few = std::max<uint64_t>(files.count / 16, 16);
  const uint64_t looked_at = std::min({files.count, files_max, few});
  Residence sum;
  for (uint64_t i = 0; i < looked_at; ++i) {
    const Residence one = residence_of_file(files.path(i * files.count / looked_at));
    sum.resident_pages += one.resident_pages;
    sum.pages += one.pages;
  }
  return sum.pages == 0 ? 0
                        : static_cast<double>(sum.resident_pages) / static_cast<double>(sum.pages);
}

Status drop_cached(const FileList& files) { return for_each_file(files, drop_one); }

Status warm_cache(const FileList& files) { return for_each_file(files, read_one); }

}  // namespace millrace::bench
