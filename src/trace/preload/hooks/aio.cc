// POSIX asynchronous I/O. aio_read and aio_write only submit. aio_return reports the bytes, and is
// recorded with the file, offset and size of its request.
#include <aio.h>

#include "trace/preload/hooks/hooks.h"

namespace millrace::trace {
namespace {

template <typename Body>
auto on_request(Call call, const aiocb* request, Body body, uint32_t detail = 0) {
  if (request == nullptr) return body();
  return on_range(call, request->aio_fildes,
                  {static_cast<uint64_t>(request->aio_offset), request->aio_nbytes, detail}, body);
}

}  // namespace
}  // namespace millrace::trace

using namespace millrace::trace;

extern "C" {

int aio_read(aiocb* request) {
  static constinit Real<int(aiocb*)> real{"aio_read"};
  return on_request(Call::kAioRead, request, [&] { return real(request); });
}

int aio_write(aiocb* request) {
  static constinit Real<int(aiocb*)> real{"aio_write"};
  return on_request(Call::kAioWrite, request, [&] { return real(request); });
}

int aio_fsync(int operation, aiocb* request) {
  static constinit Real<int(int, aiocb*)> real{"aio_fsync"};
  if (request == nullptr) return real(operation, request);
  return on_descriptor(Call::kAioFsync, request->aio_fildes,
                       [&] { return real(operation, request); });
}

ssize_t aio_return(aiocb* request) {
  static constinit Real<ssize_t(aiocb*)> real{"aio_return"};
  // The request's operation, so that a reader can tell bytes read from bytes written.
  const auto asked = request == nullptr ? 0u : static_cast<uint32_t>(request->aio_lio_opcode);
  return on_request(Call::kAioReturn, request, [&] { return real(request); }, asked);
}

int aio_suspend(const aiocb* const requests[], int count, const struct timespec* limit) {
  static constinit Real<int(const aiocb* const*, int, const struct timespec*)> real{"aio_suspend"};
  if (!recording(Level::kPosix)) return real(requests, count, limit);
  return traced({.call = Call::kAioSuspend}, [&] { return real(requests, count, limit); });
}

int aio_cancel(int fd, aiocb* request) {
  static constinit Real<int(int, aiocb*)> real{"aio_cancel"};
  return on_descriptor(Call::kAioCancel, fd, [&] { return real(fd, request); });
}

int lio_listio(int mode, aiocb* const requests[], int count, sigevent* event) {
  static constinit Real<int(int, aiocb* const*, int, sigevent*)> real{"lio_listio"};
  if (!recording(Level::kPosix)) return real(mode, requests, count, event);
  uint64_t size = 0;
  int fd = -1;
  const bool has_mode = mode == LIO_WAIT || mode == LIO_NOWAIT;  // otherwise the list is not read
  for (int i = 0; has_mode && i < count; ++i) {
    if (requests[i] == nullptr || requests[i]->aio_lio_opcode == LIO_NOP) continue;
    size += requests[i]->aio_nbytes;
    fd = requests[i]->aio_fildes;
  }
  const NameId file = fd < 0 ? kNoName : file_of(describe(fd));
  return traced({.call = Call::kLioListio, .file = file, .size = size},
                [&] { return real(mode, requests, count, event); });
}

}  // extern "C"

// Other names of the same calls: for 64-bit files, and internal to the C library. Defined in
// assembly, because headers declare some of them with types of their own, of the same layout.
asm(R"(
  .globl aio_read64
  .set aio_read64, aio_read
  .globl aio_write64
  .set aio_write64, aio_write
  .globl aio_fsync64
  .set aio_fsync64, aio_fsync
  .globl aio_return64
  .set aio_return64, aio_return
  .globl aio_suspend64
  .set aio_suspend64, aio_suspend
  .globl aio_cancel64
  .set aio_cancel64, aio_cancel
  .globl lio_listio64
  .set lio_listio64, lio_listio
)");
