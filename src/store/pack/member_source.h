// MemberSource: where the bytes of a pack's files come from.
//
// The node service asks its sources in order: partitions on this node, a peer that has the
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
#include "store/order/read_ahead.h"
#include "store/pack/codec.h"
#include "store/pack/pack.h"
#include "store/peers/peers.h"
#include "store/peers/placement.h"
#include "store/service/held_partitions.h"

namespace millrace::store {

struct MemberSource {
  // Whether it is worth asking for this file. REQUIRES: `index` is a file of the catalogue
  std::function<bool(uint32_t index)> has;

  // Calls `each` with the bytes of the file, in order. A wrong checksum is known only after the
  // last block: whoever keeps the bytes must be able to discard them. Each thread has its own
  // codec.
  std::function<Status(uint32_t index, BlockCodec& codec, const EachBlock& each)> read;
};

using MemberSources = std::vector<MemberSource>;

// The partitions of the pack that this node can see. Both must live longer; `ahead` may be null.
MemberSource make_pack_members(const PackReader& reader, ReadAhead* ahead);

// The partitions that belong to this node. Both must live longer.
MemberSource make_held_members(const PackReader& reader, const HeldPartitions& held);

// The peer that holds a replica of the partition: 0 is the first one. If the peer is lost, fails
// with kTimeout. All must live longer.
struct PeerMembersOptions {
  const PackReader& reader;
  const Placement& placement;
  Peers& peers;
  uint32_t replica = 0;
};
MemberSource make_peer_members(const PeerMembersOptions& options);

// Answers the peers that ask for members of the partitions that belong to this node.
Result<PeerAnswer> answer_member(const PackReader& reader, const HeldPartitions& held,
                                 ByteView question);

// The files in the directory that was packed. A file that has changed since then fails. The
// catalogue must live longer.
Result<MemberSource> make_origin_members(const Catalogue& catalogue,
                                         const std::filesystem::path& origin);

}  // namespace millrace::store
