// Partial local shuffling for Python: the samples that this rank holds, and their exchange with
// others.
#include <mutex>

#include "comm/comm.h"
#include "comm/connect.h"
#include "comm/messages.h"
#include "loader/exchange/exchange.h"
#include "loader/exchange/local_source.h"
#include "loader/exchange/local_storage.h"
#include "loader/exchange/settle.h"
#include "loader_extension/bindings.h"

namespace millrace::python {
namespace {

using loader::Exchange;
using loader::LocalStorage;
using loader::Order;
using loader::OrderOptions;

// Shared by whoever exchanges or asks; it ends when the last of them has ended.
std::shared_ptr<comm::Comm>& process_comm() {
  static std::shared_ptr<comm::Comm> comm;
  return comm;
}

class PyExchange {
 public:
  struct Options {
    std::string directory;
    double fraction = 0;
    uint64_t seed = 0;
  };

  static Result<std::unique_ptr<PyExchange>> open(const Source& source, const Options& options) {
    std::unique_ptr<PyExchange> made(new PyExchange);
    ASSIGN_OR_RETURN(made->comm_, connected());
    const OrderOptions order{.shuffle = loader::Shuffle::kPartial,
                             .sample_count = source.source->sample_count(),
                             .seed = options.seed,
                             .shard_count = made->comm_->size(),
                             .fraction = options.fraction};
    ASSIGN_OR_RETURN(made->order_, loader::make_order(order));
    auto storage =
        LocalStorage::open({.directory = options.directory, .order = order, .rank = made->rank()});
    Status opened;
    if (!storage.ok()) opened = std::move(storage).error();
    RETURN_IF_ERROR(made->comm_->agree(opened));  // else the others would wait for this one
    made->storage_ = *std::move(storage);
    made->held_ = std::make_unique<loader::LocalSource>(made->storage_, source.source);
    RETURN_IF_ERROR(loader::settle(*made->storage_, *made->comm_));
    if (!made->storage_->epoch()) {
      RETURN_IF_ERROR(loader::stage_shard(*made->storage_, *source.source, *made->comm_));
    }
    ASSIGN_OR_RETURN(made->messages_, made->comm_->open_messages());
    made->exchange_ = std::make_unique<Exchange>(*made->comm_, *made->messages_, *made->storage_);
    return made;
  }

  ~PyExchange() { close(); }

  uint32_t rank() const { return comm::index_of(comm_->rank()); }
  uint32_t size() const { return comm_->size(); }
  uint64_t epoch() const { return data::number_of(storage_->epoch().value_or(data::Epoch{0})); }

  // This rank's, in the order of the epoch.
  std::vector<uint64_t> samples() const {
    std::vector<data::SampleId> ids(storage_->slot_count());
    order_->fill(data::Epoch{epoch()}, rank(), size(), ids);
    std::vector<uint64_t> samples;
    samples.reserve(ids.size());
    for (const data::SampleId id : ids) samples.push_back(data::index_of(id));
    return samples;
  }

  const LocalStorage& storage() const { return *storage_; }
  const loader::LocalSource& held() const { return *held_; }
  Status start() { return usable() ? exchange_->start() : closed(); }
  Status advance(uint64_t done, uint64_t count) {
    return usable() ? exchange_->advance(done, count) : closed();
  }
  Status finish() { return usable() ? exchange_->finish() : closed(); }
  loader::ExchangeStats stats() const { return exchange_ ? exchange_->stats() : last_stats_; }

  void close() {
    const py::gil_scoped_release nobody_waits;
    if (exchange_) last_stats_ = exchange_->stats();
    exchange_.reset();
    messages_.reset();
  }

 private:
  PyExchange() = default;
  bool usable() const { return exchange_ != nullptr; }
  static Error closed() { return fail(Errc::kCancelled, "the exchange was closed"); }

  std::shared_ptr<comm::Comm> comm_;  // shared with other exchanges of the process
  std::unique_ptr<Order> order_;
  std::shared_ptr<LocalStorage> storage_;  // shared with held_
  std::unique_ptr<loader::LocalSource> held_;
  std::unique_ptr<comm::Messages> messages_;
  std::unique_ptr<Exchange> exchange_;
  loader::ExchangeStats last_stats_;
};

template <typename Work>
auto without_gil(Work work) {
  auto result = [&] {
    const py::gil_scoped_release nobody_waits;
    return work();
  }();
  return take(std::move(result));
}

py::bytes read_held(const PyExchange& self, uint64_t sample) {
  data::Buffer room;
  const ByteView bytes =
      without_gil([&] { return self.held().read(data::SampleId{sample}, room); });
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

py::dict describe(const loader::ExchangeStats& stats) {
  const auto seconds = [](std::chrono::nanoseconds time) {
    return std::chrono::duration<double>(time).count();
  };
  py::dict told;
  told["samples_sent"] = stats.samples_sent;
  told["samples_received"] = stats.samples_received;
  told["bytes_sent"] = stats.bytes_sent;
  told["bytes_received"] = stats.bytes_received;
  told["moving_seconds"] = seconds(stats.moving);
  told["wait_seconds"] = seconds(stats.waited);
  told["hidden_share"] = stats.hidden_share();
  return told;
}

}  // namespace

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
      .def(py::init([](const Source& source, const std::string& directory, double fraction,
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
      .def_property_readonly(
          "stored_count_max",
          [](const PyExchange& self) { return self.storage().stored_count_max(); })
      .def("samples", &PyExchange::samples)
      .def("read", &read_held)
      .def("start", [](PyExchange& self) { without_gil([&] { return self.start(); }); })
      .def("advance",
           [](PyExchange& self, uint64_t done, uint64_t count) {
             without_gil([&] { return self.advance(done, count); });
           })
      .def("finish", [](PyExchange& self) { without_gil([&] { return self.finish(); }); })
      .def("stats", [](const PyExchange& self) { return describe(self.stats()); })
      .def("close", &PyExchange::close);
  // Which rank of how many; begins MPI where a launcher of MPI started this process.
  module.def("connect", [] {
    const auto comm = without_gil([] { return connected(); });
    return py::make_tuple(comm::index_of(comm->rank()), comm->size());
  });
  module.def("disconnect", [] {
    const py::gil_scoped_release nobody_waits;
    process_comm().reset();
  });
}

}  // namespace millrace::python
