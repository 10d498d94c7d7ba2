#include "io/uring_queue.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>

#include "io/engines.h"
#include "io/file_reader.h"

namespace millrace::io {
namespace {

constexpr unsigned kPinnedMax = 64;  // regions; memory beyond them is read into without pinning

Error refused(int os_error, size_t capacity) {
  const std::string doing = fmt::format("cannot create an io_uring queue of {} reads", capacity);
  if (os_error == ENOSYS) {
    return fail(Errc::kUnsupported, "{}: this kernel has no io_uring; use engine 'posix'", doing);
  }
  if (os_error == EPERM || os_error == EACCES) {
    return fail(Errc::kUnsupported,
                "{}: not permitted (sysctl kernel.io_uring_disabled, or the seccomp filter of a "
                "container); use engine 'posix'",
                doing);
  }
  if (os_error == ENOMEM) {
    return fail(Errc::kExhausted,
                "{}: the limit on locked memory is reached (ulimit -l); use fewer reads or engine "
                "'posix'",
                doing);
  }
  return fail_os(os_error, doing);
}

// For ThreadSanitizer. Incremented before a ring is unmapped and read after one is mapped: a new
// ring at the address of an earlier one is different memory, but ThreadSanitizer cannot see that,
// since liburing maps it.
std::atomic<uint64_t> ended_rings = 0;

// COOP_TASKRUN: completions do not interrupt the thread. Kernels before 5.19 refuse the flag.
int open_ring(unsigned entries, unsigned completions, io_uring& ring) {
  io_uring_params params{};
  params.flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP | IORING_SETUP_COOP_TASKRUN;
  params.cq_entries = completions;
  int result = io_uring_queue_init_params(entries, &ring, &params);
  if (result == -EINVAL) {
    params = {};
    params.flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
    params.cq_entries = completions;
    result = io_uring_queue_init_params(entries, &ring, &params);
  }
  static_cast<void>(ended_rings.load(std::memory_order_acquire));
  return result;
}

}  // namespace

UringQueue::UringQueue(const UringOptions& options) : options_(options), slots_(options.capacity) {
  for (size_t index = options.capacity; index-- > 0;) free_.push_back(index);
}

Result<std::unique_ptr<UringQueue>> UringQueue::open(const UringOptions& options) {
  const size_t capacity = options.capacity;
  assert(capacity > 0);
  if (capacity > kCapacityMax) {
    return fail(Errc::kInvalidArgument,
                "an io_uring queue of {} reads is too large; at most {} are allowed", capacity,
                kCapacityMax);
  }
  std::unique_ptr<UringQueue> queue(new UringQueue(options));
  const auto completions = static_cast<unsigned>(capacity);
  const int result = open_ring(std::min(completions, 1024u), completions, queue->ring_);
  if (result < 0) return refused(-result, capacity);
  queue->is_open_ = true;
  // Kernels before 5.19 refuse this. Then nothing is pinned: reads work but cost more.
  if (io_uring_register_buffers_sparse(&queue->ring_, kPinnedMax) == 0) {
    queue->pinned_.reserve(kPinnedMax);
  }
  return queue;
}

UringQueue::~UringQueue() {
  if (!is_open_) return;
  // The kernel may still write to the memory of reads that it has. Reads not submitted to it are
  // dropped.
  while (in_kernel_ > 0) {
    io_uring_cqe* completion = nullptr;
    const int result = io_uring_wait_cqe(&ring_, &completion);
    if (result == -EINTR) continue;
    if (result < 0) break;
    io_uring_cqe_seen(&ring_, completion);
    --in_kernel_;
  }
  ended_rings.fetch_add(1, std::memory_order_release);
  io_uring_queue_exit(&ring_);
}

void UringQueue::use_memory(MutableByteView memory) {
  if (pinned_.size() == pinned_.capacity() || memory.empty()) return;
  iovec place{memory.data(), memory.size()};
  const auto index = static_cast<unsigned>(pinned_.size());
  __u64 tag = 0;
  // Fails if the memory may not be locked (ulimit -l) or is larger than 1 GiB.
  if (io_uring_register_buffers_update_tag(&ring_, index, &place, &tag, 1) == 1) {
    pinned_.push_back(memory);
  }
}

size_t UringQueue::take_slot(uint64_t tag) {
  assert(in_flight() < capacity());
  const size_t index = free_.back();
  free_.pop_back();
  slots_[index].tag = tag;
  return index;
}

Status UringQueue::submit(const ReadRequest& request) {
  const auto& reader = static_cast<const FileReader&>(*request.reader);
  const size_t index = take_slot(request.tag);
  Slot& slot = slots_[index];
  slot.cursor = ReadCursor({request.offset_bytes, request.out, reader.is_direct()});
  slot.fd = reader.fd();
  return begin(index);
}

// Does not open and close through the ring: that costs more on local disks
// (docs/design/engines.md).
Status UringQueue::submit_whole(WholeFileRequest request) {
  const size_t index = take_slot(request.tag);
  Slot& slot = slots_[index];
  auto file = options_.open_whole(request.path);
  if (!file.ok()) {
    at_once_.emplace_back(index, std::move(file).error());
    return {};
  }
  slot.file = *std::move(file);
  slot.fd = slot.file.fd();
  slot.path = std::move(request.path);
  slot.room_bytes = request.out.size();
  slot.cursor = ReadCursor({0, request.out, options_.is_direct});
  return begin(index);
}

Status UringQueue::begin(size_t index) {
  if (slots_[index].cursor.is_finished()) {
    at_once_.emplace_back(index, size_t{0});
    return {};
  }
  RETURN_IF_ERROR(start(index));
  // Submit a quarter at a time, so that the device has work before the queue is full.
  if (gathered_ >= std::max<size_t>(1, capacity() / 4)) return flush();
  return {};
}

Status UringQueue::start(size_t index) {
  Slot& slot = slots_[index];
  slot.piece = slot.cursor.next(slot.bounce.room(slot.cursor.bounce_bytes()));
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  if (entry == nullptr) {
    RETURN_IF_ERROR(flush());
    entry = io_uring_get_sqe(&ring_);
  }
  if (entry == nullptr) return fail(Errc::kIo, "io_uring accepts no more reads");
  prepare_read(*entry, slot);
  io_uring_sqe_set_data64(entry, index);
  ++gathered_;
  return {};
}

void UringQueue::prepare_read(io_uring_sqe& entry, const Slot& slot) const {
  const MutableByteView into = slot.piece.into;
  const auto length = static_cast<unsigned>(into.size());
  for (size_t index = 0; index < pinned_.size(); ++index) {
    const MutableByteView region = pinned_[index];
    if (into.data() < region.data() || into.data() >= region.data() + region.size()) continue;
    if (into.size() > static_cast<size_t>(region.data() + region.size() - into.data())) break;
    io_uring_prep_read_fixed(&entry, slot.fd, into.data(), length, slot.piece.offset_bytes,
                             static_cast<int>(index));
    return;
  }
  io_uring_prep_read(&entry, slot.fd, into.data(), length, slot.piece.offset_bytes);
}

Status UringQueue::flush() {
  while (gathered_ > 0) {
    const int sent = io_uring_submit(&ring_);
    if (sent == -EINTR) continue;
    if (sent < 0) return fail_os(-sent, "cannot submit reads to io_uring");
    gathered_ -= static_cast<size_t>(sent);
    in_kernel_ += static_cast<size_t>(sent);
  }
  return {};
}

Status UringQueue::wait(std::vector<ReadDone>& done) {
  const size_t before = done.size();
  for (auto& [index, result] : std::exchange(at_once_, {})) finish(index, std::move(result), done);
  while (gathered_ + in_kernel_ > 0) {
    const int sent = io_uring_submit_and_wait(&ring_, done.size() > before ? 0 : 1);
    if (sent < 0 && sent != -EINTR) return fail_os(-sent, "cannot wait for io_uring");
    if (sent > 0) {
      gathered_ -= static_cast<size_t>(sent);
      in_kernel_ += static_cast<size_t>(sent);
    }
    io_uring_cqe* completion = nullptr;
    while (io_uring_peek_cqe(&ring_, &completion) == 0) {
      const auto index = static_cast<size_t>(io_uring_cqe_get_data64(completion));
      const int result = completion->res;
      io_uring_cqe_seen(&ring_, completion);
      --in_kernel_;
      RETURN_IF_ERROR(complete(index, result, done));
    }
    if (done.size() > before && gathered_ == 0) break;
  }
  return {};
}

Status UringQueue::complete(size_t index, int result, std::vector<ReadDone>& done) {
  Slot& slot = slots_[index];
  if (result == -EINTR || result == -EAGAIN) return start(index);
  if (result < 0) {
    const std::string doing = fmt::format("cannot read {} bytes at byte {} with io_uring",
                                          slot.piece.into.size(), slot.piece.offset_bytes);
    finish(index, fail_os(-result, doing), done);
    return {};
  }
  slot.cursor.took(static_cast<size_t>(result));
  if (!slot.cursor.is_finished()) return start(index);
  finish(index, slot.cursor.done_bytes(), done);
  return {};
}

namespace {

// A file that filled its buffer may be longer. Check with fstat, because another read through the
// ring would cost a round trip. A directory can be opened, so with an empty buffer it is detected
// only here.
Result<size_t> check_length(const File& file, size_t done_bytes, size_t room_bytes) {
  if (done_bytes < room_bytes) return done_bytes;
  struct stat info{};
  if (fstat(file.fd(), &info) != 0) return fail_os(errno, "cannot get its size");
  if (S_ISDIR(info.st_mode)) return fail_os(EISDIR, "cannot read");
  const auto size_bytes = static_cast<uint64_t>(info.st_size);
  if (size_bytes > room_bytes) return longer_than_room(size_bytes, room_bytes);
  return done_bytes;
}

}  // namespace

void UringQueue::finish(size_t index, Result<size_t> result, std::vector<ReadDone>& done) {
  Slot& slot = slots_[index];
  if (slot.file.is_open()) {
    if (result.ok()) result = check_length(slot.file, *result, slot.room_bytes);
    if (!result.ok()) result = std::move(result).within(slot.path);
    slot.file = File();
  }
  done.push_back({slot.tag, std::move(result)});
  free_.push_back(index);
}

Result<std::unique_ptr<ReadQueue>> open_uring_queue(const UringOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<ReadQueue> queue, UringQueue::open(options));
  return queue;
}

Result<std::unique_ptr<ReadQueue>> open_uring_queue(size_t capacity) {
  const OpenWhole open_whole = [](const std::filesystem::path& path) {
    return File::open(path, O_RDONLY);
  };
  return open_uring_queue({.capacity = capacity, .open_whole = open_whole});
}

}  // namespace millrace::io
