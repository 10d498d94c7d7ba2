#include "cli/store_mount.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "base/subprocess.h"
#include "cli/store_node.h"
#include "store/mount.h"

namespace millrace::cli {
namespace {

// Lines go to standard error. A mount in the background does not keep a pipe: whoever reads from it
// would wait for the mount to end.
File log_file(bool is_background) {
  struct stat status{};
  if (is_background && (::fstat(STDERR_FILENO, &status) != 0 || S_ISFIFO(status.st_mode) ||
                        S_ISSOCK(status.st_mode))) {
    return {};
  }
  return File(::dup(STDERR_FILENO));
}

}  // namespace

Result<int> run_mount_action(const Arguments& arguments, Output&) {
  if (arguments.has("background")) close_descriptors_except({});
  store::MountOptions options;
  options.directory = arguments.positionals()[1];
  options.packs = arguments.value("pack").value_or("");
  options.origin = arguments.value("origin").value_or("");
  if (options.packs.empty()) {
    ASSIGN_OR_RETURN(options.node, chosen_node(arguments));
  }
  options.is_background = arguments.has("background");
  const File log = log_file(options.is_background);
  options.log = [&](const std::string& line) {
    const std::string text = fmt::format("millrace: store: {}\n", line);
    static_cast<void>(!::write(log.fd(), text.data(), text.size()));
  };
  RETURN_IF_ERROR(store::serve_mount(std::move(options)));
  return kExitSuccess;
}

Result<int> run_unmount_action(const Arguments& arguments, Output&) {
  RETURN_IF_ERROR(store::unmount(arguments.positionals()[1]));
  return kExitSuccess;
}

std::vector<Option> mount_options() {
  return {{.name = "background", .help = "mount: return when it is mounted"}};
}

}  // namespace millrace::cli
