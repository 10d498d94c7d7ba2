// Batch, Order and Share for Python: what a batch holds, which samples it has, and its memory.
#include <optional>
#include <utility>

#include "loader/loader.h"
#include "loader/order/order.h"
#include "loader/order/share.h"
#include "loader/pipeline/schedule.h"
#include "loader_extension/bindings.h"
#include "loader_extension/pinned_memory.h"
#include "loader_extension/shared_memory.h"

namespace millrace::python {
namespace {

using loader::LoaderState;
using loader::order::Drawing;
using loader::order::Order;
using loader::order::Share;

// Values stay valid as long as the batch's memory, which each array keeps alive.
template <typename T>
Array column(const data::Batch& batch, std::span<const T> values, data::ElementType type) {
  return {.type = type,
          .shape = {static_cast<int64_t>(values.size())},
          .elements = const_cast<void*>(static_cast<const void*>(values.data())),
          .memory = batch.memory};
}

// The elements of a field: [row_count, ...]; of a ragged one, [items, ...], or padded
// [row_count, padded_length, ...].
Array elements_of(const data::Batch& batch, const data::BatchField& field) {
  std::vector<int64_t> shape{static_cast<int64_t>(batch.row_count)};
  if (field.spec.is_ragged()) {
    if (field.spec.ragged->is_padded) {
      shape.push_back(static_cast<int64_t>(field.padded_length));
    } else {
      shape[0] = field.offsets.back();
    }
  }
  for (const uint64_t length : field.spec.shape.lengths()) {
    shape.push_back(static_cast<int64_t>(length));
  }
  return {.type = field.spec.type,
          .shape = std::move(shape),
          .elements = field.bytes.data(),
          .memory = batch.memory};
}

py::dict fields_of(const data::Batch& batch) {
  py::dict fields;
  for (const data::BatchField& field : batch.fields) {
    const py::str name(field.spec.name);
    Array elements = elements_of(batch, field);
    if (!field.spec.is_ragged()) {
      fields[name] = std::move(elements);
    } else {
      const auto numbers = field.spec.ragged->is_padded ? field.lengths : field.offsets;
      fields[name] =
          py::make_tuple(std::move(elements), column(batch, numbers, data::ElementType::kI64));
    }
  }
  return fields;
}

void bind_batches(py::module_& module) {
  using data::Batch;
  using data::ElementType;
  py::class_<Batch>(module, "Batch", "The samples of one step, in the loader's memory.")
      .def_property_readonly("epoch", [](const Batch& b) { return data::number_of(b.epoch); })
      .def_readonly("index", &Batch::index)
      .def_readonly("row_count", &Batch::row_count)
      .def("fields", &fields_of,
           "The arrays by name, with row_count rows each; of a ragged field, a tuple of its items "
           "and their offsets, or of its padded rows and their lengths.")
      .def_property_readonly("samples",
                             [](const Batch& b) { return column(b, b.samples, ElementType::kI64); })
      .def_property_readonly("labels",
                             [](const Batch& b) { return column(b, b.labels, ElementType::kI64); })
      .def_property_readonly(
          "is_real", [](const Batch& b) { return column(b, b.is_real, ElementType::kBool); })
      .def("__len__", [](const Batch& b) { return b.row_count; });
}

// ---- Order and Share ----------------------------------------------------------------------------

std::unique_ptr<Order> open_order(const std::string& shuffle, uint64_t sample_count, uint64_t seed,
                                  uint32_t shard_count, double fraction, uint64_t position_count,
                                  std::shared_ptr<Drawing> drawing) {
  loader::order::Options options{.shuffle = take(loader::order::shuffle_from(shuffle)),
                                 .sample_count = sample_count,
                                 .seed = seed,
                                 .shard_count = shard_count,
                                 .fraction = fraction,
                                 .position_count = position_count,
                                 .drawing = std::move(drawing)};
  return take(loader::order::make_order(options));
}

void check_below(uint64_t number, uint64_t count, std::string_view what) {
  if (number >= count) {
    throw py::index_error(
        fmt::format("{} is past the end: the order has {} {}", number, count, what));
  }
}

// A listed order does not know an epoch whose list was not given.
void check_known(const Order& order, uint64_t epoch) {
  if (!order.knows(data::Epoch{epoch})) {
    throw py::value_error(fmt::format("the list of epoch {} was not given", epoch));
  }
}

void bind_order(py::module_& module) {
  py::class_<Order>(module, "Order", "Which sample is at which position of an epoch.")
      .def(py::init(&open_order), py::kw_only(), py::arg("shuffle"), py::arg("sample_count"),
           py::arg("seed") = 0, py::arg("shard_count") = 1, py::arg("fraction") = 0.0,
           py::arg("position_count") = 0, py::arg("drawing") = nullptr)
      .def_property_readonly("size", &Order::size)
      .def("__len__", &Order::size)
      .def("at",
           [](const Order& order, uint64_t epoch, uint64_t position) {
             check_below(position, order.size(), "positions");
             check_known(order, epoch);
             return data::index_of(order.at(data::Epoch{epoch}, position));
           })
      .def("position_of", [](const Order& order, uint64_t epoch, uint64_t sample) {
        check_below(sample, order.sample_count(), "samples");
        check_known(order, epoch);
        return order.position_of(data::Epoch{epoch}, data::SampleId{sample});
      });
}

Share open_share(uint64_t sample_count, uint64_t done, uint32_t rank, uint32_t world_size,
                 uint64_t batch_size, const std::string& tail) {
  if (rank >= world_size) throw py::value_error("the rank must be below the number of ranks");
  if (batch_size == 0) throw py::value_error("the batch size is 0");
  if (done > sample_count) throw py::value_error("more samples are done than the dataset has");
  return Share({.sample_count = sample_count,
                .done = done,
                .world = {.rank = rank, .size = world_size},
                .batch_size = batch_size,
                .tail = take(loader::order::tail_from(tail))});
}

// The seed of each row: an order that draws a sample several times has another for each time.
// Nullopt: all have that of the run. REQUIRES: the order and the share outlive the call
std::optional<std::vector<uint64_t>> row_seeds(const Order& order, const Share& share,
                                               uint64_t epoch, uint64_t index) {
  if (order.is_permutation()) return std::nullopt;
  const std::shared_ptr<void> nobody;
  const loader::pipeline::ScheduledBatch batch{
      .epoch = data::Epoch{epoch},
      .plan = share.batch(index),
      .order = std::shared_ptr<const Order>(nobody, &order),
      .share = std::shared_ptr<const Share>(nobody, &share)};
  std::vector<uint64_t> seeds;
  for (uint64_t row = 0; row < batch.plan.row_count; ++row) {
    seeds.push_back(batch.decoding_seed(order.options().seed, row));
  }
  return seeds;
}

void bind_share(py::module_& module) {
  py::class_<Share>(module, "Share",
                    "The batches of one rank, starting at any position of an epoch.")
      .def(py::init(&open_share), py::arg("sample_count"), py::arg("done"), py::arg("rank"),
           py::arg("world_size"), py::arg("batch_size"), py::arg("tail"))
      .def_property_readonly("batch_count", &Share::batch_count)
      .def("samples", &samples_of, py::arg("order"), py::arg("epoch"), py::arg("index"))
      .def("done_after", &Share::done_after, py::arg("batches"));
}

// ---- the memory of batches ----------------------------------------------------------------------

void bind_pinning(py::module_& module) {
  using loader::pipeline::Fence;
  py::class_<Fence>(module, "Fence", "Work of a GPU that may still read a buffer.")
      .def("is_over", &Fence::is_over)
      .def("wait", &Fence::wait, py::call_guard<py::gil_scoped_release>());
  py::class_<Pinning>(module, "Pinning", "Pins memory that Python maps for a GPU.")
      .def(py::init([](int device) { return take(pinning(device)); }), py::arg("device"))
      .def(
          "new_fence", [](const Pinning& pinning) { return pinning.fence(); },
          "A fence for all work of the GPU so far.")
      .def("pin",
           [](const Pinning& pinning, uintptr_t address, size_t size_bytes) {
             return pinning.pin(reinterpret_cast<void*>(address), size_bytes);
           })
      .def("unpin", [](const Pinning& pinning, uintptr_t address) {
        pinning.unpin(reinterpret_cast<void*>(address));
      });
}

void bind_shared_memory(py::module_& module) {
  using Memory = std::shared_ptr<SharedMemory>;
  py::class_<SharedMemory, Memory>(module, "SharedMemory",
                                   "Memory for batches that worker processes map.")
      .def(py::init([] { return take(SharedMemory::create()); }))
      .def_property_readonly("file", &SharedMemory::file)
      .def(
          "find",
          [](const SharedMemory& memory, const Array& array) {
            const auto place = memory.find(array.elements, array.size_bytes());
            if (!place) throw py::value_error("the array is not in this memory");
            return py::make_tuple(place->buffer_begin, place->buffer_bytes, place->offset);
          },
          "Begin and size of the buffer in the file, and where the array begins in it.");
  module.def("shared_file", [](const char* name) { return take(shared_file(name)); });
  module.def("reserve_room", [](int file, uint64_t offset, uint64_t size_bytes) {
    const Status reserved = reserve_room(file, offset, size_bytes);
    if (!reserved.ok()) raise(reserved.error());
  });
}

}  // namespace

py::tuple samples_of(const Share& share, const Order& order, uint64_t epoch, uint64_t index) {
  if (index >= share.batch_count()) throw py::index_error("the share has no such batch");
  check_known(order, epoch);
  const loader::order::BatchPlan plan = share.batch(index);
  py::list samples;
  py::list is_real;
  for (uint64_t row = 0; row < plan.row_count; ++row) {
    samples.append(data::index_of(order.at(data::Epoch{epoch}, share.position(plan, row))));
    is_real.append(row < plan.real_count);
  }
  return py::make_tuple(samples, is_real, row_seeds(order, share, epoch, index));
}

void bind_batch(py::module_& module) {
  bind_batches(module);
  bind_shared_memory(module);
  bind_pinning(module);
  bind_order(module);
  bind_share(module);
  module.def("state_text", [](const Order& order, uint64_t epoch, uint64_t done) {
    return LoaderState::of(order, data::Epoch{epoch}, done).text();
  });
}

}  // namespace millrace::python
