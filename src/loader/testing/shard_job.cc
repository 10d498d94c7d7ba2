#include "loader/testing/shard_job.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>

#include "base/numbers/random.h"
#include "comm/messages.h"
#include "comm/testing/threads.h"
#include "loader/exchange/exchange.h"
#include "loader/exchange/settle.h"
#include "loader/exchange/staging.h"

namespace millrace::loader {

std::string bytes_of_sample(uint64_t sample) {
  Random random(sample * 977 + 5);
  std::string bytes(sample % 13 == 0 ? 0 : random.below(3000), '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.next());
  return bytes;
}

std::string NumberedSource::name(data::SampleId sample) const {
  return fmt::format("sample {}", data::index_of(sample));
}

Result<ByteView> NumberedSource::read(data::SampleId sample, data::Buffer& room) const {
  const std::string bytes = bytes_of_sample(data::index_of(sample));
  const MutableByteView out = room.room(bytes.size());
  std::ranges::copy(bytes_of(bytes), out.begin());
  return ByteView(out.first(bytes.size()));
}

Result<size_t> NumberedSource::read_into(data::SampleId sample, MutableByteView out) const {
  const std::string bytes = bytes_of_sample(data::index_of(sample));
  if (bytes.size() > out.size()) return fail(Errc::kExhausted, "no room");
  std::ranges::copy(bytes_of(bytes), out.begin());
  return bytes.size();
}

order::Options partial_order(uint64_t sample_count, uint32_t shard_count, double fraction) {
  return {.shuffle = order::Shuffle::kPartial,
          .sample_count = sample_count,
          .seed = 17,
          .shard_count = shard_count,
          .fraction = fraction};
}

std::vector<std::string> run_ranks(uint32_t size, const RankWork& work) {
  auto comms = comm::threads_comm(size);
  std::vector<std::string> told(size);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto comm = std::move(comms[rank]);
      const Status status = work(*comm);
      if (!status.ok()) told[rank] = status.error().message();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return told;
}

Result<std::unique_ptr<exchange::ShardStorage>> open_storage(const std::filesystem::path& directory,
                                                             const order::Options& order,
                                                             uint32_t rank) {
  return exchange::ShardStorage::open(
      {.directory = directory / fmt::format("rank{}", rank), .order = order, .rank = rank});
}

Status check_storage(const exchange::ShardStorage& storage) {
  const exchange::StorageOptions& options = storage.options();
  ASSIGN_OR_RETURN(const auto order, order::make_order(options.order));
  if (!storage.epoch()) return fail(Errc::kNotFound, "rank {} holds nothing", options.rank);
  std::set<data::SampleId> due;
  for (uint64_t p = options.rank; p < order->size(); p += options.order.shard_count) {
    due.insert(order->at(*storage.epoch(), p));
  }
  const auto samples = storage.samples();
  if (std::set(samples.begin(), samples.end()) != due || samples.size() != due.size()) {
    return fail(Errc::kCorrupt, "rank {} holds other samples than those of the order in epoch {}",
                options.rank, data::number_of(*storage.epoch()));
  }
  for (const data::SampleId sample : samples) {
    std::string bytes;
    RETURN_IF_ERROR(storage.read(sample, bytes));
    if (bytes != bytes_of_sample(data::index_of(sample))) {
      return fail(Errc::kCorrupt, "sample {} has wrong bytes", data::index_of(sample));
    }
  }
  return {};
}

Status run_exchanges(const ExchangeJob& job, comm::Comm& comm) {
  ASSIGN_OR_RETURN(const auto storage,
                   open_storage(job.directory, job.order, comm::index_of(comm.rank())));
  RETURN_IF_ERROR(exchange::settle(*storage, comm));
  if (!storage->epoch()) {
    RETURN_IF_ERROR(exchange::stage_shard(*storage, NumberedSource(job.order.sample_count), comm));
  }
  ASSIGN_OR_RETURN(const auto messages, comm.open_messages());
  exchange::Exchange exchange(comm, *messages, *storage);
  for (uint64_t epoch = 0; epoch < job.epochs; ++epoch) {
    RETURN_IF_ERROR(exchange.start());
    for (uint64_t i = 0; i < job.iterations; ++i) {
      RETURN_IF_ERROR(exchange.advance(i + 1, job.iterations));
    }
    RETURN_IF_ERROR(exchange.finish());
  }
  return {};
}

}  // namespace millrace::loader
