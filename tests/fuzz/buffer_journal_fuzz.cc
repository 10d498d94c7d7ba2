// The journal of a store's buffer: whatever its bytes are, paths stay below the upper directory,
// and what is skipped or left adds up.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "store/buffer/model.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

bool is_inside(const std::string& path) {
  const auto normal = std::filesystem::path(path).lexically_normal();
  return !path.empty() && path[0] != '/' && path.find('\0') == std::string::npos &&
         *normal.begin() != "..";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  uint64_t used = 0;
  uint64_t damaged = 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto records = store::parse_journal(bytes, &used, &damaged);
  require(used <= size && damaged <= used);
  store::BufferModel model;
  uint64_t end = 0;
  for (const store::JournalRecord& record : records) {
    require(record.end > end && record.end <= used);
    end = record.end;
    for (const std::string& path : {record.from, record.to})
      require(path.empty() || is_inside(path));
    model.queue(record);
  }
  require(records.empty() == (used == 0));
  while (model.has_queued()) {
    model.advance(model.first().value % 2 == 0);
    for (const std::string& name : model.take_settled().names) require(is_inside(name));
  }
  return 0;
}
