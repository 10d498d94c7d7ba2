// Any bytes may be a table. Any text that is written into a cell is read back as the same text.
#include "tests/fuzz/sample_format.h"

namespace {

using namespace millrace;
using namespace millrace::format;

void check_written(std::string_view text) {
  io::MemoryEngine engine;
  const auto csv = *open_format("csv");
  const auto writer = *csv->create(engine, "x");
  const Field fields[] = {bytes_field("a", bytes_of(text)), bytes_field("b", bytes_of("b"))};
  if (!writer->add("k", fields).ok() || !writer->finish().ok()) std::abort();
  const auto samples = csv->index(engine, "x");
  if (!samples.ok() || samples->spans.size() != 1) std::abort();
  std::vector<std::byte> row(samples->spans[0].size_bytes);
  const auto reader = *engine.open("x");
  if (!reader->read_at(samples->spans[0].offset_bytes, row).ok()) std::abort();
  SampleFields read;
  if (!csv->split(row, read).ok() || read.list().size() != 2) std::abort();
  if (text_of(read.find("a")->array.bytes) != text) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"csv", "tsv"}) {
    for (const HeaderRow header : {HeaderRow::kDetect, HeaderRow::kYes, HeaderRow::kNo}) {
      read_as(**open_format(name, {.header = header}), content);
    }
    // A row of a file that was not indexed.
    split_exactly(**open_format(name), bytes_of(content));
  }
  check_written(content);
  return 0;
}
