// Any bytes are lines of a trace, or warnings; the resulting trace can be written and read.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/io/temporary_directory.h"
#include "interop/interop.h"
#include "interop/pfw/import.h"

namespace {

using namespace millrace;

// In memory, if there is such a directory: files are synced thousands of times a minute.
std::string scratch(const char* name) {
  static const TemporaryDirectory directory = std::filesystem::is_directory("/dev/shm")
                                                  ? *TemporaryDirectory::create("/dev/shm")
                                                  : *TemporaryDirectory::create();
  return (directory.path() / name).string();
}

// Lines, split at any place where a reader might split them.
uint64_t import_lines(std::string_view text, const std::string& path) {
  auto writer = trace::TraceWriter::create(path, 0);
  if (!writer.ok()) std::abort();
  interop::PfwImport import(*writer, 0);
  import.begin_file("fuzz.pfw");
  const size_t split = text.rfind('\n', text.size() / 2);
  const size_t first = split == std::string_view::npos ? 0 : split + 1;
  if (!import.take(text.substr(0, first), false).ok()) std::abort();
  if (!import.take(text.substr(first), true).ok()) std::abort();
  if (!import.finish().ok() || !writer->finish().ok()) std::abort();
  return import.event_count();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"a.mrt", "b.mrt"}) std::remove(scratch(name).c_str());
  const uint64_t count = import_lines(text, scratch("a.mrt"));
  const auto trace = trace::Trace::open(scratch("a.mrt"));
  if (!trace.ok() || trace->event_count() != count) std::abort();
  if (count == 0) return 0;
  for (const auto& exporter : interop::exporters()) {
    const auto report = interop::export_trace(*trace, exporter.name, {},
                                              scratch("out") + std::string(exporter.ending));
    if (!report.ok() || report->event_count != count) std::abort();
  }
  const auto again = interop::import_pfw({scratch("out.pfw")}, scratch("b.mrt"));
  if (!again.ok() || again->event_count != count) std::abort();
  return 0;
}
