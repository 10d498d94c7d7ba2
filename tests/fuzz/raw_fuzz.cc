// Any bytes may be a file of records of any length: the first eight bytes give the length, the rest
// is the file. Only whole records are read; written one by one, they give the same file.
#include <cstring>

#include "format/format.h"
#include "tests/fuzz/sample_format.h"

namespace {

using namespace millrace;
using namespace millrace::format;

void check_written(const Format& raw, std::string_view content, uint64_t record_bytes) {
  io::MemoryEngine engine;
  const auto writer = raw.create(engine, "y");
  if (!writer.ok()) std::abort();
  SampleFields fields;
  for (uint64_t at = 0; at < content.size(); at += record_bytes) {
    if (!raw.split(bytes_of(content.substr(at, record_bytes)), fields).ok()) std::abort();
    if (!(*writer)->add("sample", fields.list()).ok()) std::abort();
  }
  if (!(*writer)->finish().ok()) std::abort();
  const auto reader = engine.open("y");
  if (!reader.ok()) std::abort();
  std::string written(content.size() + 1, '\0');
  const auto size = (*reader)->read_at(0, std::as_writable_bytes(std::span(written)));
  if (!size.ok() || std::string_view(written).substr(0, *size) != content) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uint64_t record_bytes = 0;
  std::string_view content(reinterpret_cast<const char*>(data), size);
  // An empty vector has a null pointer, which memcpy does not allow.
  if (size > 0) std::memcpy(&record_bytes, data, std::min(size, sizeof record_bytes));
  content.remove_prefix(std::min(size, sizeof record_bytes));
  const auto raw = open_format("raw", {.record_bytes = record_bytes});
  if (!raw.ok()) std::abort();
  read_as(**raw, content);
  if (record_bytes == 0) return 0;  // one file per sample
  io::MemoryEngine engine;
  put(engine, "x", content);
  const auto samples = (*raw)->index(engine, "x");
  if (samples.ok() != (content.size() % record_bytes == 0)) std::abort();
  if (!samples.ok()) return 0;
  if (samples->count() * record_bytes != content.size()) std::abort();
  check_written(**raw, content, record_bytes);
  return 0;
}
