// Sources of samples and what decodes them, for Python.
#include "loader_extension/bindings.h"

namespace millrace::python {
namespace {

using data::SampleId;

SampleId checked(const Source& source, uint64_t sample) {
  if (sample >= source.source->sample_count()) {
    throw py::index_error(fmt::format("sample {} is past the end: there are {}", sample,
                                      source.source->sample_count()));
  }
  return SampleId{sample};
}

py::bytes read_sample(const Source& source, uint64_t sample) {
  const SampleId id = checked(source, sample);
  data::Buffer room;
  const auto bytes = [&] {
    const py::gil_scoped_release nobody_waits;
    return source.source->read(id, room);
  }();
  if (!bytes.ok()) raise(bytes.error(), /*of_sample=*/true);
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

// Of all samples; -1 where there is none.
Array labels_of(const Source& source) {
  const uint64_t count = source.source->sample_count();
  Array labels = make_array(data::ElementType::kI64, {static_cast<int64_t>(count)});
  auto* values = static_cast<int64_t*>(labels.elements);
  for (uint64_t i = 0; i < count; ++i) values[i] = source.source->label(SampleId{i}).value_or(-1);
  return labels;
}

void bind_source(py::module_& module) {
  py::class_<Source>(module, "Source", "Where samples come from, as encoded bytes.")
      .def("__len__", [](const Source& s) { return s.source->sample_count(); })
      .def("name",
           [](const Source& s, uint64_t sample) { return s.source->name(checked(s, sample)); })
      .def("label",
           [](const Source& s, uint64_t sample) { return s.source->label(checked(s, sample)); })
      .def("labels", &labels_of)
      .def("read", &read_sample)
      .def_readonly("class_names", &Source::class_names)
      .def_property_readonly("group_count",
                             [](const Source& s) { return s.source->group_count(); });
}

std::vector<int64_t> signed_lengths(const data::Shape& shape) {
  std::vector<int64_t> lengths;
  for (const uint64_t length : shape.lengths()) lengths.push_back(static_cast<int64_t>(length));
  return lengths;
}

// One sample, decoded as in a batch of its epoch.
py::dict decode_sample(const Decoder& decoder, const Source& source, uint64_t sample,
                       uint64_t epoch, uint64_t seed) {
  const SampleId id = checked(source, sample);
  const auto specs = decoder.decoder->fields();
  py::dict fields;
  std::vector<MutableByteView> outputs;
  for (const data::FieldSpec& spec : specs) {
    Array array = make_array(spec.type, signed_lengths(spec.shape));
    outputs.emplace_back(static_cast<std::byte*>(array.elements), array.size_bytes());
    fields[py::str(spec.name)] = std::move(array);
  }
  const Status done = [&]() -> Status {
    const py::gil_scoped_release nobody_waits;
    data::Buffer room;
    ASSIGN_OR_RETURN(const ByteView bytes, source.source->read(id, room));
    if (decoder.decoder->is_verbatim()) {
      if (bytes.size() != outputs[0].size()) {
        return fail(Errc::kCorrupt, "{}: {} bytes, where {} are expected", source.source->name(id),
                    bytes.size(), outputs[0].size());
      }
      std::copy(bytes.begin(), bytes.end(), outputs[0].begin());
      return {};
    }
    const auto scratch = decoder.decoder->make_scratch();
    return decoder.decoder
        ->decode(bytes, {.sample = id, .epoch = data::Epoch{epoch}, .seed = seed}, outputs,
                 scratch.get())
        .within(source.source->name(id));
  }();
  if (!done.ok()) raise(done.error(), /*of_sample=*/true);
  return fields;
}

py::list describe_fields(const Decoder& decoder) {
  py::list fields;
  for (const data::FieldSpec& spec : decoder.decoder->fields()) {
    fields.append(py::make_tuple(spec.name, std::string(data::element_name(spec.type)),
                                 py::tuple(py::cast(signed_lengths(spec.shape)))));
  }
  return fields;
}

void bind_decoder(py::module_& module) {
  py::class_<Decoder>(module, "Decoder", "Turns a sample's bytes into arrays.")
      .def("fields", &describe_fields, "Of each field its name, type and shape.")
      .def("decode", &decode_sample, py::arg("source"), py::arg("sample"), py::arg("epoch") = 0,
           py::arg("seed") = 0);
}

}  // namespace

void bind_sources(py::module_& module) {
  bind_source(module);
  bind_decoder(module);
}

}  // namespace millrace::python
