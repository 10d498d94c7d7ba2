// Fix: the commands that fix what a check found.
#pragma once

#include <string>
#include <string_view>

namespace millrace::doctor {

// The command that installs `debian_package`. Without apt-get, the words for a package search:
// "install what provides fusermount3 (on Debian: fuse3)".
std::string install_command(std::string_view debian_package, std::string_view provides);

// `command`, with sudo in front unless we are root.
std::string as_root(std::string_view command);

}  // namespace millrace::doctor
