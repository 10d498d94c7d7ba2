// Any bytes may be a file of records, or an Example. An Example that is written and read back is
// the same.
#include "format/records/tfrecord.h"
#include "tests/fuzz/sample_format.h"

namespace {

using namespace millrace;
using namespace millrace::format;

void check_written(const SampleFields& fields) {
  const auto written = make_example(fields.list());
  if (!written.ok()) std::abort();
  SampleFields again;
  if (!parse_example(bytes_of(*written), again).ok()) std::abort();
  if (again.list().size() != fields.list().size()) std::abort();
  for (size_t i = 0; i < again.list().size(); ++i) {
    const Field& a = fields.list()[i];
    const Field& b = again.list()[i];
    if (a.name != b.name || a.array.type != b.array.type) std::abort();
    if (text_of(a.array.bytes) != text_of(b.array.bytes)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  const auto tfrecord = *open_format("tfrecord");
  read_as(*tfrecord, content);
  // Only the payload, in a correct frame.
  read_as(*tfrecord, frame_tfrecord(bytes_of(content)));
  SampleFields fields;
  if (parse_example(bytes_of(content), fields).ok()) check_written(fields);
  return 0;
}
