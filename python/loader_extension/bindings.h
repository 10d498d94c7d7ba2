// bindings: what the sources of the extension share: errors as exceptions, and the wrapped types.
//
// pybind11 costs six seconds per source file, so only files that need it include this header.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "comm/comm.h"
#include "data/decoder.h"
#include "data/source.h"
#include "format/file_source.h"
#include "loader/exchange/held_shard.h"
#include "loader/order/order.h"
#include "loader/order/share.h"
#include "loader_extension/array.h"

namespace millrace::python {

namespace py = pybind11;

// Raises the Python exception for the error. `of_sample`: the error occurred while reading a
// sample.
[[noreturn]] void raise(const Error& error, bool of_sample = false);

template <typename T>
T take(Result<T> result) {
  if (!result.ok()) raise(result.error());
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

// Shared with the loaders that read through them.
struct SourceHandle {
  explicit SourceHandle(const std::shared_ptr<const format::FileSource>& opened)
      : source(opened),
        format(opened->format()),
        class_names(opened->dataset().class_names().begin(), opened->dataset().class_names().end()),
        element(opened->element()) {}
  explicit SourceHandle(format::Samples opened)
      : source(std::move(opened.source)),
        format(std::move(opened.format)),
        element(std::move(opened.element)) {}
  // Other samples with the class names and the element of `of`.
  SourceHandle(const SourceHandle& of, std::shared_ptr<const data::SampleSource> part,
               std::shared_ptr<const format::Format> split_by)
      : source(std::move(part)),
        format(std::move(split_by)),
        class_names(of.class_names),
        element(of.element) {}

  std::shared_ptr<const data::SampleSource> source;  // all samples of the files, or a subset
  std::shared_ptr<const format::Format> format;      // null if samples are plain bytes
  std::vector<std::string> class_names;              // by label; of several folders: the first's
  std::optional<data::FieldSpec> element;            // as FileSource::element()
};

// File names are bytes. In Python they are text that can be converted back (PEP 383).
py::str file_text(std::string_view bytes);

struct Decoder {
  std::shared_ptr<const data::Decoder> decoder;
};

// The ranks of this process's job. Initializes MPI once; disconnect() ends it.
Result<std::shared_ptr<comm::Comm>> connected();

// The samples of a batch, which of them are real (not padding), and the seeds of its rows.
py::tuple samples_of(const loader::order::Share& share, const loader::order::Order& order,
                     uint64_t epoch, uint64_t index);

// What a rank holds on its storage, and what it exchanged.
py::dict describe_held(const loader::exchange::HeldStats& stats);

// An array that owns its memory.
Array make_array(data::ElementType type, std::vector<int64_t> shape);

void bind_sources(py::module_& module);
void bind_drawing(py::module_& module);
void bind_batch(py::module_& module);
void bind_loader(py::module_& module);
void bind_exchange(py::module_& module);

}  // namespace millrace::python
