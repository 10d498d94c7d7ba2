// Partial local shuffling for Python: the samples that this rank holds, and their exchange with
// other ranks.
#include <unistd.h>

#include <chrono>
#include <utility>

#include "comm/comm.h"
#include "comm/connect.h"
#include "comm/process_comm.h"
#include "loader/exchange/held_shard.h"
#include "loader/order/shards.h"
#include "loader_extension/bindings.h"

namespace millrace::python {
namespace {

using loader::exchange::HeldShard;
using loader::exchange::HeldStats;
using loader::order::Order;

// Shared by all exchanges and loaders of the process; it ends with the last of them. A forked child
// does not use its parent's: if the parent was alone, the child gets its own; if the parent is a
// rank, connecting fails with the reason.
std::shared_ptr<comm::Comm>& process_comm() {
  static std::shared_ptr<comm::Comm> comm;
  static pid_t process = getpid();
  if (std::exchange(process, getpid()) != getpid()) comm.reset();
  return comm;
}

class PyExchange {
 public:
  struct Options {
    std::string directory;
    double fraction = 0;
    uint64_t seed = 0;
  };

  static Result<std::unique_ptr<PyExchange>> open(const SourceHandle& source,
                                                  const Options& options) {
    std::unique_ptr<PyExchange> made(new PyExchange);
    ASSIGN_OR_RETURN(made->comm_, connected());
    const loader::order::Options order{.shuffle = loader::order::Shuffle::kPartial,
                                       .sample_count = source.source->sample_count(),
                                       .seed = options.seed,
                                       .shard_count = made->comm_->size(),
                                       .fraction = options.fraction};
    ASSIGN_OR_RETURN(made->order_, loader::order::make_order(order));
    ASSIGN_OR_RETURN(made->shard_,
                     HeldShard::open({.directory = options.directory,
                                      .order = order,
                                      .dataset = source.source,
                                      .comm = made->comm_,
                                      .staging = {.shows_progress = made->comm_->speaks()}}));
    RETURN_IF_ERROR(made->shard_->bring_to(made->shard_->first_epoch()));
    made->epoch_ = made->shard_->first_epoch();
    return made;
  }

  ~PyExchange() {
    close();
    // A forked child does not have the threads that the destructor would wait for.
    if (getpid() != process_) static_cast<void>(shard_.release());
  }

  uint32_t rank() const { return comm::index_of(comm_->rank()); }
  uint32_t size() const { return comm_->size(); }
  uint64_t epoch() const { return data::number_of(epoch_); }

  // The samples of this rank, in the order of the epoch.
  std::vector<uint64_t> samples() const {
    const loader::order::Options& order = order_->options();
    std::vector<data::SampleId> ids(
        loader::order::Shards(order.sample_count, order.shard_count).size_of(rank()));
    order_->fill(epoch_, rank(), size(), ids);
    std::vector<uint64_t> samples;
    samples.reserve(ids.size());
    for (const data::SampleId id : ids) samples.push_back(data::index_of(id));
    return samples;
  }

  Result<ByteView> read(uint64_t sample, data::Buffer& room) const {
    RETURN_IF_ERROR(check_open());
    return shard_->source()->read(data::SampleId{sample}, room);
  }
  Status start() {
    RETURN_IF_ERROR(check_open());
    return shard_->start_exchange();
  }
  Status advance(uint64_t done, uint64_t count) {
    RETURN_IF_ERROR(check_open());
    return shard_->advance(done, count);
  }
  Status finish() {
    RETURN_IF_ERROR(check_open());
    RETURN_IF_ERROR(shard_->finish_exchange());
    epoch_ = shard_->first_epoch();
    return {};
  }
  HeldStats stats() const { return shard_ && getpid() == process_ ? shard_->stats() : last_stats_; }

  void close() {
    if (getpid() != process_) return;
    const py::gil_scoped_release released_gil;
    if (shard_) last_stats_ = shard_->stats();
    shard_.reset();
  }

