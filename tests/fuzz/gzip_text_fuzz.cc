// Any bytes may be a compressed file of text, or the content of one.
#include <vector>

#include "base/io/gzip.h"
#include "bench/samples/gzip_engine.h"
#include "tests/fuzz/sample_format.h"

namespace {

using namespace millrace;

// What the engine inflates; empty if it refuses.
std::string inflated(const std::string& packed) {
  const auto memory = std::make_shared<io::MemoryEngine>();
  format::put(*memory, "x.csv.gz", packed);
  bench::GzipEngine engine(memory, 1);
  const auto reader = engine.open("x.csv.gz");
  if (!reader.ok()) return {};
  std::vector<std::byte> room(static_cast<size_t>(*(*reader)->size_bytes()));
  const auto read = (*reader)->read_at(0, room);
  if (!read.ok() || *read != room.size()) std::abort();
  return std::string(text_of(room));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string content(reinterpret_cast<const char*>(data), size);
  inflated(content);
  const auto gzip = GzipWriter::create(1);
  if (!gzip.ok()) return 0;
  std::string packed;
  if (!(*gzip)->append(content, packed).ok() || !(*gzip)->finish(packed).ok()) std::abort();
  if (inflated(packed) != content) std::abort();
  return 0;
}
