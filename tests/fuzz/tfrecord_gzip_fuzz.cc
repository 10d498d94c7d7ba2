// Any bytes may be a compressed file of records, or the content of one.
#include "base/io/gzip.h"
#include "format/file_source.h"
#include "tests/fuzz/sample_format.h"

namespace {

using namespace millrace;
using namespace millrace::format;

void read(const std::string& content) {
  const auto engine = std::make_shared<io::MemoryEngine>();
  put(*engine, "x", content);
  const auto samples = open_samples({.format = "tfrecord_gzip",
                                     .format_options = {.inflated_bytes_max = 1 << 20},
                                     .paths = {"x"},
                                     .engine = engine,
                                     .thread_count = 1});
  if (!samples.ok()) return;
  data::Buffer room;
  for (uint64_t i = 0; i < samples->source->sample_count(); ++i) {
    const auto bytes = samples->source->read(data::SampleId{i}, room);
    if (!bytes.ok()) std::abort();
    split_exactly(*samples->format, *bytes);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string content(reinterpret_cast<const char*>(data), size);
  read(content);
  const auto gzip = GzipWriter::create(1);
  if (!gzip.ok()) return 0;
  std::string packed;
  if (!(*gzip)->append(content, packed).ok() || !(*gzip)->finish(packed).ok()) std::abort();
  read(packed);
  return 0;
}
