#include "base/text/yaml.h"

namespace millrace {

Result<Document> parse_yaml(std::string_view, std::string name) {
  return fail(
      Errc::kUnsupported,
      "{}: this build cannot read YAML; install yaml-cpp (libyaml-cpp-dev) and build again, "
      "or write the file as .json",
      name);
}

}  // namespace millrace
