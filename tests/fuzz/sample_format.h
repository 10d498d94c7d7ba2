// Common code of the fuzz targets for sample formats: reads any bytes as a file of the format.
//
// Indexes the file, reads every sample into memory of exactly its size, and splits it. It is a bug
// if a sample leaves the file, or if the size of a field does not match its shape.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "format/format.h"
#include "io/testing/memory_engine.h"

namespace millrace::format {

inline void put(io::Engine& engine, const std::string& path, std::string_view content) {
  const auto writer = engine.create(path);
  if (!writer.ok() || !(*writer)->write_at(0, bytes_of(content)).ok()) std::abort();
  if (!(*writer)->close().ok()) std::abort();
}

inline void split_exactly(const Format& format, ByteView sample) {
  const std::vector<std::byte> exact(sample.begin(), sample.end());
  SampleFields fields;
  if (!format.split(exact, fields).ok()) return;
  for (const Field& field : fields.list()) {
    const uint64_t wanted =
        field.array.shape.element_count() * data::element_bytes(field.array.type);
    if (wanted != field.array.bytes.size()) std::abort();
    if (fields.find(field.name) == nullptr) std::abort();
  }
}

inline void read_as(const Format& format, std::string_view content) {
  io::MemoryEngine engine;
  put(engine, "x", content);
  const auto samples = format.index(engine, "x");
  if (!samples.ok()) {
    if (samples.error().message().empty()) std::abort();
    return;
  }
  if (samples->kind == data::FileSamples::Kind::kWhole) {
    split_exactly(format, bytes_of(content));
    return;
  }
  for (uint64_t i = 0; i < samples->count(); ++i) {
    data::Span span{samples->offset_bytes + i * samples->record_bytes, samples->record_bytes};
    if (samples->kind == data::FileSamples::Kind::kListed) span = samples->spans[i];
    if (span.offset_bytes > content.size()) std::abort();
    if (span.size_bytes > content.size() - span.offset_bytes) std::abort();
    split_exactly(format, bytes_of(content).subspan(span.offset_bytes, span.size_bytes));
  }
}

}  // namespace millrace::format
