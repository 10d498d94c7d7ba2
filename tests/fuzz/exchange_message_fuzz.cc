// Any bytes are the expected message of another rank, or are refused. An accepted message has the
// samples of the plan, with correct checksums.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/hash/crc32c.h"
#include "loader/exchange/message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  using namespace millrace::loader::exchange;
  const std::vector<Move> moves = {{.turn = 7, .peer = 1, .sample = data::SampleId{2}},
                                   {.turn = 9, .peer = 1, .sample = data::SampleId{0}}};
  const auto message = std::as_bytes(std::span(data, size));
  const auto samples = unpack_samples({.epoch = data::Epoch{3}, .round = 5}, moves, message);
  if (!samples.ok()) return 0;
  if (samples->size() != moves.size()) std::abort();
  for (const ReceivedSample& sample : *samples) {
    if (sample.bytes.size() > size || crc32c(sample.bytes) != sample.crc32c) std::abort();
  }
  return 0;
}
