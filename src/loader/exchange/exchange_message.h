// The bytes of samples that travel from one rank to another in a round of an exchange.
// docs/formats/local-storage.md.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/base.h"
#include "base/result.h"
#include "data/buffer.h"
#include "loader/exchange/exchange_plan.h"

namespace millrace::loader {

class LocalStorage;

struct ExchangeRound {
  data::Epoch epoch{};
  uint64_t round = 0;
};

// The message with the samples of `moves`, read from the storage, in `room`. Their bytes are not
// looked at: they travel with the checksum of when they were stored, and who gets them checks it.
Result<ByteView> pack_samples(const ExchangeRound& round, std::span<const ExchangeMove> moves,
                              const LocalStorage& storage, data::Buffer& room);

struct ReceivedSample {
  ByteView bytes;
  uint32_t crc32c = 0;  // of the bytes
};

// The samples of `moves` in a message, by move. Fails where it is not the message that is due, or
// not whole, or where bytes are not those that were once stored.
Result<std::vector<ReceivedSample>> unpack_samples(const ExchangeRound& round,
                                                   std::span<const ExchangeMove> moves,
                                                   ByteView message);

}  // namespace millrace::loader
