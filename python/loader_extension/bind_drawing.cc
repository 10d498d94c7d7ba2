// Drawing for Python: weights, parts and lists of the orders that are not permutations.
#include <cstring>

#include "loader/order/drawing.h"
#include "loader_extension/bindings.h"

namespace millrace::python {
namespace {

using loader::order::Drawing;
using loader::order::EpochLists;

// The numbers of a contiguous buffer, such as an array.array: much faster than a list.
template <typename T>
std::vector<T> numbers_of(const py::buffer& buffer) {
  const py::buffer_info info = buffer.request();
  if (info.ndim != 1 || info.itemsize != sizeof(T) || info.strides[0] != sizeof(T)) {
    throw py::value_error("expected a row of numbers of 8 bytes");
  }
  std::vector<T> numbers(static_cast<size_t>(info.size));
  if (!numbers.empty()) std::memcpy(numbers.data(), info.ptr, numbers.size() * sizeof(T));
  return numbers;
}

std::shared_ptr<Drawing> weighted(const std::optional<py::buffer>& weights, bool replaces) {
  auto drawing = std::make_shared<Drawing>();
  if (weights) drawing->weights = numbers_of<double>(*weights);
  drawing->replaces = replaces;
  return drawing;
}

std::shared_ptr<Drawing> mixture(std::vector<double> proportions, std::vector<uint64_t> part_begins,
                                 const std::optional<py::buffer>& members) {
  auto drawing = std::make_shared<Drawing>();
  drawing->mixture = {
      .proportions = std::move(proportions),
      .part_begins = std::move(part_begins),
      .members = members ? numbers_of<uint64_t>(*members) : std::vector<uint64_t>()};
  return drawing;
}

std::shared_ptr<Drawing> listed(uint64_t sample_count, uint64_t position_count) {
  auto drawing = std::make_shared<Drawing>();
  drawing->lists = std::make_shared<EpochLists>(sample_count, position_count);
  return drawing;
}

EpochLists& lists_of(const Drawing& drawing) {
  if (!drawing.lists) throw py::value_error("only a listed order has lists");
  return *drawing.lists;
}

}  // namespace

void bind_drawing(py::module_& module) {
  py::class_<Drawing, std::shared_ptr<Drawing>>(module, "Drawing",
                                                "What an order draws from that repeats samples.")
      .def_static("weighted", &weighted, py::arg("weights"), py::arg("replaces"))
      .def_static("mixture", &mixture, py::arg("proportions"), py::arg("part_begins"),
                  py::arg("members"))
      .def_static("listed", &listed, py::arg("sample_count"), py::arg("position_count"))
      .def("put",
           [](const Drawing& drawing, uint64_t epoch, const py::buffer& samples) {
             take(lists_of(drawing).put(data::Epoch{epoch}, numbers_of<int64_t>(samples)));
           })
      .def("knows", [](const Drawing& drawing, uint64_t epoch) {
        return lists_of(drawing).find(data::Epoch{epoch}) != nullptr;
      });
}

}  // namespace millrace::python
