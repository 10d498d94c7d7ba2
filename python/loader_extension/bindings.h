// bindings: what the sources of the extension share: errors as exceptions, and the wrapped types.
//
// pybind11 costs six seconds a source, so that only those that include this have it.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "comm/comm.h"
#include "data/decoder.h"
#include "data/source.h"
#include "format/file_source.h"
#include "loader/exchange/held_shard.h"
#include "loader_extension/array.h"

namespace millrace::python {

namespace py = pybind11;

// The exception of Python that says what the error says. `of_sample`: while a sample was read.
[[noreturn]] void raise(const Error& error, bool of_sample = false);

template <typename T>
T take(Result<T> result) {
  if (!result.ok()) raise(result.error());
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

// Shared with the loaders that read through them.
struct SourceHandle {
  explicit SourceHandle(std::shared_ptr<const format::FileSource> opened)
      : files(std::move(opened)), source(files) {}
  SourceHandle(std::shared_ptr<const format::FileSource> of,
               std::shared_ptr<const data::SampleSource> part)
      : files(std::move(of)), source(std::move(part)) {}

  std::shared_ptr<const format::FileSource> files;
  std::shared_ptr<const data::SampleSource> source;  // all samples of the files, or some
};

// Names of files are bytes; Python has them as text that can be turned back (PEP 383).
py::str file_text(std::string_view bytes);

struct Decoder {
  std::shared_ptr<const data::Decoder> decoder;
};

// The ranks of this process's job: MPI is begun once, and ended by disconnect().
Result<std::shared_ptr<comm::Comm>> connected();

// What a rank holds on its storage, and exchanged.
py::dict describe_held(const loader::HeldStats& stats);

// An array of its own memory.
Array make_array(data::ElementType type, std::vector<int64_t> shape);

void bind_sources(py::module_& module);
void bind_loader(py::module_& module);
void bind_exchange(py::module_& module);

}  // namespace millrace::python
