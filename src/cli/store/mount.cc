#include "cli/store/mount.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/io/file.h"
#include "base/system/subprocess.h"
#include "cli/store/node.h"
#include "store/mount/mount.h"

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

Result<int> run_mount(const Arguments& arguments, Output&) {
  if (arguments.has("background")) close_descriptors_except({});
  store::MountOptions options;
  options.directory = arguments.positionals().front();
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

Result<int> run_unmount(const Arguments& arguments, Output&) {
  RETURN_IF_ERROR(store::unmount(arguments.positionals().front()));
  return kExitSuccess;
}

Command mount_action() {
  Option pack = directory_option("pack", "the directory of a pack, without a running store");
  pack.alternatives = {"node", "local"};
  Option origin =
      directory_option("origin", "the same files on the shared file system (what was packed)");
  origin.needs = "pack";
  const Option background{.name = "background", .help = "return when it is mounted"};
  return {
      .name = "store mount",
      .summary = "mount a pack, or a running store, for programs that `run` cannot serve",
      .description =
          "Shows the files of --pack, or of a running store, in an existing directory, for static "
          "programs, which `store run` cannot serve. It needs FUSE. `store unmount` ends it.",
      .options = joined({{pack, origin, background}, chosen_node_options()}),
      .positionals = {{.name = "DIR",
                       .help = "where to mount; it must exist",
                       .kind = ValueKind::kDirectory}},
      .examples = {{"millrace store mount --pack packs/ --background images/",
                    "the files of a pack, without a service"}},
      .run = run_mount,
  };
}

Command unmount_action() {
  return {
      .name = "store unmount",
      .summary = "end a mount",
      .description = "Ends a mount of `store mount`. Fails if programs still use it.",
      .positionals = {{.name = "DIR",
                       .help = "where a pack is mounted",
                       .kind = ValueKind::kDirectory}},
      .examples = {{"millrace store unmount images/", "end the mount"}},
      .run = run_unmount,
  };
}

}  // namespace

std::vector<Command> mount_actions() { return {mount_action(), unmount_action()}; }

}  // namespace millrace::cli
