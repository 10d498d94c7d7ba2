#include "store/mount/mount.h"

namespace millrace::store {

Status serve_mount(MountOptions) {
  return fail(
      Errc::kUnsupported,
      "this build has no FUSE; install libfuse3-dev and build again, or use `millrace store "
      "run`, which needs it only for static programs");
}

}  // namespace millrace::store
