// Any bytes are a workload file and overrides, or an error. What was read can be scaled and
// written, and is the same when it is read again.
//
// The file ends at the line "%%"; each line after it is an override.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "bench/workload/load.h"
#include "bench/workload/scale.h"

namespace {

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t mark = input.find("%%\n");
  const std::vector<std::string> overrides =
      lines_of(mark == std::string_view::npos ? std::string_view() : input.substr(mark + 3));
  auto workload = millrace::bench::parse_workload(input.substr(0, mark), "fuzz.yaml", overrides);
  if (!workload.ok()) {
    const std::string& message = workload.error().message();
    const bool names_place = message.find("fuzz.yaml:") == 0 || message.find("the override '") == 0;
    if (!names_place) std::abort();
    return 0;
  }
  const std::string yaml = millrace::bench::to_yaml(*workload);
  const auto again = millrace::bench::parse_workload(yaml, "again.yaml");
  if (!again.ok() || millrace::bench::to_yaml(*again) != yaml) std::abort();
  (void)millrace::bench::scale(*workload, 0.01);
  return 0;
}
