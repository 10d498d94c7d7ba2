// MemberSource: where the bytes of a pack's files come from.
//
// The node service asks its sources in order: partitions on this node, later a peer that has the
// partition, at last the shared file system. A source gives the original bytes of a file, compared
// with their checksum, or fails; it never gives wrong bytes without failing at the end.
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/base.h"
#include "base/result.h"
#include "store/codec.h"
#include "store/pack.h"

namespace millrace::store {

class MemberSource {
 public:
  virtual ~MemberSource() = default;

  // Whether it is worth asking for this file. REQUIRES: `index` is a file of the catalogue
  virtual bool has(uint32_t index) const = 0;

  // Calls `each` with the bytes of the file, in order. A wrong checksum is known only after the
  // last block: whoever keeps the bytes must be able to discard them. Each thread has its own
  // codec.
  virtual Status read(uint32_t index, BlockCodec& codec,
                      const std::function<Status(ByteView block)>& each) = 0;
};

using MemberSources = std::vector<std::unique_ptr<MemberSource>>;

// The partitions that are on this node. The reader must live longer.
std::unique_ptr<MemberSource> make_pack_members(const PackReader& reader);

// The files in the directory that was packed. A file that has changed since then fails. The
// catalogue must live longer.
Result<std::unique_ptr<MemberSource>> make_origin_members(const Catalogue& catalogue,
                                                          const std::filesystem::path& origin);

}  // namespace millrace::store
