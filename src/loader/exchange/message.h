// The message that carries samples from one rank to another in a round of an exchange.
// docs/formats/shard-storage.md.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/base.h"
#include "base/result.h"
#include "data/buffer.h"
#include "loader/exchange/plan.h"

namespace millrace::loader::exchange {

class ShardStorage;

struct Round {
  data::Epoch epoch{};
  uint64_t round = 0;
};

// Writes the message with the samples of `moves`, read from the storage, into `room`. Does not
// check their bytes: they travel with their stored checksum, and the receiver checks it.
Result<ByteView> pack_samples(const Round& round, std::span<const Move> moves,
                              const ShardStorage& storage, data::Buffer& room);

struct ReceivedSample {
  ByteView bytes;
  uint32_t crc32c = 0;  // of the bytes
};

// The samples of `moves` in a message, by move. Fails if it is not the expected message, if it is
// incomplete, or if bytes differ from those once stored.
Result<std::vector<ReceivedSample>> unpack_samples(const Round& round, std::span<const Move> moves,
                                                   ByteView message);

}  // namespace millrace::loader::exchange
