#include "loader/exchange/dataset_mark.h"

#include <algorithm>
#include <string_view>

#include "base/base.h"
#include "base/bytes.h"

namespace millrace::loader {
namespace {

constexpr uint64_t kLookedAtMax = 4096;

// FNV-1a, of 64 bits.
class Hash {
 public:
  void add(ByteView bytes) {
    for (const std::byte byte : bytes) {
      value_ = (value_ ^ static_cast<uint64_t>(byte)) * 0x100000001b3;
    }
  }
  void add(uint64_t number) { add(std::as_bytes(std::span(&number, 1))); }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace

uint64_t dataset_mark(const data::SampleSource& dataset) {
  const uint64_t count = dataset.sample_count();
  const uint64_t looked_at = std::min(count, kLookedAtMax);
  Hash hash;
  hash.add(count);
  for (uint64_t i = 0; i < looked_at; ++i) {
    // Not i * count / looked_at, whose product may not fit.
    const uint64_t index = count / looked_at * i + std::min(i, count % looked_at);
    const data::SampleId sample{index};
    const std::string name = dataset.name(sample);
    hash.add(bytes_of(std::string_view(name).substr(name.rfind('/') + 1)));
    hash.add(static_cast<uint64_t>(dataset.label(sample).value_or(-1)));
  }
  return std::max<uint64_t>(hash.value(), 1);
}

}  // namespace millrace::loader
