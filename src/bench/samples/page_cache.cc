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

struct Residence {
  uint64_t resident_pages = 0;
  uint64_t pages = 0;
};

// Looks at no more of a file than this: mincore() writes a byte per page.
constexpr uint64_t kLookedAtMaxBytes = uint64_t{1} << 30;

Residence residence_of(const std::string& path) {
  const auto file = File::open(path, O_RDONLY);
  if (!file.ok()) return {};
  const uint64_t size =
      std::min(file->size_bytes().ok() ? *file->size_bytes() : 0, kLookedAtMaxBytes);
  if (size == 0) return {};
  void* const memory = mmap(nullptr, size, PROT_READ, MAP_SHARED, file->fd(), 0);
  if (memory == MAP_FAILED) return {};
  std::vector<unsigned char> pages((size + page_bytes() - 1) / page_bytes());
  Residence found{.pages = pages.size()};
  if (mincore(memory, size, pages.data()) == 0) {
    found.resident_pages = static_cast<uint64_t>(
        std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; }));
  }
  munmap(memory, size);
  return found;
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

double cached_share(const FileList& files, uint64_t files_max) {
  // A trace of the run shows these calls, too: they are few beside those of an epoch.
  const uint64_t few = std::max<uint64_t>(files.count / 16, 16);
  const uint64_t looked_at = std::min({files.count, files_max, few});
  Residence sum;
  for (uint64_t i = 0; i < looked_at; ++i) {
    const Residence one = residence_of(files.path(i * files.count / looked_at));
    sum.resident_pages += one.resident_pages;
    sum.pages += one.pages;
  }
  return sum.pages == 0 ? 0
                        : static_cast<double>(sum.resident_pages) / static_cast<double>(sum.pages);
}

Status drop_cached(const FileList& files) { return for_each_file(files, drop_one); }

Status warm_cache(const FileList& files) { return for_each_file(files, read_one); }

}  // namespace millrace::bench
