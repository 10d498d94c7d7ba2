// Sources and decoders for Python.
#include <array>
#include <cstring>
#include <utility>

#include "data/concat_source.h"
#include "data/decoded_sample.h"
#include "data/subset_source.h"
#include "format/arrays/array_decoder.h"
#include "format/arrays/integer_types.h"
#include "format/images/image_decoder.h"
#include "format/joined_source.h"
#include "loader_extension/bindings.h"
#include "store/client/store_engine.h"

namespace millrace::python {
namespace {

using data::ElementType;
using data::SampleId;

std::vector<int64_t> signed_lengths(const data::Shape& shape) {
  std::vector<int64_t> lengths;
  for (const uint64_t length : shape.lengths()) lengths.push_back(static_cast<int64_t>(length));
  return lengths;
}

py::tuple describe_field(const data::FieldSpec& spec) {
  py::list lengths;
  if (spec.is_ragged()) lengths.append(py::none());  // any
  for (const uint64_t length : spec.shape.lengths()) lengths.append(length);
  return py::make_tuple(spec.name, std::string(data::element_name(spec.type)), py::tuple(lengths));
}

// Releases the GIL: listing a million files takes a while.
template <typename Open>
auto opened(Open open) {
  auto result = [&] {
    const py::gil_scoped_release released_gil;
    return open();
  }();
  return take(std::move(result));
}

ElementType type_from(const std::string& name) {
  std::string known;
  for (int i = 0; i <= static_cast<int>(ElementType::kBool); ++i) {
    const auto type = static_cast<ElementType>(i);
    if (data::element_name(type) == name) return type;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", data::element_name(type));
  }
  throw py::value_error(fmt::format("unknown dtype '{}'; expected one of {}", name, known));
}

data::Shape shape_from(const std::vector<uint64_t>& lengths) {
  return take(data::Shape::make(lengths));
}

// ---- Source -------------------------------------------------------------------------------------

using Engine = std::shared_ptr<io::Engine>;

// The engine of this name, or that of the job's store if paths are below its root.
Engine engine_from(const std::string& name, const std::vector<std::string>& paths) {
  return store::engine_for(paths, take(io::open_engine(name)));
}

// Not os.path.isdir: a store's directories may be visible only to its engine.
bool is_directory(const std::string& path) {
  return engine_from("posix", {path})->listing().identity(path).ok();
}

bool has_directories(const std::string& path) {
  const Engine engine = engine_from("posix", {path});
  bool found = false;
  take(engine->listing().visit(path, [&](std::string_view, const Result<io::ListedKind>& kind) {
    found |= kind.ok() && *kind == io::ListedKind::kDirectory;
    return Status();
  }));
  return found;
}

SourceHandle open_folder(const std::string& directory, std::vector<std::string> extensions,
                         bool has_classes, const std::string& format_name,
                         const std::string& engine) {
  const Engine how = engine_from(engine, {directory});
  return SourceHandle(opened([&] {
    return format::open_folder({.directory = directory,
                                .extensions = std::move(extensions),
                                .format = format_name,
                                .has_classes = has_classes,
                                .engine = how});
  }));
}

SourceHandle open_files(const std::vector<std::string>& paths, const std::string& directory,
                        const std::string& format_name, uint64_t record_bytes, bool rows,
                        std::optional<bool> header, const std::string& float_type,
                        uint64_t window_tokens, const std::vector<std::string>& field_names,
                        const std::string& engine) {
  std::vector<std::string> all = paths;
  if (!directory.empty()) all.push_back(directory);
  const Engine how = engine_from(engine, all);
  format::FormatOptions options{
      .record_bytes = record_bytes,
      .rows = rows,
      .text_float = type_from(float_type),
      .window_tokens = window_tokens,
  };
  if (header) options.header = *header ? format::HeaderRow::kYes : format::HeaderRow::kNo;
  options.columns = field_names;
  options.hdf5 = {.datasets = field_names, .whole_files = !rows};
  return SourceHandle(opened([&] {
    return format::open_samples({.format = format_name,
                                 .format_options = options,
                                 .paths = {paths.begin(), paths.end()},
                                 .directory = directory,
                                 .engine = how});
  }));
}

SampleId checked(const SourceHandle& source, uint64_t sample) {
  if (sample >= source.source->sample_count()) {
    throw py::index_error(fmt::format("sample {} is out of range: there are {} samples", sample,
                                      source.source->sample_count()));
  }
  return SampleId{sample};
}

SourceHandle subset(const SourceHandle& source, const std::vector<uint64_t>& numbers) {
  std::vector<SampleId> samples;
  samples.reserve(numbers.size());
  for (const uint64_t number : numbers) samples.push_back(SampleId{number});
  return {source, take(data::SubsetSource::make(source.source, std::move(samples))), source.format};
}

// REQUIRES: at least one folder.
SourceHandle join_folders(const std::vector<std::pair<std::string, const SourceHandle*>>& folders) {
  std::vector<format::Part> parts;
  for (const auto& [name, folder] : folders) parts.push_back({name, folder->source});
  const auto joined = take(format::JoinedSource::make(std::move(parts)));
  return {*folders.front().second, joined, joined->format()};
}

// The samples of all, one source after the other. Class names and the format are the first one's.
SourceHandle concat_sources(const std::vector<SourceHandle>& handles) {
  std::vector<std::shared_ptr<const data::SampleSource>> parts;
  for (const SourceHandle& handle : handles) parts.push_back(handle.source);
  auto whole = take(data::ConcatSource::make(std::move(parts)));
  return {handles[0], std::move(whole), handles[0].format};
}

py::bytes read_sample(const SourceHandle& source, uint64_t sample) {
  const SampleId id = checked(source, sample);
  data::Buffer room;
  const auto bytes = [&] {
    const py::gil_scoped_release released_gil;
    return source.source->read(id, room);
  }();
  if (!bytes.ok()) raise(bytes.error(), /*of_sample=*/true);
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

// The labels of all samples; -1 for none.
Array labels_of(const SourceHandle& source) {
  const uint64_t count = source.source->sample_count();
  Array labels = make_array(data::ElementType::kI64, {static_cast<int64_t>(count)});
  auto* values = static_cast<int64_t*>(labels.elements);
  for (uint64_t i = 0; i < count; ++i) values[i] = source.source->label(SampleId{i}).value_or(-1);
  return labels;
}

void bind_source(py::module_& module) {
  py::class_<SourceHandle>(module, "Source", "Reads encoded samples by index.")
      .def("__len__", [](const SourceHandle& s) { return s.source->sample_count(); })
      .def("name", [](const SourceHandle& s,
                      uint64_t sample) { return file_text(s.source->name(checked(s, sample))); })
      .def("label", [](const SourceHandle& s,
                       uint64_t sample) { return s.source->label(checked(s, sample)); })
      .def("labels", &labels_of)
      .def("read", &read_sample)
      .def("subset", &subset, "Some of the samples, in this order.")
      .def_property_readonly("class_names",
                             [](const SourceHandle& s) {
                               py::list names;
                               for (const auto& name : s.class_names) {
                                 names.append(file_text(name));
                               }
                               return names;
                             })
      .def_property_readonly("has_labels",
                             [](const SourceHandle& s) {
                               return s.source->sample_count() > 0 &&
                                      s.source->label(SampleId{0}).has_value();
                             })
      .def_property_readonly("element",
                             [](const SourceHandle& s) -> py::object {
                               return s.element ? describe_field(*s.element)
                                                : py::object(py::none());
                             })
      .def_property_readonly("format",
                             [](const SourceHandle& s) {
                               return s.format ? std::string(s.format->name()) : std::string();
                             })
      .def_property_readonly("group_count",
                             [](const SourceHandle& s) { return s.source->group_count(); });
}

// The elements of a field of a decoded sample, which they keep alive.
Array elements_of(const std::shared_ptr<data::DecodedSample>& sample, size_t field) {
  const data::FieldSpec& spec = sample->fields()[field];
  std::vector<int64_t> shape = signed_lengths(spec.shape);
  if (spec.is_ragged()) {
    shape.insert(shape.begin(), static_cast<int64_t>(sample->length(field)));
  }
  return {.type = spec.type,
          .shape = std::move(shape),
          .elements = sample->bytes(field).data(),
          .memory = sample};
}

// Decodes the bytes that `read` returns. Holds the GIL only to make the arrays.
template <typename Read>
py::dict decode_what(const Decoder& decoder, const data::DecodeContext& context,
                     const std::string& name, Read read) {
  std::shared_ptr<data::DecodedSample> decoded;
  const Status done = [&]() -> Status {
    const py::gil_scoped_release released_gil;
    ASSIGN_OR_RETURN(const ByteView bytes, read());
    const auto scratch = decoder.decoder->make_scratch();
    decoded = std::make_shared<data::DecodedSample>(decoder.decoder->fields());
    return decoder.decoder->decode(bytes, context, decoded->outputs(), scratch.get()).within(name);
  }();
  if (!done.ok()) raise(done.error(), /*of_sample=*/true);
  py::dict fields;
  for (size_t i = 0; i < decoded->fields().size(); ++i) {
    fields[py::str(decoded->fields()[i].name)] = elements_of(decoded, i);
  }
  return fields;
}

// Decodes one sample as in a batch of the epoch.
py::dict decode_sample(const Decoder& decoder, const SourceHandle& source, uint64_t sample,
                       uint64_t epoch, uint64_t seed) {
  const SampleId id = checked(source, sample);
  data::Buffer room;
  return decode_what(decoder, {.sample = id, .epoch = data::Epoch{epoch}, .seed = seed},
                     source.source->name(id), [&] { return source.source->read(id, room); });
}

py::dict decode_bytes(const Decoder& decoder, const py::bytes& bytes, uint64_t sample,
                      uint64_t epoch, uint64_t seed) {
  const auto text = static_cast<std::string_view>(bytes);
  return decode_what(
      decoder, {.sample = SampleId{sample}, .epoch = data::Epoch{epoch}, .seed = seed},
      fmt::format("sample {}", sample),
      [&]() -> Result<ByteView> { return std::as_bytes(std::span(text.data(), text.size())); });
}

py::list describe_fields(const Decoder& decoder) {
  py::list fields;
  for (const data::FieldSpec& spec : decoder.decoder->fields()) fields.append(describe_field(spec));
  return fields;
}

// ---- Decoder ------------------------------------------------------------------------------------

Decoder concat_decoder(const std::vector<Decoder>& decoders, const std::vector<uint64_t>& counts) {
  if (decoders.empty() || decoders.size() != counts.size()) {
    throw py::value_error("give one decoder and one count for each dataset");
  }
  std::vector<std::shared_ptr<const data::Decoder>> parts;
  for (const Decoder& each : decoders) parts.push_back(each.decoder);
  return {take(data::ConcatDecoder::make(std::move(parts), counts))};
}

// For a subset of the samples. Only decoders of several datasets care which sample they decode.
Decoder subset_decoder(const Decoder& decoder, const std::vector<uint64_t>& numbers) {
  const auto* concat = dynamic_cast<const data::ConcatDecoder*>(decoder.decoder.get());
  if (concat == nullptr) return decoder;
  std::vector<SampleId> samples;
  samples.reserve(numbers.size());
  for (const uint64_t number : numbers) samples.push_back(SampleId{number});
  return {concat->of_subset(std::move(samples))};
}

// The element, as in memory. Raises if the type cannot hold the value.
std::array<std::byte, 8> padding_from(ElementType type, const py::object& value) {
  std::array<std::byte, 8> padding{};
  const auto put = [&](auto element) {
    std::memcpy(padding.data(), &element, sizeof element);
    return true;
  };
  const auto put_integer = [&]<typename T>(T) {
    const auto number = value.cast<int64_t>();
    return std::in_range<T>(number) && put(static_cast<T>(number));
  };
  bool fits = true;
  if (type == ElementType::kF32) {
    put(value.cast<float>());
  } else if (type == ElementType::kF64) {
    put(value.cast<double>());
  } else if (type == ElementType::kF16) {
    put(image::f16_bits(value.cast<float>()));
  } else if (type == ElementType::kBf16) {
    put(image::bf16_bits(value.cast<float>()));
  } else if (type == ElementType::kBool) {
    put(static_cast<uint8_t>(value.cast<bool>()));
  } else {
    fits = format::with_integer_type(type, false, put_integer);
  }
  if (fits) return padding;
  throw py::value_error(
      fmt::format("pad={} does not fit {}", std::string(py::str(value)), data::element_name(type)));
}

// {"max_length", "truncate", "pad"}; None: not ragged.
std::optional<data::Ragged> ragged_from(const py::object& options, ElementType type) {
  if (options.is_none()) return std::nullopt;
  data::Ragged ragged{.length_max = options["max_length"].cast<uint64_t>(),
                      .truncates = options["truncate"].cast<bool>()};
  if (const py::object pad = options["pad"]; !pad.is_none()) {
    ragged.is_padded = true;
    ragged.padding = padding_from(type, pad);
  }
  return ragged;
}

Decoder array_decoder(const std::string& name, const std::string& dtype,
                      const std::vector<uint64_t>& shape, const py::object& ragged) {
  const ElementType type = type_from(dtype);
  return {format::make_raw_decoder({name, type, shape_from(shape), ragged_from(ragged, type)})};
}

image::PixelType pixel_type_from(const std::string& dtype) {
  if (dtype == "uint8") return image::PixelType::kU8;
  if (dtype == "float32") return image::PixelType::kF32;
  if (dtype == "float16") return image::PixelType::kF16;
  if (dtype == "bfloat16") return image::PixelType::kBf16;
  throw py::value_error(fmt::format(
      "dtype '{}' is not supported for images; expected uint8, float32, float16 or bfloat16",
      dtype));
}

format::ImageTransform transform_from(const std::string& name) {
  if (name == "none") return format::ImageTransform::kNone;
  if (name == "resize") return format::ImageTransform::kResize;
  if (name == "resize_center_crop") return format::ImageTransform::kCentreCrop;
  if (name == "random_resized_crop") return format::ImageTransform::kRandomResizedCrop;
  throw py::value_error(fmt::format(
      "unknown transform '{}'; expected random_resized_crop, resize_center_crop, resize or "
      "none, or give a function",
      name));
}

Decoder image_decoder(const py::kwargs& options) {
  const auto pair = [&](const char* name) {
    return options[name].cast<std::pair<double, double>>();
  };
  const auto [height, width] = options["size"].cast<std::pair<uint32_t, uint32_t>>();
  const auto [area_min, area_max] = pair("scale");
  const auto [ratio_min, ratio_max] = pair("ratio");
  const bool is_nchw = options["layout"].cast<std::string>() == "NCHW";
  format::ImageOptions wanted{
      .size = {.width = width, .height = height},
      .transform = transform_from(options["transform"].cast<std::string>()),
      .resize_to = options["resize_to"].cast<uint32_t>(),
      .random_crop = {area_min, area_max, ratio_min, ratio_max},
      .flip_probability = options["flip"].cast<double>(),
      .pixels = {.type = pixel_type_from(options["dtype"].cast<std::string>()),
                 .layout = is_nchw ? image::Layout::kNchw : image::Layout::kNhwc,
                 .mean = options["mean"].cast<std::array<float, image::kChannels>>(),
                 .deviation = options["std"].cast<std::array<float, image::kChannels>>()},
      .antialias = options["antialias"].cast<bool>(),
      .scaled_decode = options["scaled_decode"].cast<bool>(),
      .accept_damage = options["accept_damage"].cast<bool>()};
  return {std::shared_ptr<const data::Decoder>(take(format::ImageDecoder::create(wanted)))};
}

// A requested field: its names, and a dict of what is known about it:
//  - dtype, shape: None: as in the first sample;
//  - decoder: of an image;
//  - ragged: what ragged_from() takes; then the shape is that of an item;
//  - mask: the dtype; boxes: {"format", "normalized", "min_size", "min_area", "columns"};
//  - follows: the names of the image or boxes that it follows.
using FieldRequest = std::pair<std::string, py::dict>;

// "jpg;png": the field of the first sample that has one of these names, or an error that lists its
// fields.
Result<format::FieldChoice> find_choice(const std::vector<format::FieldChoice>& first,
                                        const std::string& names) {
  std::string known;
  for (const format::FieldChoice& choice : first) {
    if (fmt::format(";{};", names).find(fmt::format(";{};", choice.from)) != std::string::npos) {
      format::FieldChoice found = choice;
      found.from = names;
      found.spec.name = names.substr(0, names.find(';'));
      return found;
    }
    known += fmt::format("{}'{}'", known.empty() ? "" : ", ", choice.from);
  }
  return fail(Errc::kNotFound, "has no field '{}'; it has {}", names, known);
}

Result<std::vector<format::FieldChoice>> describe_first(const SourceHandle& source) {
  data::Buffer room;
  ASSIGN_OR_RETURN(const ByteView first, source.source->read(SampleId{0}, room));
  return format::describe_sample(*source.format, first).within(source.source->name(SampleId{0}));
}

image::BoxFormat box_format_from(const std::string& name) {
  if (name == "xyxy") return image::BoxFormat::kXyxy;
  if (name == "xywh") return image::BoxFormat::kXywh;
  if (name == "cxcywh") return image::BoxFormat::kCxcywh;
  throw py::value_error(
      fmt::format("unknown format '{}' of boxes; expected xyxy, xywh or cxcywh", name));
}

void request_mask(format::FieldChoice& choice, const std::string& dtype,
                  const std::vector<FieldRequest>& requests) {
  format::MaskOptions options{.size = {1, 1}, .type = type_from(dtype)};
  for (const auto& [names, what] : requests) {
    if (names != choice.follows || what["decoder"].is_none()) continue;
    const auto* image = dynamic_cast<const format::ImageDecoder*>(
        what["decoder"].cast<const Decoder&>().decoder.get());
    if (image != nullptr) options.size = image->size();
  }
  choice.mask = take(format::MaskDecoder::create(options));
  choice.spec = choice.mask->field();
}

void request_boxes(format::FieldChoice& choice, const py::dict& what, const data::Ragged& ragged) {
  choice.boxes = take(
      format::BoxDecoder::create({.format = box_format_from(what["format"].cast<std::string>()),
                                  .is_normalized = what["normalized"].cast<bool>(),
                                  .side_min = what["min_size"].cast<double>(),
                                  .area_min = what["min_area"].cast<double>()},
                                 ragged));
  choice.spec = choice.boxes->field();
}

// An array of the first sample as an item: without its first axis.
data::Shape item_of(const data::FieldSpec& spec) {
  if (spec.shape.axis_count() == 0) {
    throw py::value_error(fmt::format(
        "'{}' is a single number in the first sample; give its dtype and shape to Ragged",
        spec.name));
  }
  const auto lengths = spec.shape.lengths().subspan(1);
  return take(data::Shape::make(lengths));
}

void request_array(format::FieldChoice& choice, const py::dict& what) {
  const bool is_ragged = !what["ragged"].is_none();
  if (!what["dtype"].is_none()) choice.spec.type = type_from(what["dtype"].cast<std::string>());
  if (!what["shape"].is_none()) {
    choice.spec.shape = shape_from(what["shape"].cast<std::vector<uint64_t>>());
  } else if (is_ragged) {
    choice.spec.shape = item_of(choice.spec);
  }
  choice.spec.ragged = ragged_from(what["ragged"], choice.spec.type);
}

format::FieldChoice choice_from(const std::vector<format::FieldChoice>& first,
                                const FieldRequest& request,
                                const std::vector<FieldRequest>& requests,
                                const std::string& sample) {
  const auto& [names, what] = request;
  // Boxes of columns have a name of their own. The first column is in place of it.
  const auto columns = what["boxes"].is_none()
                           ? std::vector<std::string>()
                           : what["boxes"]["columns"].cast<std::vector<std::string>>();
  format::FieldChoice choice =
      take(find_choice(first, columns.empty() ? names : columns.front()).within(sample));
  if (!columns.empty()) choice = {.from = names, .spec = {.name = names}, .columns = columns};
  const std::string name = choice.spec.name;
  if (!what["follows"].is_none()) choice.follows = what["follows"].cast<std::string>();
  if (!what["decoder"].is_none()) {
    choice.decoder = what["decoder"].cast<const Decoder&>().decoder;
    choice.spec = choice.decoder->fields().at(0);
  } else if (!what["mask"].is_none()) {
    request_mask(choice, what["mask"].cast<std::string>(), requests);
  } else if (!what["boxes"].is_none()) {
    request_boxes(choice, what["boxes"].cast<py::dict>(),
                  *ragged_from(what["ragged"], ElementType::kF32));
  } else {
    request_array(choice, what);
  }
  choice.spec.name = name;
  return choice;
}

Decoder fields_decoder(const SourceHandle& source, const std::vector<FieldRequest>& requests) {
  if (source.source->sample_count() == 0) throw py::value_error("there are no samples");
  const auto first = opened([&] { return describe_first(source); });
  if (requests.empty()) return {take(format::make_field_decoder(source.format, first))};
  std::vector<format::FieldChoice> choices;
  for (const FieldRequest& request : requests) {
    choices.push_back(choice_from(first, request, requests, source.source->name(SampleId{0})));
  }
  return {take(format::make_field_decoder(source.format, std::move(choices)))};
}

void bind_decoder(py::module_& module) {
  py::class_<Decoder>(module, "Decoder", "Turns an encoded sample into arrays.")
      .def("fields", &describe_fields, "The name, type and shape of each field.")
      .def("subset", &subset_decoder, "The decoder of Source.subset().")
      .def("decode", &decode_sample, py::arg("source"), py::arg("sample"), py::arg("epoch") = 0,
           py::arg("seed") = 0)
      .def("decode_bytes", &decode_bytes, py::arg("bytes"), py::arg("sample") = 0,
           py::arg("epoch") = 0, py::arg("seed") = 0);
}

}  // namespace

void bind_sources(py::module_& module) {
  bind_source(module);
  bind_decoder(module);
  module.def("is_directory", &is_directory);
  module.def("has_directories", &has_directories);
  module.def("open_folder", &open_folder, py::arg("directory"), py::arg("extensions"),
             py::arg("has_classes"), py::arg("format") = "", py::arg("engine") = "auto");
  module.def("open_files", &open_files, py::kw_only(), py::arg("paths"), py::arg("directory"),
             py::arg("format"), py::arg("record_bytes"), py::arg("rows"),
             py::arg("header") = py::none(), py::arg("float_type") = "float32",
             py::arg("window_tokens") = 0, py::arg("field_names") = std::vector<std::string>(),
             py::arg("engine") = "auto");
  module.def("join_folders", &join_folders, py::arg("folders"));
  module.def("array_decoder", &array_decoder, py::arg("name"), py::arg("dtype"), py::arg("shape"),
             py::arg("ragged") = py::none());
  module.def("image_decoder", &image_decoder);
  module.def("concat_sources", &concat_sources, py::arg("sources"));
  module.def("concat_decoder", &concat_decoder, py::arg("decoders"), py::arg("counts"));
  module.def("fields_decoder", &fields_decoder, py::arg("source"), py::arg("requests"));
  module.def("size_bytes", [](const std::string& dtype, const std::vector<uint64_t>& shape) {
    return data::FieldSpec{"", type_from(dtype), shape_from(shape)}.size_bytes();
  });
  module.def("format_names", &format::format_names);
}

}  // namespace millrace::python