 private:
  PyExchange() = default;
  Status check_open() const {
    if (getpid() != process_) return comm::forked_error(process_);
    if (!shard_) return fail(Errc::kCancelled, "the exchange is closed");
    return {};
  }

  const pid_t process_ = getpid();
  std::shared_ptr<comm::Comm> comm_;  // shared with other exchanges of the process
  std::unique_ptr<Order> order_;
  std::unique_ptr<HeldShard> shard_;
  data::Epoch epoch_{};
  HeldStats last_stats_;
};

template <typename Work>
auto without_gil(Work work) {
  auto result = [&] {
    const py::gil_scoped_release released_gil;
    return work();
  }();
  return take(std::move(result));
}

py::bytes read_held(const PyExchange& self, uint64_t sample) {
  data::Buffer room;
  const ByteView bytes = without_gil([&] { return self.read(sample, room); });
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

py::dict describe_held(const HeldStats& stats) {
  const auto seconds = [](std::chrono::nanoseconds time) {
    return std::chrono::duration<double>(time).count();
  };
  const loader::exchange::Stats& exchange = stats.exchange;
  py::dict result;
  result["samples_sent"] = exchange.samples_sent;
  result["samples_received"] = exchange.samples_received;
  result["bytes_sent"] = exchange.bytes_sent;
  result["bytes_received"] = exchange.bytes_received;
  result["moving_seconds"] = seconds(exchange.moving);
  result["preparing_seconds"] = seconds(exchange.preparing);
  result["wait_seconds"] = seconds(exchange.waited);
  result["agreeing_seconds"] = seconds(exchange.agreeing);
  result["overlapped_share"] = exchange.overlapped_share();
  result["held_samples"] = stats.samples;
  result["held_bytes"] = stats.sample_bytes;
  result["file_bytes"] = stats.file_bytes;
  result["stored_samples_max"] = stats.stored_count_max;
  result["staged_samples"] = stats.staging.samples;
  result["staged_bytes"] = stats.staging.bytes;
  result["staging_seconds"] = seconds(stats.staging.time);
  result["storages_removed"] = stats.storages_removed;
  result["unreadable_samples"] = stats.staging.unreadable;
  result["first_unreadable"] = stats.staging.first_unreadable;
  return result;
}

Result<std::shared_ptr<comm::Comm>> connected() {
  std::shared_ptr<comm::Comm>& comm = process_comm();
  if (!comm) {
    ASSIGN_OR_RETURN(std::unique_ptr<comm::Comm> made, comm::connect());
    comm = std::move(made);
  }
  return comm;
}

void bind_exchange(py::module_& module) {
  py::class_<PyExchange>(module, "Exchange", "The samples of this rank, and their exchange.")
      .def(py::init([](const SourceHandle& source, const std::string& directory, double fraction,
                       uint64_t seed) {
             return without_gil([&] {
               return PyExchange::open(
                   source, {.directory = directory, .fraction = fraction, .seed = seed});
             });
           }),
           py::arg("source"), py::arg("directory"), py::arg("fraction"), py::arg("seed"))
      .def_property_readonly("rank", &PyExchange::rank)
      .def_property_readonly("size", &PyExchange::size)
      .def_property_readonly("epoch", &PyExchange::epoch)
      .def("samples", &PyExchange::samples)
      .def("read", &read_held)
      .def("start", [](PyExchange& self) { without_gil([&] { return self.start(); }); })
      .def("advance",
           [](PyExchange& self, uint64_t done, uint64_t count) {
             without_gil([&] { return self.advance(done, count); });
           })
      .def("finish", [](PyExchange& self) { without_gil([&] { return self.finish(); }); })
      .def("stats", [](const PyExchange& self) { return describe_held(self.stats()); })
      .def("close", &PyExchange::close);
  // The rank and the number of ranks. Initializes MPI if an MPI launcher started this process.
  module.def("connect", [] {
    const auto comm = without_gil([] { return connected(); });
    return py::make_tuple(comm::index_of(comm->rank()), comm->size());
  });
  module.def("disconnect", [] {
    const py::gil_scoped_release released_gil;
    process_comm().reset();
  });
}

}  // namespace millrace::python
