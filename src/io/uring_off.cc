#include "io/engines.h"

namespace millrace::io {
namespace {

Error missing() {
  return fail(Errc::kUnsupported,
              "this build has no io_uring; install liburing-dev and build again, or use engine "
              "'posix'");
}

}  // namespace

Result<std::unique_ptr<Engine>> open_uring() { return missing(); }

Result<std::unique_ptr<ReadQueue>> open_uring_queue(const UringOptions&) { return missing(); }

Result<std::unique_ptr<ReadQueue>> open_uring_queue(size_t) { return missing(); }

}  // namespace millrace::io
