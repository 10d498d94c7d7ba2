#include "io/read_cursor.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace millrace::io {
namespace {

// The kernel moves at most 2 GiB less one page per call.
constexpr size_t kTransferBytesMax = size_t{1} << 30;

constexpr uint64_t floor_of(uint64_t bytes) { return bytes / kBlockBytes * kBlockBytes; }

bool is_aligned(const std::byte* address) {
  return reinterpret_cast<uintptr_t>(address) % kBlockBytes == 0;
}

}  // namespace

size_t ReadCursor::bounce_bytes() const {
  if (!read_.is_direct) return 0;
  const uint64_t at = at_bytes();
  const bool in_place =
      at % kBlockBytes == 0 && is_aligned(rest().data()) && rest().size() >= kBlockBytes;
  if (in_place) return 0;
  const uint64_t before = at - floor_of(at);
  const uint64_t wanted = std::min<uint64_t>(before + rest().size(), kBounceBytesMax);
  return floor_of(wanted + kBlockBytes - 1);
}

ReadCursor::Piece ReadCursor::next(MutableByteView bounce) {
  assert(!is_finished_);
  const size_t through_bounce = bounce_bytes();
  is_bounced_ = through_bounce > 0;
  if (is_bounced_) {
    piece_ = {floor_of(at_bytes()), bounce.first(through_bounce)};
  } else {
    const size_t wanted = std::min(rest().size(), kTransferBytesMax);
    piece_ = {at_bytes(), rest().first(read_.is_direct ? floor_of(wanted) : wanted)};
  }
  return piece_;
}

void ReadCursor::took(size_t got_bytes) {
  assert(got_bytes <= piece_.into.size());
  const size_t before = at_bytes() - piece_.offset_bytes;
  const size_t fresh = got_bytes > before ? std::min(got_bytes - before, rest().size()) : 0;
  if (is_bounced_ && fresh > 0) {
    std::memcpy(rest().data(), piece_.into.data() + before, fresh);
  }
  done_bytes_ += fresh;
  const bool was_short = got_bytes < piece_.into.size();
  const bool met_the_end =
      fresh == 0 || (was_short && !may_hide_an_error(piece_.offset_bytes + got_bytes));
  is_finished_ = met_the_end || rest().empty();
}

}  // namespace millrace::io
