// The bytes of samples that travel from one rank to another in a round of an exchange.
// docs/formats/local-storage.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/base.h"
#include "base/result.h"
#include "loader/exchange_plan.h"

namespace millrace::loader {

class LocalStorage;

struct ExchangeRound {
  data::Epoch epoch{};
  uint64_t round = 0;
};

// The message with the samples of `moves`, read from the storage.
Result<std::string> pack_samples(const ExchangeRound& round, std::span<const ExchangeMove> moves,
                                 const LocalStorage& storage);

// The bytes of the samples of `moves` in a message, by move. Fails where it is not the message that
// is due, or not whole.
Result<std::vector<ByteView>> unpack_samples(const ExchangeRound& round,
                                             std::span<const ExchangeMove> moves, ByteView message);

}  // namespace millrace::loader
