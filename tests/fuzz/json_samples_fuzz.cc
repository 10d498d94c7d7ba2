// Any bytes may be JSON with samples. A sample that is written and read back is the same.
#include "format/text/json_samples.h"
#include "tests/fuzz/sample_format.h"

namespace {

using namespace millrace;
using namespace millrace::format;

void check_written(const SampleFields& fields) {
  const auto written = make_json_sample(fields.list());
  if (!written.ok()) return;  // NaN
  SampleFields again;
  if (!parse_json_sample(*written, data::ElementType::kF64, again).ok()) {
    // Two values may have the same dotted name.
    for (size_t i = 0; i < fields.list().size(); ++i) {
      if (fields.find(fields.list()[i].name) != &fields.list()[i]) return;
    }
    std::abort();
  }
  if (again.list().size() != fields.list().size()) std::abort();
  for (size_t i = 0; i < again.list().size(); ++i) {
    const Field& a = fields.list()[i];
    const Field& b = again.list()[i];
    if (a.name != b.name || text_of(a.array.bytes) != text_of(b.array.bytes)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  read_as(**open_format("json"), content);
  read_as(**open_format("jsonl"), content);
  SampleFields fields;
  if (parse_json_sample(content, data::ElementType::kF64, fields).ok()) check_written(fields);
  return 0;
}
