#include "loader/exchange/message.h"

#include <cstring>

#include "base/bytes.h"
#include "base/hash/crc32c.h"
#include "loader/exchange/shard_storage.h"
#include "wire/shard_storage.h"

namespace millrace::loader::exchange {
namespace {

Status check_head(const wire::ExchangeHead& head, const Round& due, size_t sample_count) {
  if (head.magic != wire::kExchangeMagic || head.version != wire::kExchangeVersion) {
    return fail(Errc::kCorrupt,
                "it is not a message of this exchange; all ranks must run the same build");
  }
  if (head.epoch != data::number_of(due.epoch) || head.round != due.round) {
    return fail(Errc::kCorrupt, "it sent round {} of epoch {} instead of round {} of epoch {}",
                head.round, head.epoch, due.round, data::number_of(due.epoch));
  }
  if (head.sample_count != sample_count) {
    return fail(Errc::kCorrupt,
                "it sent {} samples instead of {}; seed and fraction must be the same on all ranks",
                head.sample_count, sample_count);
  }
  return {};
}

}  // namespace

Result<ByteView> pack_samples(const Round& round, std::span<const Move> moves,
                              const ShardStorage& storage, data::Buffer& room) {
  size_t size_bytes = sizeof(wire::ExchangeHead) + moves.size() * sizeof(wire::ExchangedSample);
  for (const Move& move : moves) size_bytes += storage.size_bytes(move.sample).value_or(0);
  const MutableByteView message = room.room(size_bytes).first(size_bytes);
  MutableByteView rest = message;
  const auto put = [&rest](const auto& head) {
    std::memcpy(rest.data(), &head, sizeof(head));
    rest = rest.subspan(sizeof(head));
  };
  put(wire::ExchangeHead{.magic = wire::kExchangeMagic,
                         .version = wire::kExchangeVersion,
                         .sample_count = static_cast<uint32_t>(moves.size()),
                         .epoch = data::number_of(round.epoch),
                         .round = round.round});
  for (const Move& move : moves) {
    const uint64_t length = storage.size_bytes(move.sample).value_or(0);
    const MutableByteView bytes = rest.subspan(sizeof(wire::ExchangedSample), length);
    ASSIGN_OR_RETURN(const uint32_t checksum, storage.read_unchecked(move.sample, bytes));
    put(wire::ExchangedSample{.sample = data::index_of(move.sample),
                              .size_bytes = length,
                              .crc32c = checksum,
                              .zero = 0});
    rest = rest.subspan(length);
  }
  return ByteView(message);
}

Result<std::vector<ReceivedSample>> unpack_samples(const Round& round, std::span<const Move> moves,
                                                   ByteView message) {
  ByteReader reader(message);
  ASSIGN_OR_RETURN(const auto head, reader.read<wire::ExchangeHead>());
  RETURN_IF_ERROR(check_head(head, round, moves.size()));
  std::vector<ReceivedSample> samples;
  samples.reserve(moves.size());
  for (const Move& move : moves) {
    ASSIGN_OR_RETURN(const auto sample, reader.read<wire::ExchangedSample>());
    if (sample.sample != data::index_of(move.sample)) {
      return fail(Errc::kCorrupt,
                  "it sent sample {} instead of sample {}; seed and fraction must be the same on "
                  "all ranks",
                  sample.sample, data::index_of(move.sample));
    }
    ASSIGN_OR_RETURN(const ByteView bytes, reader.take(sample.size_bytes));
    if (crc32c(bytes) != sample.crc32c) {
      return fail(Errc::kCorrupt,
                  "it sent {} damaged bytes of sample {}; check its disk, remove the storages of "
                  "all ranks and start the job again",
                  bytes.size(), sample.sample);
    }
    samples.push_back({.bytes = bytes, .crc32c = sample.crc32c});
  }
  if (!reader.at_end()) {
    return fail(Errc::kCorrupt, "it sent {} extra bytes after the last sample", reader.remaining());
  }
  return samples;
}

}  // namespace millrace::loader::exchange
