#include "base/io/inflate.h"

#include <libdeflate.h>

#include <memory>

namespace millrace {
namespace {

using Decompress = decltype(&libdeflate_deflate_decompress_ex);

// One per thread: making one costs as much as inflating a few kilobytes.
libdeflate_decompressor* decompressor() {
  struct Free {
    void operator()(libdeflate_decompressor* each) const { libdeflate_free_decompressor(each); }
  };
  thread_local const std::unique_ptr<libdeflate_decompressor, Free> mine(
      libdeflate_alloc_decompressor());
  return mine.get();
}

struct Inflated {
  size_t taken = 0;  // bytes of the input
  size_t made = 0;   // bytes of the output
};

Result<Inflated> inflate_one(Decompress decompress, ByteView deflated, MutableByteView out) {
  libdeflate_decompressor* const mine = decompressor();
  if (mine == nullptr) {
    return fail(Errc::kExhausted, "libdeflate cannot start decompressing: not enough memory");
  }
  // It needs pointers even if there are no bytes.
  std::byte nowhere{};
  Inflated inflated;
  const libdeflate_result outcome =
      decompress(mine, deflated.empty() ? &nowhere : deflated.data(), deflated.size(),
                 out.empty() ? &nowhere : out.data(), out.size(), &inflated.taken, &inflated.made);
  if (outcome == LIBDEFLATE_SUCCESS) return inflated;
  if (outcome == LIBDEFLATE_INSUFFICIENT_SPACE) {
    return fail(Errc::kCorrupt, "the compressed data yields more than {} bytes", out.size());
  }
  return fail(Errc::kCorrupt, "the {} compressed bytes are damaged or cut short", deflated.size());
}

Status check_all(const Inflated& inflated, ByteView deflated, MutableByteView out) {
  if (inflated.taken == deflated.size() && inflated.made == out.size()) return {};
  return fail(Errc::kCorrupt,
              "the compressed data yields {} of {} bytes, and {} of its {} bytes are unused",
              inflated.made, out.size(), deflated.size() - inflated.taken, deflated.size());
}

Status inflate_all(Decompress decompress, ByteView deflated, MutableByteView out) {
  ASSIGN_OR_RETURN(const Inflated inflated, inflate_one(decompress, deflated, out));
  return check_all(inflated, deflated, out);
}

}  // namespace

Status inflate_into(ByteView deflated, MutableByteView out) {
  return inflate_all(&libdeflate_deflate_decompress_ex, deflated, out);
}

Status inflate_zlib_into(ByteView deflated, MutableByteView out) {
  return inflate_all(&libdeflate_zlib_decompress_ex, deflated, out);
}

Status inflate_gzip_into(ByteView deflated, MutableByteView out) {
  Inflated all;
  do {
    ASSIGN_OR_RETURN(const Inflated member,
                     inflate_one(&libdeflate_gzip_decompress_ex, deflated.subspan(all.taken),
                                 out.subspan(all.made)));
    all.taken += member.taken;
    all.made += member.made;
  } while (all.taken < deflated.size());
  return check_all(all, deflated, out);
}

}  // namespace millrace
