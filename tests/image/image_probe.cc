// image_probe: prints pixels and crops as Millrace makes them, for scripts to compare.
//
//   image_probe sample FILE key=value...   the decoded sample, raw, to standard output
//   image_probe window FILE X Y WIDTH HEIGHT EIGHTHS   a part of a JPEG, three bytes per pixel
//   image_probe crops WIDTH HEIGHT COUNT   one line each: x y width height flip
//   image_probe jpeg|png FILE WIDTH HEIGHT   encodes raw pixels of FILE, to standard output
#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/io/file.h"
#include "format/images/image_decoder.h"
#include "format/images/jpeg.h"
#include "format/images/png.h"

namespace millrace {
namespace {

using format::ImageDecoder;
using format::ImageOptions;
using format::ImageTransform;
using Words = std::vector<std::string>;

int refuse(const Error& error) {
  fmt::print(stderr, "{}\n", error.message());
  return 1;
}

int put(ByteView bytes) {
  return std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size() ? 0 : 1;
}

uint32_t number(const std::string& text) {
  return static_cast<uint32_t>(std::strtoul(text.c_str(), nullptr, 10));
}

ImageTransform transform_of(std::string_view name) {
  if (name == "none") return ImageTransform::kNone;
  if (name == "resize") return ImageTransform::kResize;
  if (name == "centre") return ImageTransform::kCentreCrop;
  return ImageTransform::kRandomResizedCrop;
}

image::PixelType type_of(std::string_view name) {
  if (name == "f16") return image::PixelType::kF16;
  if (name == "bf16") return image::PixelType::kBf16;
  return name == "f32" ? image::PixelType::kF32 : image::PixelType::kU8;
}

struct Request {
  ImageOptions options;
  data::DecodeContext context;
};

void set(Request& request, std::string_view key, const std::string& value) {
  ImageOptions& options = request.options;
  if (key == "width") options.size.width = number(value);
  if (key == "height") options.size.height = number(value);
  if (key == "transform") options.transform = transform_of(value);
  if (key == "resize_to") options.resize_to = number(value);
  if (key == "flip") options.flip_probability = std::atof(value.c_str());
  if (key == "type") options.pixels.type = type_of(value);
  if (key == "antialias") options.antialias = value == "1";
  if (key == "scaled") options.scaled_decode = value == "1";
  if (key == "sample") request.context.sample = data::SampleId{number(value)};
  if (key == "normalise" && value == "1") {
    options.pixels.mean = {0.485f, 0.456f, 0.406f};
    options.pixels.deviation = {0.229f, 0.224f, 0.225f};
  }
}

int sample(const Words& words) {
  Request request;
  request.options.pixels.layout = image::Layout::kNhwc;
  for (size_t i = 1; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    set(request, std::string_view(words[i]).substr(0, equals), words[i].substr(equals + 1));
  }
  const auto bytes = read_file(words[0]);
  if (!bytes.ok()) return refuse(bytes.error());
  const auto decoder = ImageDecoder::create(request.options);
  if (!decoder.ok()) return refuse(decoder.error());
  std::vector<std::byte> out((*decoder)->fields()[0].size_bytes());
  const data::Output outputs[] = {MutableByteView(out)};
  const Status status = (*decoder)->decode(bytes_of(*bytes), request.context, outputs, nullptr);
  return status.ok() ? put(out) : refuse(status.error());
}

class Rows final : public image::RowSink {
 public:
  explicit Rows(uint32_t width) : width_(width) {}
  void begin(const image::RowRun& run) override {
    lead_ = run.lead_pixels;
    row_.resize(size_t{run.total_pixels} * image::kChannels);
  }
  uint8_t* room() override { return row_.data(); }
  void row_done() override {
    put(std::as_bytes(std::span(row_))
            .subspan(lead_ * image::kChannels, width_ * image::kChannels));
  }

 private:
  size_t width_;
  size_t lead_ = 0;
  std::vector<uint8_t> row_;
};

int window(const Words& words) {
  const auto bytes = read_file(words[0]);
  if (!bytes.ok()) return refuse(bytes.error());
  const auto reader = format::JpegReader::create({});
  if (!reader.ok()) return refuse(reader.error());
  if (const auto size = (*reader)->open(bytes_of(*bytes)); !size.ok()) return refuse(size.error());
  const image::Rect part{number(words[1]), number(words[2]), number(words[3]), number(words[4])};
  Rows rows(part.width);
  const Status status = (*reader)->read(part, number(words[5]), rows);
  return status.ok() ? 0 : refuse(status.error());
}

int crops(const Words& words) {
  const auto decoder = ImageDecoder::create({.size = {224, 224}, .flip_probability = 0.5});
  if (!decoder.ok()) return refuse(decoder.error());
  const image::Size size{number(words[0]), number(words[1])};
  for (uint64_t i = 0; i < number(words[2]); ++i) {
    const image::Crop crop = (*decoder)->crop_of(size, {.sample = data::SampleId{i}});
    const image::Rect& part = crop.bounds;
    fmt::print("{} {} {} {} {}\n", part.x, part.y, part.width, part.height, crop.flip ? 1 : 0);
  }
  return 0;
}

int encode(std::string_view kind, const Words& words) {
  const auto bytes = read_file(words[0]);
  if (!bytes.ok()) return refuse(bytes.error());
  const image::Size size{number(words[1]), number(words[2])};
  const image::ImageView view{reinterpret_cast<const uint8_t*>(bytes->data()), size,
                              size_t{size.width} * image::kChannels};
  const auto encoded = kind == "png" ? format::write_png(view) : format::write_jpeg(view, {});
  return encoded.ok() ? put(*encoded) : refuse(encoded.error());
}

int run(const std::string& verb, const Words& words) {
  if (verb == "sample" && !words.empty()) return sample(words);
  if (verb == "window" && words.size() == 6) return window(words);
  if (verb == "crops" && words.size() == 3) return crops(words);
  if ((verb == "jpeg" || verb == "png") && words.size() == 3) return encode(verb, words);
  return 2;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  return millrace::run(argv[1], millrace::Words(argv + 2, argv + argc));
}
