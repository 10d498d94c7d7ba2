// BuildInfo: how this program was built, and which parts it has.
#pragma once

#include <span>
#include <string_view>

namespace millrace::cli {

// An optional part. `reason` names the library it uses, or why the part is off and what to do.
struct Part {
  std::string_view name;
  std::string_view provides;
  bool built_in;
  std::string_view reason;
};

struct BuildInfo {
  std::string_view version;
  std::string_view compiler;
  std::string_view architecture;
  std::string_view build_type;
  std::span<const Part> parts;
};

const BuildInfo& build_info();

}  // namespace millrace::cli
