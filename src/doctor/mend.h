// Mend: the commands that put right what a check found.
#pragma once

#include <string>
#include <string_view>

namespace millrace::doctor {

// The command that installs something here: apt-get with the Debian package where there is one,
// elsewhere the words for the package's search: "install what provides fusermount3".
std::string install_command(std::string_view debian_package, std::string_view provides);

// `command` with sudo before it where we are not root.
std::string as_root(std::string_view command);

}  // namespace millrace::doctor
