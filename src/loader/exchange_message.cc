#include "loader/exchange_message.h"

#include <cstring>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "loader/local_storage.h"
#include "wire/local_storage.h"

namespace millrace::loader {
namespace {

template <typename T>
void append(std::string& out, const T& value) {
  out += text_of(std::as_bytes(std::span(&value, 1)));
}

Status check_head(const wire::ExchangeHead& head, const ExchangeRound& due, size_t sample_count) {
  if (head.magic != wire::kExchangeMagic || head.version != wire::kExchangeVersion) {
    return fail(Errc::kCorrupt,
                "it is not a message of this exchange; all ranks must run the same build");
  }
  if (head.epoch != data::number_of(due.epoch) || head.round != due.round) {
    return fail(Errc::kCorrupt, "it sent round {} of epoch {}, where round {} of epoch {} was due",
                head.round, head.epoch, due.round, data::number_of(due.epoch));
  }
  if (head.sample_count != sample_count) {
    return fail(Errc::kCorrupt,
                "it sent {} samples, where {} were due; seed and fraction must be "
                "the same on all ranks",
                head.sample_count, sample_count);
  }
  return {};
}

}  // namespace

Result<std::string> pack_samples(const ExchangeRound& round, std::span<const ExchangeMove> moves,
                                 const LocalStorage& storage) {
  size_t size_bytes = sizeof(wire::ExchangeHead) + moves.size() * sizeof(wire::ExchangedSample);
  for (const ExchangeMove& move : moves) size_bytes += storage.size_bytes(move.sample).value_or(0);
  std::string message;
  message.reserve(size_bytes);  // it would be copied as it grows
  append(message, wire::ExchangeHead{.magic = wire::kExchangeMagic,
                                     .version = wire::kExchangeVersion,
                                     .sample_count = static_cast<uint32_t>(moves.size()),
                                     .epoch = data::number_of(round.epoch),
                                     .round = round.round});
  for (const ExchangeMove& move : moves) {
    const size_t head_at = message.size();
    message.resize(head_at + sizeof(wire::ExchangedSample));
    ASSIGN_OR_RETURN(const uint32_t checksum, storage.read(move.sample, message));
    const wire::ExchangedSample head{
        .sample = data::index_of(move.sample),
        .size_bytes = message.size() - head_at - sizeof(wire::ExchangedSample),
        .crc32c = checksum,
        .zero = 0};
    std::memcpy(message.data() + head_at, &head, sizeof(head));
  }
  return message;
}

Result<std::vector<ByteView>> unpack_samples(const ExchangeRound& round,
                                             std::span<const ExchangeMove> moves,
                                             ByteView message) {
  ByteReader reader(message);
  ASSIGN_OR_RETURN(const auto head, reader.read<wire::ExchangeHead>());
  RETURN_IF_ERROR(check_head(head, round, moves.size()));
  std::vector<ByteView> samples;
  for (const ExchangeMove& move : moves) {
    ASSIGN_OR_RETURN(const auto sample, reader.read<wire::ExchangedSample>());
    if (sample.sample != data::index_of(move.sample)) {
      return fail(Errc::kCorrupt,
                  "it sent sample {}, where sample {} was due; seed and fraction "
                  "must be the same on all ranks",
                  sample.sample, data::index_of(move.sample));
    }
    ASSIGN_OR_RETURN(const ByteView bytes, reader.take(sample.size_bytes));
    if (crc32c(bytes) != sample.crc32c) {
      return fail(Errc::kCorrupt, "the {} bytes of sample {} came damaged", bytes.size(),
                  sample.sample);
    }
    samples.push_back(bytes);
  }
  if (!reader.at_end()) {
    return fail(Errc::kCorrupt, "{} bytes follow its last sample", reader.remaining());
  }
  return samples;
}

}  // namespace millrace::loader
