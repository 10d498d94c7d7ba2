#include "io/engine.h"

#include "base/text/spelling.h"
#include "base/text/text.h"
#include "io/engines.h"

namespace millrace::io {
namespace {

struct EngineEntry {
  std::string_view name;
  Result<std::unique_ptr<Engine>> (*open)();
};

constexpr EngineEntry kEngines[] = {
    {"auto", &open_auto},     {"posix", &open_posix}, {"direct", &open_direct},
    {"mapped", &open_mapped}, {"uring", &open_uring},
};

}  // namespace

Result<std::unique_ptr<Engine>> open_engine(std::string_view name) {
  std::vector<std::string> names;
  for (const EngineEntry& entry : kEngines) {
    if (entry.name == name) return entry.open().within(fmt::format("engine '{}'", name));
    names.emplace_back(entry.name);
  }
  return fail(Errc::kInvalidArgument, "unknown engine '{}'; the engines are {}{}", printable(name),
              join(names, ", "), did_you_mean(name, names));
}

}  // namespace millrace::io
